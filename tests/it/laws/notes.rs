//! What running jobs say of themselves: progress and output, who may say it, and how long it is kept.

use super::{ground::*, on_every_store};
use jobq::{
    job::{Lease, LogLevel, OUTPUTS_KEPT, OutputLine},
    state::JobState,
    store::{Acted, Next, Note, Progress, Retention, Settled},
};
use std::time::Duration;

on_every_store![
    progress_is_read_back_and_moves_nothing,
    progress_stays_over_the_end_of_the_attempt_and_a_retry_by_a_person_clears_it,
    a_completed_job_is_at_a_hundred_percent_whatever_it_said,
    percent_is_within_its_bounds_whatever_was_said,
    output_is_read_back_exactly_in_order,
    output_of_all_attempts_is_there_in_their_order,
    pages_of_output_miss_nothing,
    who_does_not_hold_the_lease_says_nothing,
    a_job_that_does_not_run_says_nothing,
    a_job_that_is_not_there_says_nothing,
    a_line_takes_the_place_of_the_one_that_was_there,
    only_the_latest_outputs_are_kept,
    output_goes_with_its_job,
    an_unknown_job_has_no_output,
    thousands_of_lines_in_one_note_and_many_notes_at_once_are_all_there,
];

fn progress(job: &jobq::store::Claimed, done: i64, total: i64) -> Note {
    Note { progress: Some(Progress { done, total }), ..note(job.id, job.lease, []) }
}

fn texts(lines: &[OutputLine]) -> Vec<&str> {
    lines.iter().map(|line| &*line.text).collect()
}

async fn progress_is_read_back_and_moves_nothing(g: &Ground) {
    let job = g.running().await;
    let before = g.row(job.id).await;
    assert_eq!((before.processed_items, before.total_items, before.progress_percent()), (None, None, 0));
    // Cues come after answers: when a later act is answered, those of the ones before it have been given.
    let all_cues = async || drop(g.store.cancel(vec![], NOW).await.unwrap());
    let mut changed = g.store.changed();
    all_cues().await;
    changed.borrow_and_update();
    assert_eq!(g.store.note(vec![progress(&job, 3, 12)]).await.unwrap(), [Settled::Applied]);
    let row = g.row(job.id).await;
    assert_eq!((row.processed_items, row.total_items, row.progress_percent()), (Some(3), Some(12), 25));
    assert_eq!(jobq::JobRow { processed_items: None, total_items: None, ..row }, before);
    all_cues().await;
    assert!(!changed.has_changed().unwrap(), "nobody is told to look for work");
    // What says nothing of it leaves it as it is.
    assert_eq!(g.note(job.id, job.lease, ["a line"]).await, Settled::Applied);
    assert_eq!(g.row(job.id).await.processed_items, Some(3));
}

async fn progress_stays_over_the_end_of_the_attempt_and_a_retry_by_a_person_clears_it(g: &Ground) {
    let job = g.running().await;
    let id = job.id;
    g.store.note(vec![progress(&job, 3, 12)]).await.unwrap();
    let said = async || {
        let row = g.row(id).await;
        (row.processed_items, row.total_items, row.progress_percent())
    };
    g.fail(id, 1, Next::At(NOW), NOW).await;
    assert_eq!(said().await, (Some(3), Some(12), 25), "waiting for its next attempt");
    let again = g.claim_this(id, NOW).await;
    assert_eq!(said().await, (Some(3), Some(12), 25), "until that says something else");
    g.store.note(vec![progress(&again, 1, 12)]).await.unwrap();
    assert_eq!(said().await, (Some(1), Some(12), 8));
    g.fail(id, 2, Next::Dead, NOW).await;
    assert_eq!(said().await, (Some(1), Some(12), 8), "dead, and people see how far it came");
    g.retry(id, NOW).await;
    assert_eq!(said().await, (None, None, 0));
    g.cancel(id, NOW).await;
}

async fn a_completed_job_is_at_a_hundred_percent_whatever_it_said(g: &Ground) {
    let job = g.running().await;
    g.store.note(vec![progress(&job, 3, 12)]).await.unwrap();
    g.complete(job.id, 1, NOW).await;
    let row = g.row(job.id).await;
    assert_eq!((row.processed_items, row.total_items, row.progress_percent()), (Some(3), Some(12), 100));
}

async fn percent_is_within_its_bounds_whatever_was_said(g: &Ground) {
    let job = g.running().await;
    let most = i64::MAX;
    for (done, total, percent) in
        [(0, 0, 0), (5, 0, 0), (7, 5, 100), (most, most, 100), (most - 1, most, 99), (0, most, 0)]
    {
        g.store.note(vec![progress(&job, done, total)]).await.unwrap();
        let row = g.row(job.id).await;
        assert_eq!((row.processed_items, row.total_items), (Some(done), Some(total)));
        assert_eq!(row.progress_percent(), percent, "{done} of {total}");
    }
}

