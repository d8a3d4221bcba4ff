//! What has become of the jobs: tables of states and of dead letters, and the check that no user was forgotten.

use crate::mail::MailRoom;
use anyhow::ensure;
use comfy_table::{Table, presets::UTF8_FULL_CONDENSED};
use jobq::{JobFilter, JobRow, JobState, prelude::*};
use sqlx::SqlitePool;

/// Prints how many jobs stand where, one that was tried again, and the dead letters.
pub async fn print(queue: &JobQueue) -> anyhow::Result<()> {
    let mut states = table(["job", "state", "jobs"]);
    for group in queue.counts().await? {
        states.add_row([group.job_type, group.state.to_string(), group.count.to_string()]);
    }
    println!("{states}");

    let completed = all(queue, JobState::Completed).await?;
    let (retried, at_once): (Vec<_>, Vec<_>) = completed.iter().partition(|job| job.attempts > 1);
    println!("\n{} completed at the first attempt, {} after more than one.", at_once.len(), retried.len());
    if let Some(job) = retried.iter().max_by_key(|job| job.attempts) {
        println!("The attempts of \"{}\":", title(job));
        let mut attempts = table(["attempt", "outcome", "error"]);
        for attempt in queue.attempts(job.id).await? {
            let error = attempt.error.unwrap_or_default();
            attempts.add_row([attempt.attempt.to_string(), attempt.outcome.to_string(), error]);
        }
        println!("{attempts}");
    }

    let dead = all(queue, JobState::Dead).await?;
    println!("\n{} dead letters, kept until someone retries or deletes them:", dead.len());
    let mut letters = table(["job", "attempts", "reason"]);
    for job in dead.iter().take(20) {
        letters.add_row([title(job), &job.attempts.to_string(), job.error.as_deref().unwrap_or_default()]);
    }
    println!("{letters}");
    Ok(())
}

/// Every user has a mail or a dead letter, and nobody has two jobs. The jobs lie beside the app's own tables, so SQL
/// can ask for both at once.
pub async fn check(db: &SqlitePool, room: &MailRoom) -> anyhow::Result<()> {
    let no_dead_letter = "SELECT id FROM users WHERE id NOT IN (SELECT payload ->> 'user_id' FROM jobs_view
                          WHERE job_type = 'send_welcome_email' AND status = 'dead')";
    let to_be_mailed: Vec<i64> = sqlx::query_scalar(no_dead_letter).fetch_all(db).await?;
    let forgotten: Vec<_> = to_be_mailed.iter().filter(|id| !room.mail_file(**id).exists()).collect();
    ensure!(forgotten.is_empty(), "users without mail or dead letter: {forgotten:?}");

    let mails = std::fs::read_dir(&room.outbox)?.count();
    ensure!(mails == to_be_mailed.len(), "{mails} mails for {} users", to_be_mailed.len());

    let two_jobs = "SELECT payload ->> 'user_id' FROM jobs_view WHERE job_type = 'send_welcome_email'
                    GROUP BY 1 HAVING count(*) > 1";
    let twice: Vec<i64> = sqlx::query_scalar(two_jobs).fetch_all(db).await?;
    ensure!(twice.is_empty(), "users with two jobs: {twice:?}");

    println!("\nNobody is forgotten: {mails} mails lie in {}", room.outbox.display());
    Ok(())
}

async fn all(queue: &JobQueue, state: JobState) -> anyhow::Result<Vec<JobRow>> {
    let mut pages = queue.pages(JobFilter { states: vec![state], ..JobFilter::default() });
    let mut jobs = Vec::new();
    while let Some(page) = pages.next().await? {
        jobs.extend(page);
    }
    Ok(jobs)
}

fn title(job: &JobRow) -> &str {
    job.label.as_deref().unwrap_or(&job.job_type)
}

fn table<const N: usize>(header: [&str; N]) -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED).set_header(header);
    table
}
