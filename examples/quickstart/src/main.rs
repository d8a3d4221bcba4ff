//! Welcomes every user of a file: imports them, and sends each a mail through a queue that outlives a kill.
//!
//! Kill it half-way and start it again: it goes on where it was.

mod mail;
mod report;
mod users;

use anyhow::Context;
use clap::Parser;
use jobq::prelude::*;
use mail::{MailRoom, SendWelcomeEmail, write_signature};
use sqlx::{SqlitePool, sqlite::SqliteConnectOptions};
use std::{
    collections::BTreeSet,
    fs,
    io::{IsTerminal, Write, stderr, stdout},
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};
use tracing_subscriber::{
    filter::{LevelFilter, Targets},
    prelude::*,
};
use users::User;

/// Imports the users of a CSV file and sends each a welcome mail: real mails, as files in a folder.
///
/// Kill it at any time and start it again: it goes on where it was.
#[derive(Parser)]
struct Options {
    /// The users: a CSV file with the columns id, name, email, team
    #[arg(long, value_name = "FILE", default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/users.csv"))]
    users: PathBuf,
    /// Removes what earlier runs left, and starts afresh
    #[arg(long)]
    fresh: bool,
    /// Lets every mail take this many milliseconds, to have the time to kill it half-way
    #[arg(long, value_name = "MS", default_value_t = 0)]
    slow: u64,
}

/// Where database and mails go.
const DATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/quickstart-data");

#[tokio::main]
async fn main() -> ExitCode {
    // Trouble of the storage is told at once; what became of each attempt is told by the report at the end.
    let told = Targets::new().with_default(LevelFilter::WARN).with_target("jobq::executor", LevelFilter::OFF);
    let log = tracing_subscriber::fmt::layer().with_writer(stderr).with_ansi(stderr().is_terminal());
    tracing_subscriber::registry().with(log.with_filter(told)).init();
    match run(Options::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(options: Options) -> anyhow::Result<()> {
    let users = read_users(&options.users)?;

    let data = Path::new(DATA);
    if options.fresh && data.exists() {
        fs::remove_dir_all(data).with_context(|| format!("{DATA} can't be removed"))?;
    }
    let room = MailRoom::open(data, Duration::from_millis(options.slow))?;
    println!("Users     {}\nDatabase  {DATA}/quickstart.db", options.users.display());
    println!("Mails     {}\n", room.outbox.display());

    // The app has a database of its own; the queue lies in the same file.
    let file = SqliteConnectOptions::new().filename(data.join("quickstart.db")).create_if_missing(true);
    let db = SqlitePool::connect_with(file).await?;
    let queue = JobQueue::open_pool(&db).await?;
    queue.install();

    let imported = import(&users, &db).await?;
    let (done, all) = progress(&queue).await?;
    match (imported, all - done) {
        (0, 0) => {
            println!("All is done by an earlier run. To start afresh: cargo run -p quickstart -- --fresh\n")
        }
        (0, left) => println!("An earlier run ended half-way: {left} of {all} jobs are left."),
        (users, _) => println!("Imported {users} users, each with the job that sends the mail."),
    }
    if done < all {
        work(&queue, room).await?;
    }
    report::print(&queue).await?;
    report::check(&db, &MailRoom::open(data, Duration::ZERO)?).await
}

fn read_users(path: &Path) -> anyhow::Result<Vec<User>> {
    let file = fs::File::open(path).with_context(|| path.display().to_string())?;
    users::read(file).with_context(|| format!("nothing is imported from {}", path.display()))
}

/// Imports the users who are not there yet, each with a job, in one transaction: all of it is there, or nothing.
async fn import(users: &[User], db: &SqlitePool) -> anyhow::Result<usize> {
    let mut tx = db.begin_with("BEGIN IMMEDIATE").await?;
    sqlx::query(
        "CREATE TABLE IF NOT EXISTS users (id INTEGER PRIMARY KEY, name TEXT, email TEXT, team TEXT)",
    )
    .execute(&mut *tx)
    .await?;

    let (mut imported, mut teams) = (0, BTreeSet::new());
    for User { id, name, email, team } in users {
        let insert = "INSERT INTO users VALUES (?, ?, ?, ?) ON CONFLICT (id) DO NOTHING";
        let insert = sqlx::query(insert).bind(id).bind(name).bind(email).bind(team);
        if insert.execute(&mut *tx).await?.rows_affected() == 0 {
            continue;
        }
        let (user_id, name, email, team) = (*id, name.clone(), email.clone(), team.clone());
        teams.extend(team.clone());
        SendWelcomeEmail { user_id, name, email, team }.enqueue().in_tx(&mut *tx).await?;
        imported += 1;
    }
    // The teams' signatures come a second later than the first mails that want them.
    for team in teams {
        write_signature.enqueue(team).delay(secs(1)).in_tx(&mut *tx).await?;
    }
    tx.commit().await?;
    Ok(imported)
}

/// Runs the jobs until all have ended.
async fn work(queue: &JobQueue, room: MailRoom) -> anyhow::Result<()> {
    let worker = Worker::new(queue).data(room).concurrency(4).start().await?;
    tokio::select! {
        watched = watch(queue) => watched?,
        ended = worker.ended() => ended?,
    }
    Ok(worker.stop().await?)
}

/// Shows how far it is: one line that changes on a terminal, and a line at a time elsewhere.
async fn watch(queue: &JobQueue) -> anyhow::Result<()> {
    let live = stdout().is_terminal();
    let (before, after, pause) = if live { ("\r", "", 50) } else { ("", "\n", 500) };
    loop {
        let (done, all) = progress(queue).await?;
        print!("{before}{done} of {all} jobs have ended{after}");
        stdout().flush()?;
        if done == all {
            println!("\n");
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(pause)).await;
    }
}

/// How many jobs have ended, and how many there are.
async fn progress(queue: &JobQueue) -> anyhow::Result<(u64, u64)> {
    let counts = queue.counts().await?;
    let all = counts.iter().map(|group| group.count).sum();
    let done = counts.iter().filter(|group| group.state.is_terminal()).map(|group| group.count).sum();
    Ok((done, all))
}
