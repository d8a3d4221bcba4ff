//! What running jobs say of themselves: that few writes are made of many calls, and that the last word is always stored.

use super::ground::*;
use jobq::{
    Clock, JobQueue, JobState, LogLevel, OutputLine, StoreError,
    job::{JobId, MAX_LINE, MAX_OUTPUT, MAX_OUTPUT_LINES},
    prelude::*,
    store::{Claim, ClaimSet, Next, Store},
};
use std::{sync::Arc, time::Duration};

/// Says a hundred thousand times a second how far it is, for as many seconds; then ends as it is told.
#[job(type = "notes:storms", max_attempts = 1)]
async fn storms(
    ctx: &JobContext,
    #[data] clock: &jobq::ManualClock,
    seconds: u64,
    how: String,
) -> Result<(), JobError> {
    const CALLS: u64 = 5_000;
    let total = seconds * 20 * CALLS;
    for turn in 0..seconds * 20 {
        (0..CALLS).for_each(|n| ctx.progress(turn * CALLS + n + 1, total));
        clock.sleep(Duration::from_millis(50)).await;
    }
    match &*how {
        "fails" => Err(JobError::new("no luck")),
        "panics" => panic!("out of luck"),
        "snoozes" => Err(JobError::snooze(secs(60))),
        "cancels" => Err(JobError::cancel("no longer wanted")),
        _ => Ok(()),
    }
}

/// Says what it is told and waits at its gate before it ends.
#[job(type = "notes:speaks", max_attempts = 3)]
async fn speaks(ctx: &JobContext, #[data] stage: &Stage, n: u32, lines: Vec<String>) -> Result<(), JobError> {
    let _on = stage.enter(n);
    lines.iter().for_each(|line| ctx.log(line));
    ctx.progress(lines.len(), 10);
    stage.passes(n).await;
    ctx.log_at(LogLevel::Warn, "the last word");
    ctx.progress(10_u8, 10_i128);
    Ok(())
}

/// The same on a thread of its own, from more than one thread.
#[job(type = "notes:blocks", max_attempts = 3, blocking)]
fn blocks(ctx: &JobContext) {
    let other = ctx.clone();
    std::thread::spawn(move || other.log_at(tracing::Level::DEBUG, "from another thread")).join().unwrap();
    ctx.log("from its own");
    ctx.progress(-3, u64::MAX);
}

/// Writes this many lines without a pause.
#[job(type = "notes:babbles", max_attempts = 3)]
async fn babbles(ctx: &JobContext, lines: u64, length: usize) -> Result<(), JobError> {
    let text = "x".repeat(length);
    (0..lines).for_each(|n| ctx.log(format_args!("{n} {text}")));
    Err(JobError::dead("all said"))
}

async fn output(queue: &JobQueue, id: JobId) -> Vec<OutputLine> {
    let (mut pages, mut lines) = (queue.output(id), Vec::new());
    while let Some(page) = pages.next().await.unwrap() {
        lines.extend(page);
    }
    lines
}

async fn texts(queue: &JobQueue, id: JobId) -> Vec<String> {
    output(queue, id).await.into_iter().map(|line| line.text).collect()
}

