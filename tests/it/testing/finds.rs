//! Assertions by a pattern: what they find, and the list of what was there instead.

use super::said;
use jobq::{assert_enqueued, prelude::*, refute_enqueued, testing::*};
use serde_json::json;

#[job(type = "found:mail", aliases = ["found:letter"], queue = "mail")]
async fn mail(user_id: u64, to: Option<String>) {
    let _ = (user_id, to);
}

#[job(type = "found:bill")]
async fn bill(cents: u64) {
    let _ = cents;
}

#[job(type = "found:sweep")]
async fn sweep() {}

#[jobq::test]
async fn a_pattern_a_guard_and_an_alternative_find_a_job(queue: TestQueue) {
    mail.enqueue((1, None)).await.unwrap();
    let second = mail.enqueue((2, Some("ada".into()))).priority(5).await.unwrap();
    sweep.enqueue(()).await.unwrap();

    assert_enqueued!(queue, Mail { user_id: 1, to: None });
    assert_enqueued!(queue, Mail { user_id: 1 | 7, .. });
    assert_enqueued!(queue, Mail { user_id, .. } if *user_id > 1);
    assert_enqueued!(queue, Mail { user_id: 7, .. } | Mail { to: Some(_), .. },);
    assert_enqueued!(queue, Sweep {});
    assert_enqueued!(&queue, Mail { .. });
    let plain: &JobQueue = &queue;
    let found = assert_enqueued!(plain, Mail { to: Some(name), .. } if name == "ada");
    assert_eq!((found.row.id, found.row.priority, found.job.user_id), (second.id(), 5, 2));
    refute_enqueued!(queue, Mail { user_id: 3, .. });
    refute_enqueued!(queue, Bill { .. });
    refute_enqueued!(queue, Mail { user_id, .. } if *user_id > 2);
}

#[jobq::test]
async fn what_has_ended_is_not_enqueued_any_more(queue: TestQueue) {
    mail.enqueue((1, None)).await.unwrap();
    queue.drain().await.assert_ok();
    refute_enqueued!(queue, Mail { .. });
    assert!(queue.all_enqueued::<Mail>().await.is_empty());
    let all = queue.all::<Mail>().await;
    assert_eq!((all.len(), all[0].row.state), (1, JobState::Completed));
}

#[jobq::test]
async fn jobs_of_an_alias_are_found_and_all_are_in_the_order_of_their_enqueue(queue: TestQueue) {
    queue.enqueue_raw("found:letter", json!({ "user_id": 1, "to": null })).await.unwrap();
    queue.enqueue_all((2..1500).map(|user_id| Mail { user_id, to: None })).await.unwrap();
    let all = queue.all_enqueued::<Mail>().await;
    assert!(all.iter().map(|found| found.job.user_id).eq(1..1500));
}

#[jobq::test]
async fn a_failed_assertion_lists_what_was_there(queue: TestQueue) {
    mail.enqueue((1, Some("ada".into()))).await.unwrap();
    mail.enqueue((2, None)).delay(hours(1)).await.unwrap();
    bill.enqueue(250).await.unwrap();
    let text = said(async { assert_enqueued!(queue, Mail { user_id: 3, .. } if true) }).await;
    let ids = queue.all::<Mail>().await.into_iter().map(|found| found.row.id).collect::<Vec<_>>();
    let other = queue.all::<Bill>().await[0].row.id;
    assert_eq!(
        text,
        format!(
            "no job that waits or runs matches `Mail {{ user_id: 3, .. }} if true`
of type `found:mail` there are 2:
  pending   Mail {{ user_id: 1, to: \"ada\" }}  queue mail  {}
  scheduled Mail {{ user_id: 2, to: null }}  due 2026-01-01 01:00:00 UTC  queue mail  {}
of other types there are 1:
  pending   found:bill {{\"cents\":250}}  {other}",
            ids[0], ids[1]
        )
    );
    let text = said(async { refute_enqueued!(queue, Bill { cents: 250 }) }).await;
    assert_eq!(
        text,
        format!("a job matches `Bill {{ cents: 250 }}`: pending   Bill {{ cents: 250 }}  {other}")
    );
}

#[jobq::test]
async fn a_list_tells_why_a_job_is_not_what_was_looked_for(queue: TestQueue) {
    let text = said(async { assert_enqueued!(queue, Mail { .. }) }).await;
    assert!(text.ends_with("there is no job of type `found:mail`, nor of any other"), "{text}");

    mail.enqueue((1, None)).await.unwrap();
    queue.drain().await.assert_ok();
    let text = said(async { assert_enqueued!(queue, Mail { .. }) }).await;
    assert!(text.contains("  completed Mail { user_id: 1, to: null }  attempts 1 of 3"), "{text}");

    queue.enqueue_all((0..50).map(|cents| Bill { cents })).await.unwrap();
    let text = said(async { assert_enqueued!(queue, Mail { .. }) }).await;
    assert!(text.contains("of other types there are 50:"), "{text}");
    assert!(text.ends_with("… and 30 more"), "{text}");
}
