//! The two jobs: a user's welcome mail, and the signature of a team that its members' mails wait for.

use jobq::prelude::*;
use lettre::{
    Address, AsyncFileTransport, AsyncTransport, Message, Tokio1Executor,
    message::{Mailbox, header::ContentType},
};
use std::{
    io,
    path::{Path, PathBuf},
    time::Duration,
};
use tokio::fs;

/// Writes a user's welcome mail into the outbox.
#[job(max_attempts = 20, backoff = fixed("300ms"), label = "Welcome mail to {name} <{email}>")]
pub async fn send_welcome_email(
    user_id: i64,
    name: String,
    email: String,
    team: Option<String>,
    #[data] room: &MailRoom,
) -> Result<(), JobError> {
    // No later attempt repairs an address: the job is dead at once, and its row keeps the reason.
    let address: Address = email.parse().map_err(JobError::dead)?;

    // The team's signature may not be written yet. That is an error as any other: the job is tried again.
    let signature = match team {
        Some(team) => room.signature(&team).await?,
        None => "Your Quickstart".to_owned(),
    };

    let mail = Message::builder()
        .message_id(Some(format!("<welcome-{user_id}@quickstart.example>")))
        .from("Quickstart <hello@quickstart.example>".parse()?)
        .to(Mailbox::new(Some(name.clone()), address))
        .subject(format!("Welcome, {name}!"))
        .header(ContentType::TEXT_PLAIN)
        .body(format!("Hello {name},\n\nit is good to have you here.\n\n-- \n{signature}\n"))?;
    tokio::time::sleep(room.slow).await;
    room.send(mail, user_id).await
}

/// Writes the signature of a team.
#[job(priority = 10, label = "Signature of {team}")]
pub async fn write_signature(team: String, #[data] room: &MailRoom) -> Result<(), JobError> {
    // Under another name first: no mail is to read half a signature.
    let draft = room.drafts.join(&team);
    fs::write(&draft, format!("The people of {team}")).await?;
    Ok(fs::rename(draft, room.signature_file(&team)).await?)
}

/// What the worker lends to both jobs.
pub struct MailRoom {
    transport: AsyncFileTransport<Tokio1Executor>,
    drafts: PathBuf,
    signatures: PathBuf,
    /// Where the mails lie, each as `<user id>.eml`.
    pub outbox: PathBuf,
    slow: Duration,
}

impl MailRoom {
    /// Makes the folders; every mail is to take `slow`.
    pub fn open(dir: &Path, slow: Duration) -> io::Result<Self> {
        let [drafts, signatures, outbox] = ["drafts", "signatures", "outbox"].map(|name| dir.join(name));
        for folder in [&drafts, &signatures, &outbox] {
            std::fs::create_dir_all(folder)?;
        }
        Ok(Self { transport: AsyncFileTransport::new(&drafts), drafts, signatures, outbox, slow })
    }

    /// A job may run twice, if its process was killed between the mail and the end of the job. So the user's id names the
    /// mail: the second one takes the place of the first.
    async fn send(&self, mail: Message, user_id: i64) -> Result<(), JobError> {
        let draft = self.transport.send(mail).await?;
        Ok(fs::rename(self.drafts.join(draft + ".eml"), self.mail_file(user_id)).await?)
    }

    async fn signature(&self, team: &str) -> io::Result<String> {
        let named =
            |error: io::Error| io::Error::new(error.kind(), format!("no signature of {team} yet: {error}"));
        fs::read_to_string(self.signature_file(team)).await.map_err(named)
    }

    fn signature_file(&self, team: &str) -> PathBuf {
        self.signatures.join(format!("{team}.txt"))
    }

    pub fn mail_file(&self, user_id: i64) -> PathBuf {
        self.outbox.join(format!("{user_id}.eml"))
    }
}
