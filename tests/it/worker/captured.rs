//! What jobs tell `tracing`: in the output of the attempt that told it, and in no other.

use super::ground::*;
use jobq::{JobState, LogLevel, job::JobId, prelude::*, store::Next};
use std::fmt;
use tracing::{Dispatch, Instrument, Level, Span, dispatcher, subscriber::DefaultGuard};
use tracing_subscriber::{filter::LevelFilter, layer::SubscriberExt, prelude::*};

/// Listens on this thread, at this level.
fn listens(level: Level) -> DefaultGuard {
    let subscriber = tracing_subscriber::registry().with(jobq::tracing_layer_at(level));
    tracing::subscriber::set_default(subscriber)
}

async fn output(g: &Ground, id: JobId) -> Vec<(i64, LogLevel, String)> {
    let (mut pages, mut lines) = (g.queue.output(id), Vec::new());
    while let Some(page) = pages.next().await.unwrap() {
        lines.extend(page.into_iter().map(|line| (line.lease, line.level, line.text)));
    }
    lines
}

async fn texts(g: &Ground, id: JobId) -> Vec<String> {
    output(g, id).await.into_iter().map(|(.., text)| text).collect()
}

/// Tells something itself, while it is written; `tracing` does not give that to a subscriber of one thread.
struct Chatty;

impl fmt::Debug for Chatty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        tracing::info!("asked what it is");
        f.write_str("Chatty")
    }
}

