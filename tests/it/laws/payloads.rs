//! The payloads that may yet have to be run, page by page.

use super::{ground::*, on_every_store};
use jobq::{
    job::{JobId, NewJob},
    state::JobState,
    store::StoredPayload,
};

on_every_store![
    payloads_are_those_of_jobs_that_may_yet_run_in_the_order_of_their_rows,
    a_page_of_payloads_is_small_and_the_pages_miss_nothing,
    what_is_enqueued_behind_the_last_page_is_on_the_next,
];

/// All pages, bystanders left out, and how long each was.
async fn pages(g: &Ground) -> (Vec<StoredPayload>, Vec<usize>) {
    let (mut all, mut sizes, mut after) = (Vec::new(), Vec::new(), 0);
    loop {
        let page = g.store.payloads(after).await.unwrap();
        assert!(page.next > after && page.next <= page.last, "it goes on, and ends");
        after = page.next;
        sizes.push(page.payloads.len());
        all.extend(page.payloads.into_iter().filter(|job| !g.is_bystander(job.id)));
        if after == page.last {
            return (all, sizes);
        }
    }
}

fn ids(payloads: &[StoredPayload]) -> Vec<JobId> {
    payloads.iter().map(|job| job.id).collect()
}

async fn payloads_are_those_of_jobs_that_may_yet_run_in_the_order_of_their_rows(g: &Ground) {
    let mut expected = Vec::new();
    for (state, version) in JobState::ALL.into_iter().zip(1..) {
        let new = NewJob {
            version,
            run_at: (state == JobState::Scheduled).then_some(NOW + 5),
            payload: format!("{{\"state\": \"{state}\"}}"),
            ..of_type(WORK)
        };
        let payload = new.payload.clone();
        let (id, _) = g.job_in(state, new).await;
        if !matches!(state, JobState::Completed | JobState::Cancelled) {
            expected.push(StoredPayload { id, job_type: WORK.into(), state, version, payload });
        }
        if matches!(state, JobState::Pending | JobState::Running) {
            // Out of the way of those that are claimed after it.
            g.cancel(id, NOW).await;
            let taken = expected.pop().unwrap();
            if state == JobState::Running {
                expected.push(taken);
            }
        }
    }
    let last = g.pending().await;
    let (found, sizes) = pages(g).await;
    assert_eq!(found[..found.len() - 1], expected);
    assert_eq!((found.last().unwrap().id, found.last().unwrap().version, sizes.len()), (last, 1, 1));
}

async fn a_page_of_payloads_is_small_and_the_pages_miss_nothing(g: &Ground) {
    let small = g.enqueue_all(vec![work(); 1500], NOW).await;
    let large = NewJob { payload: format!("\"{}\"", "x".repeat(400_000)), ..work() };
    let large = g.enqueue_all(vec![large; 7], NOW).await;
    let (found, sizes) = pages(g).await;
    assert_eq!(ids(&found), [small, large].concat());
    // The bystanders come first; three of the large ones fill a page.
    assert_eq!(sizes[0], 1000);
    assert_eq!(sizes[1..], [500 + g.strangers() - 2 + 3, 3, 1]);
}

async fn what_is_enqueued_behind_the_last_page_is_on_the_next(g: &Ground) {
    let page = g.store.payloads(0).await.unwrap();
    assert_eq!(page.next, page.last);
    let id = g.pending().await;
    let next = g.store.payloads(page.next).await.unwrap();
    assert_eq!((ids(&next.payloads), next.next), (vec![id], next.last));
    let none = g.store.payloads(next.next).await.unwrap();
    assert_eq!((none.payloads, none.next), (vec![], next.next));
}