/// Case 126, as far as it is the store's.
async fn output_is_read_back_exactly_in_order(g: &Ground) {
    let long = "€".repeat(5000);
    let lines = [
        "plain",
        "",
        "one\ttwo\r\nthree\n",
        "\u{1b}[1;31mred\u{1b}[0m",
        "10 %\r20 %\r100 %",
        "äöü 日本語 😀",
        "' OR 1=1; --",
        &long,
    ];
    let job = g.running().await;
    let mut said = note(job.id, job.lease, lines);
    for (line, level) in said.lines.iter_mut().zip(LogLevel::ALL) {
        line.level = level;
    }
    assert_eq!(g.store.note(vec![said.clone()]).await.unwrap(), [Settled::Applied]);
    assert_eq!(g.output(job.id).await, said.lines);
}

async fn output_of_all_attempts_is_there_in_their_order(g: &Ground) {
    let job = g.running().await;
    g.note(job.id, 1, ["first", "second"]).await;
    g.fail(job.id, 1, Next::At(NOW), NOW).await;
    g.claim_this(job.id, NOW).await;
    g.note(job.id, 2, ["again"]).await;
    g.complete(job.id, 2, NOW).await;
    let lines = g.output(job.id).await;
    let seen: Vec<_> = lines.iter().map(|line| (line.lease, line.seq, &*line.text)).collect();
    assert_eq!(seen, [(1, 0, "first"), (1, 1, "second"), (2, 0, "again")]);
    g.retry(job.id, NOW).await;
    assert_eq!(g.output(job.id).await, lines, "the history stays");
    g.cancel(job.id, NOW).await;
}

async fn pages_of_output_miss_nothing(g: &Ground) {
    let job = g.running().await;
    let names: Vec<String> = (0..25).map(|n| n.to_string()).collect();
    g.note(job.id, 1, names.iter().map(|name| &**name)).await;
    g.fail(job.id, 1, Next::At(NOW), NOW).await;
    g.claim_this(job.id, NOW).await;
    g.note(job.id, 2, names.iter().map(|name| &**name)).await;
    let whole = g.output(job.id).await;
    assert_eq!(whole.len(), 50);
    for size in [1, 7, 25, 49, 50, 51] {
        let mut joined: Vec<OutputLine> = Vec::new();
        loop {
            let after = joined.last().map(OutputLine::place);
            let page = g.store.output(job.id, after, size).await.unwrap();
            assert!(page.len() <= size);
            if page.is_empty() {
                break;
            }
            joined.extend(page);
        }
        assert_eq!(joined, whole, "pages of {size}");
    }
    assert_eq!(g.store.output(job.id, None, 0).await.unwrap(), []);
    assert_eq!(g.store.output(job.id, Some((1, 1_000_000)), 1).await.unwrap()[0].place(), (2, 0));
    assert_eq!(g.store.output(job.id, Some((Lease::MAX, i64::MAX)), 9).await.unwrap(), []);
}

async fn who_does_not_hold_the_lease_says_nothing(g: &Ground) {
    let job = g.running().await;
    g.note(job.id, 1, ["ours"]).await;
    g.rescue(job.id, 1, Next::At(NOW), NOW).await;
    let again = g.claim_this(job.id, NOW).await;
    g.store.note(vec![progress(&again, 1, 2)]).await.unwrap();
    let (row, attempts) = (g.row(job.id).await, g.attempts(job.id).await);
    for wrong in [1, 3, 0, -1, Lease::MAX, Lease::MIN] {
        let lost = Note { lease: wrong, ..progress(&job, 9, 9) };
        assert_eq!(g.store.note(vec![lost]).await.unwrap(), [Settled::LeaseLost], "lease {wrong}");
        assert_eq!(g.note(job.id, wrong, ["theirs"]).await, Settled::LeaseLost, "lease {wrong}");
    }
    assert_eq!((g.row(job.id).await, g.attempts(job.id).await), (row, attempts));
    assert_eq!(texts(&g.output(job.id).await), ["ours"]);
    // One that is refused takes no other with it.
    let both = vec![note(job.id, 1, ["theirs"]), note(job.id, 2, ["ours again"])];
    assert_eq!(g.store.note(both).await.unwrap(), [Settled::LeaseLost, Settled::Applied]);
    assert_eq!(texts(&g.output(job.id).await), ["ours", "ours again"]);
}

async fn a_job_that_does_not_run_says_nothing(g: &Ground) {
    for state in JobState::ALL.into_iter().filter(|state| *state != JobState::Running) {
        let (id, lease) = g.job_in(state, due_at(if state == JobState::Scheduled { FAR } else { NOW })).await;
        let before = g.row(id).await;
        let said = Note { progress: Some(Progress { done: 1, total: 2 }), ..note(id, lease, ["late"]) };
        assert_eq!(g.store.note(vec![said]).await.unwrap(), [Settled::LeaseLost], "{state}");
        assert_eq!((g.row(id).await, g.output(id).await), (before, vec![]), "{state}");
        if state == JobState::Pending {
            g.cancel(id, NOW).await;
        }
    }
}

