/// Writes a mail of welcome.
#[job(
    queue = "mail",
    max_attempts = 5,
    timeout = "30s",
    backoff = exponential(base = "10s", max = "30m"),
    label = "Welcome mail to {email}",
    serde(rename_all = "camelCase"),
)]
#[tracing::instrument]
pub async fn send_welcome_email(
    ctx: &JobContext,
    #[data] mailer: &Mailer,
    user_id: u64,
    #[serde(default)] email: String,
) -> Result<MessageId, MailError> {
    mailer.send(ctx.id(), user_id, email).await
}
