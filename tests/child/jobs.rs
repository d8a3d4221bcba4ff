//! The jobs of the child's worker. Each says in the journal when it starts, what it does, and when it ends.

use crate::journal::{self, say};
use jobq::{BatchOutcome, prelude::*};
use std::{fs::File, time::Duration};

/// Ends at once.
#[job]
pub async fn note(ctx: &JobContext, n: u64) {
    say("start", ctx);
    say("effect", ctx);
    say("end", ctx);
    let _ = n;
}

/// Takes a while.
#[job]
async fn slow(ctx: &JobContext, millis: u64) {
    say("start", ctx);
    tokio::time::sleep(Duration::from_millis(millis)).await;
    say("effect", ctx);
    say("end", ctx);
}

/// At most three at once, over all processes: each holds one of three locks, which the kernel frees with the process.
#[job(concurrency = 3)]
async fn scarce(ctx: &JobContext, millis: u64) {
    say("start", ctx);
    let locked = |n| {
        let file = File::create(journal::folder().join(format!("slot-{n}"))).ok()?;
        file.try_lock().ok().map(|()| file)
    };
    let slot = (0..3).find_map(locked);
    if slot.is_none() {
        say("over", ctx);
    }
    tokio::time::sleep(Duration::from_millis(millis)).await;
    drop(slot);
    say("effect", ctx);
    say("end", ctx);
}

/// Goes on to the next of its chain.
#[job]
async fn hop(ctx: &JobContext, n: u64) -> Result<u64, JobError> {
    say("start", ctx);
    say("effect", ctx);
    say("end", ctx);
    Ok(n + 1)
}

/// Follows when all chains have ended.
#[job]
async fn sum_up(ctx: &JobContext, outcome: BatchOutcome) -> Result<u64, JobError> {
    say("start", ctx);
    say("effect", ctx);
    say("end", ctx);
    Ok(outcome.succeeded)
}

/// Takes its process with it.
#[job]
async fn aborts(ctx: &JobContext) {
    say("start", ctx);
    std::process::abort();
}

/// Waits until the file `go-N-LEASE` lies beside the journals; says when it is told to stop, and then does.
#[job]
async fn held(ctx: &JobContext, n: u64) -> Result<u64, String> {
    say("start", ctx);
    let go = journal::folder().join(format!("go-{n}-{}", ctx.lease()));
    while !go.exists() {
        tokio::select! {
            // Of an open gate and a word to stop that came together, the gate is the first.
            () = ctx.cancelled() => {
                if go.exists() {
                    break;
                }
                say("told", ctx);
                return Err("told to stop".into());
            }
            () = tokio::time::sleep(Duration::from_millis(5)) => {}
        }
    }
    say("effect", ctx);
    say("end", ctx);
    Ok(n)
}

/// Does not look at its cancel token, and never ends.
#[job]
async fn stubborn(ctx: &JobContext) {
    say("start", ctx);
    std::future::pending().await
}

/// Holds a thread of the runtime for ever.
#[job]
async fn spins(ctx: &JobContext) {
    say("start", ctx);
    loop {
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Holds a thread of its own for ever.
#[job(blocking)]
fn blocks(ctx: &JobContext) {
    say("start", ctx);
    loop {
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Lays a row of the application and completes in one transaction, and may fail after it.
#[job]
async fn pay(ctx: &JobContext, n: u64) -> Result<u64, JobError> {
    static POOL: tokio::sync::OnceCell<sqlx::SqlitePool> = tokio::sync::OnceCell::const_new();
    let pool = POOL.get_or_init(async || {
        let path = journal::folder().join("app.db");
        let options = sqlx::sqlite::SqliteConnectOptions::new().filename(path);
        let pool = sqlx::sqlite::SqlitePoolOptions::new().acquire_timeout(Duration::from_secs(60));
        pool.connect_lazy_with(options.busy_timeout(Duration::from_secs(60)))
    });
    let mut tx = pool.await.begin_with("BEGIN IMMEDIATE").await?;
    sqlx::query("INSERT INTO payments (job) VALUES (?)").bind(ctx.id().to_string()).execute(&mut *tx).await?;
    ctx.complete_in(&mut *tx, &n).await?;
    tx.commit().await?;
    match n % 10 {
        0 => Err("too late to fail".into()),
        _ => Ok(n),
    }
}

/// Takes a step, waits at its gate as `held` does, and takes another.
#[job]
async fn steps(ctx: &JobContext, n: u64) -> Result<[u64; 2], JobError> {
    say("start", ctx);
    let one = ctx.step("one", || async { Ok(step("one", ctx, n)) }).await?;
    say("recorded", ctx);
    let go = journal::folder().join(format!("go-{n}-{}", ctx.lease()));
    while !go.exists() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let two = ctx.step("two", || async { Ok(step("two", ctx, one)) }).await?;
    say("effect", ctx);
    say("end", ctx);
    Ok([one, two])
}

fn step(name: &str, ctx: &JobContext, n: u64) -> u64 {
    say(name, ctx);
    n + 1
}
