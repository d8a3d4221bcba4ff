const _: fn() = || {
    ::jobq::private::stores::<u64>();
};
/// Writes a mail of welcome.
#[derive(::jobq::private::Serialize, ::jobq::private::Deserialize)]
#[serde(crate = "::jobq::private::serde")]
#[serde(rename_all = "camelCase")]
pub struct SendWelcomeEmail {
    /// The parameter `user_id`.
    pub user_id: u64,
    /// The parameter `email`.
    #[serde(default)]
    pub email: String,
}
impl ::jobq::private::Debug for SendWelcomeEmail {
    fn fmt(
        &self,
        f: &mut ::jobq::private::Formatter<'_>,
    ) -> ::jobq::private::fmt::Result {
        ::jobq::private::debug(self, "SendWelcomeEmail", f)
    }
}
impl ::jobq::private::Job for SendWelcomeEmail {
    const TYPE: &'static str = "send_welcome_email";
    const DEFAULTS: ::jobq::private::Defaults = ::jobq::private::Defaults {
        queue: "mail",
        max_attempts: ::jobq::private::Some(5u32),
        timeout: ::jobq::private::Some(
            ::jobq::private::Timeout::After(::jobq::private::Duration::from_secs(30u64)),
        ),
        ..::jobq::private::Defaults::NONE
    };
    type Args = (u64, String);
    type Return = Result<MessageId, MailError>;
    fn from_args((user_id, email): Self::Args) -> Self {
        Self { user_id, email }
    }
    fn label(&self) -> ::jobq::private::Option<::jobq::private::String> {
        ::jobq::private::Some(::jobq::private::format!("Welcome mail to {}", self.email))
    }
}
/// Writes a mail of welcome.
pub fn send_welcome_email<'job>(
    ctx: &'job JobContext,
    mailer: &'job Mailer,
    user_id: u64,
    email: String,
) -> ::jobq::private::Call<'job, SendWelcomeEmail> {
    #[tracing::instrument]
    async fn __send_welcome_email(
        ctx: &JobContext,
        mailer: &Mailer,
        user_id: u64,
        email: String,
    ) -> Result<MessageId, MailError> {
        mailer.send(ctx.id(), user_id, email).await
    }
    ::jobq::private::Call::new(
        ::jobq::private::Box::pin(__send_welcome_email(ctx, mailer, user_id, email)),
    )
}
impl ::jobq::private::CallJob for SendWelcomeEmail {
    fn call<'a>(
        self,
        ctx: &'a ::jobq::private::JobContext,
        lent: &'a ::jobq::private::DataMap,
    ) -> ::jobq::private::Result<
        ::jobq::private::Call<'a, Self>,
        ::jobq::private::JobError,
    > {
        ::jobq::private::Ok(
            send_welcome_email(
                ctx,
                ::jobq::private::lend::<Mailer>(lent)?,
                self.user_id,
                self.email,
            ),
        )
    }
}
const _: () = {
    ::jobq::private::inventory::submit!(::jobq::private::JobEntry {
        job_type: "send_welcome_email",
        aliases: &[],
        defaults: <SendWelcomeEmail as ::jobq::private::Job>::DEFAULTS,
        backoff: ::jobq::private::BackoffPolicy::Set(::jobq::private::Backoff::Exponential {
            base: ::jobq::private::Duration::from_secs(10u64),
            factor: 2f64,
            max: ::jobq::private::Duration::from_secs(1800u64),
            jitter: 0.15f64,
        }),
        blocking: false,
        on_dead: ::jobq::private::None,
        data: &[::jobq::private::DataNeed::of::<Mailer>()],
        on: &[],
        cron: ::jobq::private::Option::None,
        secrets: <SendWelcomeEmail as ::jobq::private::Job>::SECRETS,
        upgrade: ::jobq::private::None,
        check: ::jobq::private::check::<SendWelcomeEmail>,
        run: |text, ctx, lent| {
            let job = ::jobq::private::decode::<SendWelcomeEmail>(text)?;
            ::jobq::private::Ok(
                ::jobq::private::Box::pin(async move {
                    ::jobq::private::stored::<
                        Result<MessageId, MailError>,
                    >(::jobq::private::CallJob::call(job, ctx, lent)?.await)
                }),
            )
        },
        fields: &[
            ::jobq::private::Field {
                name: "userId",
                aliases: &[],
                ty: "u64",
                optional: false,
                flatten: false,
                secret: false,
                doc: "",
                template: "0",
                schema: ::jobq::private::type_schema!(u64),
            },
            ::jobq::private::Field {
                name: "email",
                aliases: &[],
                ty: "String",
                optional: true,
                flatten: false,
                secret: false,
                doc: "",
                template: "\"\"",
                schema: ::jobq::private::type_schema!(String),
            },
        ],
        shape: "",
        written: &[
            ("queue", "\"mail\""),
            ("max_attempts", "5"),
            ("timeout", "\"30s\""),
            ("backoff", "exponential(base = \"10s\", max = \"30m\")"),
            ("label", "\"Welcome mail to {email}\""),
            ("serde", "(rename_all = \"camelCase\")"),
        ],
        doc: "Writes a mail of welcome.",
        function: "send_welcome_email",
        module: ::jobq::private::module_path!(),
        file: ::jobq::private::file!(),
        line: ::jobq::private::line!(),
    });
};