/// Tells things in all ways, in two attempts.
#[job(type = "captured:tells", max_attempts = 2, backoff = fixed("0s"))]
async fn tells(ctx: &JobContext, user: u64) -> Result<(), JobError> {
    tracing::info!(user, name = "Ada \"L\"", ok = true, share = 0.5, "attempt {}", ctx.attempt());
    ctx.log("a line of its own");
    tracing::debug!("not at this level");
    tokio::task::yield_now().await;
    tracing::info_span!("inner", rows = 3).in_scope(|| tracing::warn!(shown = %user, "in a span"));
    tracing::error!(user);
    tracing::info!(what = ?Chatty, "one\ntwo\0");
    let error = anyhow::Error::msg("no disk").context("no report");
    tracing::error!(error = &*error as &(dyn std::error::Error + 'static), "broke");
    tracing::info!(target: "jobq", "of jobq itself");
    tracing::info!(target: "jobq::worker", "of jobq itself");
    tracing::info!(target: "jobqs", "of another");
    if ctx.attempt() == 1 { Err(JobError::new("again")) } else { Ok(()) }
}

#[tokio::test]
async fn what_a_job_tells_is_in_its_output_by_attempt_with_its_level_and_fields() {
    let _here = listens(Level::INFO);
    let g = ground();
    let bystander = g.bystander().await;
    tracing::info!("of nobody");
    let worker = g.worker().jobs((tells,)).start().await.unwrap();
    let id = tells.enqueue(7).on(&g.queue).await.unwrap().id();
    g.until_state(id, JobState::Completed).await;
    tracing::info!("of nobody");
    worker.stop().await.unwrap();
    let (info, warn, error) = (LogLevel::Info, LogLevel::Warn, LogLevel::Error);
    let wanted = |lease: i64| {
        [
            (info, &*format!("attempt {lease} user=7 name=\"Ada \\\"L\\\"\" ok=true share=0.5")),
            (info, "a line of its own"),
            (warn, "in a span shown=7"),
            (error, "user=7"),
            (info, "one\ntwo\u{fffd} what=Chatty"),
            (error, "broke error=no report: no disk"),
            (info, "of another"),
        ]
        .map(|(level, text)| (lease, level, text.to_owned()))
    };
    assert_eq!(output(&g, id).await, [wanted(1), wanted(2)].concat());
    g.untouched(bystander).await;
}

/// Its task tells something at the gate after it, and may outlive it.
#[job(type = "captured:spawns", max_attempts = 2)]
async fn spawns(#[data] stage: &Stage, n: u32, waits: bool) -> Result<(), JobError> {
    let theirs = stage.clone();
    let task = async move {
        tracing::info!("{n} in a task");
        let _on = theirs.enter(n + 100);
        theirs.passes(n).await;
        tracing::info!("{n} after the gate");
        theirs.enter(n + 200);
    };
    let task = tokio::spawn(task.instrument(tracing::info_span!("task")));
    tokio::spawn(async move { tracing::info!("{n} in a task without a span") }).await?;
    std::thread::scope(|scope| {
        let (span, here) = (Span::current(), dispatcher::get_default(Dispatch::clone));
        scope.spawn(move || {
            dispatcher::with_default(&here, || span.in_scope(|| tracing::info!("{n} on a thread")));
        });
    });
    if waits {
        task.await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_task_whose_span_comes_from_the_jobs_is_heard_until_the_job_has_ended() {
    let _here = listens(Level::INFO);
    let g = ground();
    let bystander = g.bystander().await;
    let worker = g.worker().jobs((spawns,)).concurrency(3).start().await.unwrap();
    let mut ids = Vec::new();
    for (n, waits) in [(1_u32, true), (2, true), (3, false)] {
        ids.push(spawns.enqueue((n, waits)).on(&g.queue).await.unwrap().id());
        g.stage.until_entered(n as usize).await;
    }
    g.until_state(ids[2], JobState::Completed).await;
    for n in 1..=3 {
        g.stage.open(n);
        g.stage.until_entered(3 + n as usize).await;
    }
    for (n, &id) in (1..).zip(&ids) {
        g.until_state(id, JobState::Completed).await;
        let mut wanted =
            vec![format!("{n} on a thread"), format!("{n} in a task"), format!("{n} after the gate")];
        if n == 3 {
            wanted.pop();
        }
        let mut seen = texts(&g, id).await;
        seen.sort();
        wanted.sort();
        assert_eq!(seen, wanted);
    }
    worker.stop().await.unwrap();
    g.untouched(bystander).await;
}

/// Tells something on a thread of its own, to the subscriber that it is lent.
#[job(type = "captured:blocks", max_attempts = 2, blocking)]
fn blocks(#[data] told: &Dispatch) {
    dispatcher::with_default(told, || tracing::info!("on its own thread"));
}

/// Its span is unknown to that subscriber: the handler is heard all the same.
#[tokio::test]
async fn a_handler_is_heard_whatever_the_subscriber_knows_of_its_span() {
    let told = Dispatch::new(tracing_subscriber::registry().with(jobq::tracing_layer()));
    let g = ground();
    let worker = g.worker().data(told).jobs((blocks,)).start().await.unwrap();
    let id = blocks.enqueue(()).on(&g.queue).await.unwrap().id();
    g.until_state(id, JobState::Completed).await;
    assert_eq!(texts(&g, id).await, ["on its own thread"]);
    worker.stop().await.unwrap();
}

#[job(type = "captured:levels", max_attempts = 2)]
async fn levels() {
    tracing::trace!("trace");
    tracing::debug!("debug");
    tracing::info!("info");
    tracing::warn!("warn");
    tracing::error!("error");
}

#[tokio::test]
async fn the_level_is_what_was_asked_for_and_other_layers_have_their_own() {
    for (level, wanted) in [
        (LevelFilter::OFF, &[][..]),
        (LevelFilter::ERROR, &["error"]),
        (LevelFilter::WARN, &["warn", "error"]),
        (LevelFilter::TRACE, &["trace", "debug", "info", "warn", "error"]),
    ] {
        let (g, all) = (ground(), All::default());
        let subscriber = tracing_subscriber::registry()
            .with(all.clone().with_filter(LevelFilter::DEBUG))
            .with(jobq::tracing_layer_at(level));
        let _here = tracing::subscriber::set_default(subscriber);
        let worker = g.worker().jobs((levels,)).start().await.unwrap();
        let id = levels.enqueue(()).on(&g.queue).await.unwrap().id();
        g.until_state(id, JobState::Completed).await;
        worker.stop().await.unwrap();
        assert_eq!(texts(&g, id).await, wanted, "{level}");
        assert_eq!(all.count(), 4, "{level}: the other layer hears what its own filter lets through");
    }
}

/// Counts the events of this module.
#[derive(Clone, Default)]
struct All(std::sync::Arc<std::sync::atomic::AtomicUsize>);

impl All {
    fn count(&self) -> usize {
        self.0.load(std::sync::atomic::Ordering::Relaxed)
    }
}

impl<S: tracing::Subscriber> tracing_subscriber::Layer<S> for All {
    fn on_event(&self, event: &tracing::Event<'_>, _: tracing_subscriber::layer::Context<'_, S>) {
        if event.metadata().target() == module_path!() {
            self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        }
    }
}

/// Tells something after its gate.
#[job(type = "captured:waits", max_attempts = 2)]
async fn waits(#[data] stage: &Stage, n: u32) {
    struct Told(u32);
    impl Drop for Told {
        fn drop(&mut self) {
            tracing::info!("{} dropped", self.0);
        }
    }
    let _told = Told(n);
    tracing::info!("{n} begun");
    stage.enter(n);
    stage.passes(n).await;
    tracing::info!("{n} ended");
}

#[tokio::test]
async fn jobs_side_by_side_are_kept_apart_and_who_lost_the_job_adds_nothing() {
    let _here = listens(Level::INFO);
    let g = ground();
    let worker = g.worker().jobs((waits,)).concurrency(2).start().await.unwrap();
    let mut ids = Vec::new();
    for n in [1, 2] {
        ids.push(waits.enqueue(n).on(&g.queue).await.unwrap().id());
        g.stage.until_entered(n as usize).await;
    }
    g.pass(secs(1)).await;
    assert_eq!(
        (texts(&g, ids[0]).await, texts(&g, ids[1]).await),
        (vec!["1 begun".into()], vec!["2 begun".into()])
    );
    g.rob(ids[0], Next::Dead).await;
    g.stage.open(1);
    until("its end is refused", async || worker.stats().late == 1).await;
    assert_eq!(texts(&g, ids[0]).await, ["1 begun"]);
    g.stage.open(2);
    g.until_state(ids[1], JobState::Completed).await;
    assert_eq!(texts(&g, ids[1]).await, ["2 begun", "2 ended", "2 dropped"]);
    worker.stop().await.unwrap();
}

/// Tells more than is kept.
#[job(type = "captured:floods", max_attempts = 2)]
async fn floods(lines: u64) {
    (0..lines).for_each(|n| tracing::warn!(n, "again"));
}

#[tokio::test]
async fn what_is_told_has_the_bounds_of_all_output() {
    let _here = listens(Level::INFO);
    let g = ground();
    let worker = g.worker().jobs((floods,)).start().await.unwrap();
    let id = floods.enqueue(20_000).on(&g.queue).await.unwrap().id();
    g.until_state(id, JobState::Completed).await;
    let seen = texts(&g, id).await;
    assert_eq!(seen.len(), jobq::job::MAX_OUTPUT_LINES);
    assert_eq!((&*seen[0], &*seen[9_999]), ("again n=0", "again n=19999"));
    assert!(seen.contains(&"… 10001 lines left out".to_owned()));
    worker.stop().await.unwrap();
}