async fn a_job_that_is_not_there_says_nothing(g: &Ground) {
    let job = g.running().await;
    for stranger in [foreign(job.id), guessed(job.id)] {
        assert_eq!(g.note(stranger, 1, ["lost"]).await, Settled::Gone);
        let lost = Note { id: stranger, ..progress(&job, 1, 2) };
        assert_eq!(g.store.note(vec![lost]).await.unwrap(), [Settled::Gone]);
        assert_eq!(g.output(stranger).await, []);
    }
    assert_eq!((g.row(job.id).await.processed_items, g.output(job.id).await), (None, vec![]));
    g.complete(job.id, 1, NOW).await;
    g.delete(job.id, NOW).await;
    assert_eq!(g.note(job.id, 1, ["lost"]).await, Settled::Gone);
}

async fn a_line_takes_the_place_of_the_one_that_was_there(g: &Ground) {
    let job = g.running().await;
    g.note(job.id, 1, ["a", "b", "c"]).await;
    let mut said = note(job.id, 1, ["-", "B"]);
    said.lines.remove(0);
    g.store.note(vec![said]).await.unwrap();
    assert_eq!(texts(&g.output(job.id).await), ["a", "B", "c"]);
}

async fn only_the_latest_outputs_are_kept(g: &Ground) {
    let id = g.pending().await;
    for lease in 1..=OUTPUTS_KEPT + 3 {
        g.claim_this(id, NOW).await;
        g.note(id, lease, ["first", "second"]).await;
        g.release(id, lease, NOW).await;
    }
    let leases: Vec<_> = g.output(id).await.iter().map(|line| line.lease).collect();
    let kept: Vec<_> = (4..=OUTPUTS_KEPT + 3).flat_map(|lease| [lease, lease]).collect();
    assert_eq!(leases, kept);
    g.cancel(id, NOW).await;
}

/// Case 124, its end: output is deleted and pruned with its job.
async fn output_goes_with_its_job(g: &Ground) {
    let many: Vec<String> = (0..3_000).map(|n| n.to_string()).collect();
    let mut ended = Vec::new();
    for _ in 0..3 {
        let job = g.running().await;
        for lease in 1..=2 {
            for lines in many.chunks(1_000) {
                g.note(job.id, lease, lines.iter().map(|line| &**line)).await;
            }
            let next = if lease == 1 { Next::At(NOW) } else { Next::Dead };
            g.fail(job.id, lease, next, NOW).await;
            if lease == 1 {
                g.claim_this(job.id, NOW).await;
            }
        }
        assert_eq!(g.output(job.id).await.len(), 2_000);
        ended.push(job.id);
    }
    let silent = g.running().await.id;
    g.complete(silent, 1, NOW).await;
    assert_eq!(g.delete(ended[0], NOW).await, Acted::Done);
    assert_eq!(g.output(ended[0]).await, []);
    let keep = |dead| Retention { finished: Some(Duration::ZERO), dead };
    assert_eq!(g.store.prune(keep(None), NOW + 1).await.unwrap(), 1, "the silent one");
    assert_eq!(g.output(ended[1]).await.len(), 2_000, "what is kept keeps its output");
    assert_eq!(g.store.prune(keep(Some(Duration::ZERO)), NOW + 1).await.unwrap(), 2);
    for id in ended {
        assert_eq!(g.store.get(id).await.unwrap(), None);
        assert_eq!(g.output(id).await, []);
    }
}

async fn an_unknown_job_has_no_output(g: &Ground) {
    let id = g.pending().await;
    assert_eq!(g.output(id).await, []);
    assert_eq!(g.output(foreign(id)).await, []);
}

async fn thousands_of_lines_in_one_note_and_many_notes_at_once_are_all_there(g: &Ground) {
    let ids = g.enqueue_all(vec![work(); 300], NOW).await;
    let claimed = g.claim(300, NOW).await;
    assert_eq!(claimed.len(), 300);
    let mut notes: Vec<Note> =
        claimed.iter().map(|job| note(job.id, job.lease, ["a", "b", "c", "d", "e", "f", "g", "h"])).collect();
    let many: Vec<String> = (0..5_000).map(|n| n.to_string()).collect();
    notes[150] = note(ids[150], 1, many.iter().map(|line| &**line));
    notes[7].lease = 2;
    let settled = g.store.note(notes).await.unwrap();
    assert_eq!(settled.iter().position(|settled| *settled == Settled::LeaseLost), Some(7));
    assert_eq!(settled.iter().filter(|settled| **settled == Settled::Applied).count(), 299);
    assert_eq!(g.output(ids[150]).await.len(), 5_000);
    assert_eq!(texts(&g.output(ids[299]).await), ["a", "b", "c", "d", "e", "f", "g", "h"]);
}