fn lines(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

async fn said(g: &Ground, id: JobId) -> (Option<i64>, Option<i64>) {
    let row = g.row(id).await;
    (row.processed_items, row.total_items)
}

/// Case 125.
#[tokio::test]
async fn of_a_hundred_thousand_calls_a_second_ten_are_written_a_job_and_the_last_one_always() {
    let g = ground();
    let bystander = g.bystander().await;
    let worker = g.worker().data(g.clock.clone()).jobs((storms,)).concurrency(8).start().await.unwrap();
    let mut ids = Vec::new();
    for _ in 0..8 {
        ids.push(storms.enqueue((3, "ends".into())).on(&g.queue).await.unwrap().id());
    }
    g.until_state(ids[7], JobState::Running).await;
    for second in 1..=4 {
        let before = g.rig.noted();
        g.pass(secs(1)).await;
        for &id in &ids {
            let writes =
                |notes: &std::collections::HashMap<JobId, usize>| notes.get(&id).copied().unwrap_or(0);
            let written = writes(&g.rig.noted()) - writes(&before);
            let least = if second < 3 { 5 } else { 0 };
            assert!((least..=10).contains(&written), "{written} writes in second {second}");
        }
    }
    for id in ids {
        assert_eq!(g.state(id).await, JobState::Completed);
        assert_eq!(said(&g, id).await, (Some(300_000), Some(300_000)), "the last word");
    }
    worker.stop().await.unwrap();
    g.untouched(bystander).await;
}

#[tokio::test]
async fn the_last_word_is_stored_whatever_the_end() {
    for (how, state) in [
        ("ends", JobState::Completed),
        ("fails", JobState::Dead),
        ("panics", JobState::Dead),
        ("snoozes", JobState::Scheduled),
        ("cancels", JobState::Cancelled),
    ] {
        let g = ground();
        let worker = g.worker().data(g.clock.clone()).jobs((storms,)).start().await.unwrap();
        let id = storms.enqueue((1, how.into())).on(&g.queue).await.unwrap().id();
        g.pass(secs(2)).await;
        assert_eq!(g.state(id).await, state);
        assert_eq!(said(&g, id).await, (Some(100_000), Some(100_000)), "{how}");
        worker.stop().await.unwrap();
    }
}

#[tokio::test]
async fn what_a_running_job_says_is_there_while_it_runs_and_its_last_word_with_its_end() {
    let g = ground();
    let bystander = g.bystander().await;
    let worker = g.worker().jobs((speaks,)).start().await.unwrap();
    let id = speaks.enqueue((1, lines(&["one", "two\nlines"]))).on(&g.queue).await.unwrap().id();
    g.stage.until_entered(1).await;
    until("the first lines are there", async || output(&g.queue, id).await.len() == 2).await;
    assert_eq!(said(&g, id).await, (Some(2), Some(10)));
    g.clock.advance(secs(5));
    g.stage.open(1);
    g.until_state(id, JobState::Completed).await;
    let written = output(&g.queue, id).await;
    let seen: Vec<_> = written.iter().map(|line| (line.lease, line.level, &*line.text)).collect();
    let info = LogLevel::Info;
    assert_eq!(seen, [(1, info, "one"), (1, info, "two\nlines"), (1, LogLevel::Warn, "the last word")]);
    assert_eq!(written[2].at - written[0].at, 5_000, "each with its own time");
    assert_eq!(said(&g, id).await, (Some(10), Some(10)));
    // From a place on.
    let mut rest = g.queue.output(id).after(written[1].place());
    assert_eq!(rest.next().await.unwrap().unwrap(), written[2..]);
    assert_eq!(rest.next().await.unwrap(), None);
    worker.stop().await.unwrap();
    g.untouched(bystander).await;
}

#[tokio::test]
async fn a_blocking_job_and_its_threads_are_heard() {
    let g = ground();
    let worker = g.worker().jobs((blocks,)).start().await.unwrap();
    let id = blocks.enqueue(()).on(&g.queue).await.unwrap().id();
    g.until_state(id, JobState::Completed).await;
    let written = output(&g.queue, id).await;
    let seen: Vec<_> = written.iter().map(|line| (line.level, &*line.text)).collect();
    assert_eq!(seen, [(LogLevel::Debug, "from another thread"), (LogLevel::Info, "from its own")]);
    assert_eq!(said(&g, id).await, (Some(0), Some(i64::MAX)), "clamped");
    worker.stop().await.unwrap();
}

#[tokio::test]
async fn a_silent_job_writes_no_note() {
    let g = ground();
    let worker = g.start(2).await;
    let id = g.says("fine").await;
    g.until_state(id, JobState::Completed).await;
    g.pass(secs(10)).await;
    assert_eq!(g.rig.noted().len(), 0);
    worker.stop().await.unwrap();
}

/// Case 124, its first half.
#[tokio::test]
async fn a_million_lines_are_stored_in_bounds_with_a_mark() {
    let g = ground();
    let worker = g.worker().jobs((babbles,)).start().await.unwrap();
    let many = babbles.enqueue((1_000_000, 0)).on(&g.queue).await.unwrap().id();
    g.until_state(many, JobState::Dead).await;
    let written = output(&g.queue, many).await;
    assert_eq!(written.len(), MAX_OUTPUT_LINES);
    let marks: Vec<_> = written.iter().filter(|line| line.text.contains("left out")).collect();
    assert_eq!((marks.len(), &*marks[0].text), (1, "… 990001 lines left out"));
    assert_eq!((&*written[0].text, &*written[MAX_OUTPUT_LINES - 1].text), ("0 ", "999999 "));
    // And long ones.
    let long = babbles.enqueue((500, 1 << 20)).on(&g.queue).await.unwrap().id();
    g.until_state(long, JobState::Dead).await;
    let written = output(&g.queue, long).await;
    assert!(written.iter().all(|line| line.text.len() <= MAX_LINE));
    assert!(written.iter().map(|line| line.text.len()).sum::<usize>() <= MAX_OUTPUT);
    assert!(written[0].text.starts_with("0 xxx") && written[0].text.ends_with(" bytes cut]"));
    worker.stop().await.unwrap();
}

#[tokio::test]
async fn who_has_lost_its_job_says_nothing_any_more() {
    let g = ground();
    let worker = g.worker().jobs((speaks,)).start().await.unwrap();
    let id = speaks.enqueue((1, lines(&["mine"]))).on(&g.queue).await.unwrap().id();
    until("the first line is there", async || output(&g.queue, id).await.len() == 1).await;
    g.rob(id, Next::Dead).await;
    g.stage.open(1);
    until("its end is refused", async || worker.stats().late + worker.stats().completed > 0).await;
    assert_eq!(worker.stats().late, 1);
    assert_eq!(texts(&g.queue, id).await, ["mine"]);
    assert_eq!(said(&g, id).await, (Some(1), Some(10)));
    worker.stop().await.unwrap();
}

#[tokio::test]
async fn news_that_can_not_be_stored_go_before_the_end_all_the_same() {
    let g = ground();
    let log = log();
    let bystander = g.bystander().await;
    let worker = g.worker().jobs((speaks,)).start().await.unwrap();
    let trouble = StoreError::Backend(Arc::new(std::io::Error::other("disk full")));
    g.rig.fail("note", trouble.clone());
    g.rig.fail("complete", trouble);
    let id = speaks.enqueue((1, lines(&["one"]))).on(&g.queue).await.unwrap().id();
    g.stage.until_entered(1).await;
    g.pass(secs(30)).await;
    g.stage.open(1);
    g.pass(mins(1)).await;
    // The end could be stored now, and waits.
    g.rig.heal_one("complete");
    g.pass(mins(1)).await;
    assert_eq!((g.state(id).await, output(&g.queue, id).await.len()), (JobState::Running, 0));
    assert!((2..=30).contains(&log.lines_with("news of jobs could not be stored")), "{}", log.text());
    g.rig.heal();
    g.pass(secs(30)).await;
    assert_eq!(g.state(id).await, JobState::Completed);
    assert_eq!(texts(&g.queue, id).await, ["one", "the last word"]);
    assert_eq!(said(&g, id).await, (Some(10), Some(10)));
    worker.stop().await.unwrap();
    g.untouched(bystander).await;
}

#[tokio::test]
async fn what_a_job_said_that_is_let_go_is_stored() {
    let g = ground();
    let worker = g.worker().jobs((stubborn_and_loud,)).grace(secs(1)).start().await.unwrap();
    let id = stubborn_and_loud.enqueue(1).on(&g.queue).await.unwrap().id();
    g.stage.until_entered(1).await;
    let stopped = tokio::spawn(async move { worker.stop().await });
    g.pass(secs(10)).await;
    at_once("the stop", stopped).await.unwrap().unwrap();
    assert_eq!(g.state(id).await, JobState::Pending);
    assert_eq!(texts(&g.queue, id).await, ["still here"]);
    g.stage.open(1);
    until("the thread is over", async || g.stage.left() == 1).await;
    g.pass(secs(1)).await;
    assert_eq!(texts(&g.queue, id).await, ["still here"], "what it says afterwards is heard by nobody");
}

/// Does not end before its gate opens, on a thread of its own, whatever it is told.
#[job(type = "notes:stubborn", max_attempts = 3, blocking)]
fn stubborn_and_loud(ctx: &JobContext, #[data] stage: &Stage, n: u32) {
    ctx.log("still here");
    let _on = stage.enter(n);
    while !stage.is_open(n) {
        std::thread::yield_now();
    }
    ctx.log("too late");
}

#[tokio::test]
async fn a_context_that_no_worker_runs_takes_everything_and_keeps_nothing() {
    let g = ground();
    let id = g.says("fine").await;
    let claim = Claim {
        worker: jobq::WorkerId(1),
        set: Arc::new(ClaimSet { job_types: vec!["ground:says".into()], queues: None }),
        limit: 1,
        standing: false,
    };
    let job = g.memory.claim(claim, g.clock.now()).await.unwrap().remove(0);
    let (ctx, _switch) = JobContext::new(job);
    (0..1000).for_each(|n| ctx.log(n));
    ctx.progress(1, 2);
    assert_eq!(output(&g.queue, id).await, []);
}
