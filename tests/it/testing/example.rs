//! The test module of the guide's chapter on testing, which repeats it word for word.

use jobq::{EnqueueError, assert_enqueued, prelude::*, refute_enqueued, testing::*};
use std::sync::{Arc, Mutex};

// ---- an application --------------------------------------------------------

/// Where mails go; one of the application speaks SMTP.
#[derive(Clone, Default)]
struct Outbox(Arc<Mutex<Vec<String>>>);

#[job(queue = "mail", max_attempts = 3, backoff = fixed("1m"))]
async fn greet_user(#[data] outbox: &Outbox, user_id: u64, email: String) -> Result<usize, JobError> {
    if !email.contains('@') {
        return Err(JobError::dead(format!("user {user_id} has no address")));
    }
    if email.ends_with("@slow.example") {
        return Err(JobError::new("the mail server is busy"));
    }
    let mut sent = outbox.0.lock().unwrap();
    sent.push(email);
    Ok(sent.len())
}

#[job(queue = "mail")]
async fn remind_user(#[data] outbox: &Outbox, user_id: u64) {
    outbox.0.lock().unwrap().push(format!("reminder for {user_id}"));
}

async fn sign_up(user_id: u64, email: &str) -> Result<(), EnqueueError> {
    greet_user.enqueue((user_id, email.into())).await?;
    remind_user.enqueue(user_id).delay(days(3)).await?;
    Ok(())
}

// ---- its tests -------------------------------------------------------------

#[jobq::test]
async fn who_signs_up_gets_a_mail_and_later_a_reminder(queue: TestQueue) {
    let outbox = Outbox::default();
    let queue = queue.data(outbox.clone());

    sign_up(42, "ada@example.org").await.unwrap();
    assert_enqueued!(queue, GreetUser { user_id: 42, .. });
    assert_enqueued!(queue, GreetUser { email, .. } if email.ends_with("example.org"));
    refute_enqueued!(queue, RemindUser { user_id: 43 });

    queue.drain().await.assert_ok();
    assert_eq!(*outbox.0.lock().unwrap(), ["ada@example.org"]);

    queue.advance(days(3));
    queue.drain().await.assert_ok();
    assert_eq!(outbox.0.lock().unwrap().last().unwrap(), "reminder for 42");
}

#[jobq::test]
async fn a_busy_mail_server_is_tried_three_times_a_minute_apart(queue: TestQueue) {
    let queue = queue.data(Outbox::default());
    greet_user.enqueue((42, "ada@slow.example".into())).await.unwrap();

    let drained = queue.run_for(mins(5)).await;
    let errors: Vec<_> = drained.failed().iter().filter_map(|run| run.error()).collect();
    assert_eq!(errors, ["the mail server is busy"; 3]);
    assert_eq!(drained.runs()[2].at - drained.runs()[0].at, 120_000, "milliseconds");
    assert_eq!(queue.all::<GreetUser>().await[0].row.state, JobState::Dead);
}

#[jobq::test]
async fn the_function_alone() {
    let job = GreetUser { user_id: 42, email: "ada@example.org".into() };
    assert_eq!(perform(job).data(Outbox::default()).await.unwrap(), 1);

    let job = GreetUser { user_id: 43, email: "nowhere".into() };
    let error = perform(job).data(Outbox::default()).await.unwrap_err();
    assert_eq!(error.to_string(), "user 43 has no address");
}

#[jobq::test(sqlite)]
async fn a_user_and_her_mail_are_there_together_or_not_at_all(
    queue: TestQueue,
) -> Result<(), Box<dyn std::error::Error>> {
    let pool = jobq::sqlx::SqlitePool::connect(queue.path().unwrap().to_str().unwrap()).await?;
    let mut tx = pool.begin().await?;
    greet_user.enqueue((42, "ada@example.org".into())).in_tx(&mut tx).await?;
    tx.rollback().await?;
    refute_enqueued!(queue, GreetUser { .. });
    Ok(())
}
