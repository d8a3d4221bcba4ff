//! What a worker asks for before it starts.

use super::ground::*;
use jobq::{Timeout, Worker, WorkerError, prelude::*};
use std::{collections::HashMap, time::Duration};

struct Mailer;
struct Templates;

#[job(type = "ground:mails")]
async fn mails(#[data] _mailer: &Mailer, #[data] _templates: &Templates) {}

#[job(type = "ground:mails_too")]
async fn mails_too(#[data] _mailer: &Mailer) {}

async fn refusal(worker: Worker) -> String {
    worker.start().await.map(drop).expect_err("it refuses to start").to_string()
}

#[tokio::test]
async fn missing_data_is_named_at_once_with_every_type_and_job() {
    let g = ground();
    let text = refusal(Worker::new(&g.queue).jobs((mails, mails_too, says))).await;
    for part in [
        "Mailer",
        "Templates",
        "Stage",
        "`ground:mails`",
        "`ground:mails_too`",
        "`ground:says`",
        "starting.rs",
    ] {
        assert!(text.contains(part), "no {part} in: {text}");
    }
    assert_eq!(g.workers().await, [], "nobody has signed in");
}

#[tokio::test]
async fn data_is_asked_for_by_the_jobs_of_its_own_set_alone() {
    let g = ground();
    let worker = Worker::new(&g.queue).data(Mailer).jobs((mails_too,)).start().await.unwrap();
    worker.stop().await.unwrap();
}

#[tokio::test]
async fn expecting_linked_jobs_is_fine_also_beside_another_set() {
    let g = ground();
    g.worker().jobs((says,)).expect((gated, mails)).drain().await.unwrap();
    g.worker().jobs(says).expect(mails).drain().await.unwrap();
}

#[tokio::test]
async fn settings_that_contradict_one_another_are_refused_with_a_reason() {
    let g = ground();
    let worker = || g.worker().jobs((says,));
    let second = secs(1);
    let refused = [
        (worker().heartbeat(secs(5)).rescue_after(secs(9)), "rescue_after"),
        (worker().heartbeat(Duration::ZERO), "heartbeat"),
        (worker().rescue_after(Duration::ZERO), "rescue_after"),
        (worker().heartbeat(Duration::MAX), "rescue_after"),
        (worker().poll_interval(Duration::ZERO), "poll_interval"),
        (worker().timeout(Duration::ZERO), "Timeout::Never"),
        (worker().concurrency(0), "concurrency"),
        (worker().concurrency(usize::MAX), "concurrency"),
        (worker().queues(Vec::<String>::new()), "queues"),
        (
            worker().queues(["mail", ""]),
            "queues: \"\" can't be the name of a queue: it is empty; a name such as",
        ),
        (worker().queues(["mail "]), "begins or ends with white space"),
        (worker().queues(["q".repeat(65)]), "queue"),
    ];
    for (worker, word) in refused {
        let text = refusal(worker).await;
        assert!(text.contains(word), "no {word} in: {text}");
    }
    let allowed =
        worker().heartbeat(second).rescue_after(secs(2)).grace(Duration::ZERO).timeout(Timeout::Never);
    allowed.drain().await.unwrap();
    let longest =
        || worker().poll_interval(Duration::MAX).heartbeat(Duration::MAX).rescue_after(Duration::MAX);
    longest().grace(Duration::MAX).timeout(Duration::MAX).drain().await.unwrap();
    // It does everything but look by itself: what is enqueued for later is heard of.
    let waiting = longest().start().await.unwrap();
    let id = says.enqueue("fine".into()).delay(secs(60)).on(&g.queue).await.unwrap().id();
    g.pass(secs(61)).await;
    g.until_state(id, jobq::JobState::Completed).await;
    drop(waiting);
}

fn vars(pairs: &[(&'static str, &str)]) -> impl Fn(&str) -> Option<String> {
    let vars: HashMap<_, _> = pairs.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
    move |name| vars.get(name).cloned()
}

#[tokio::test]
async fn the_environment_sets_a_worker_up() {
    let g = ground();
    let set = vars(&[
        ("WORKER_ENABLED", "TRUE"),
        ("WORKER_CONCURRENCY", " 3 "),
        ("WORKER_POLL_INTERVAL_MS", "250"),
    ]);
    let worker = Worker::from_vars(&g.queue, set).unwrap().expect("it is enabled");
    let worker = worker.data(g.stage.clone()).jobs((gated,)).start().await.unwrap();
    for n in 0..5 {
        g.gated(n).await;
    }
    g.stage.until_entered(3).await;
    rest().await;
    assert_eq!(worker.stats().running, 3);
}

#[tokio::test]
async fn unset_and_empty_variables_leave_two_jobs_at_a_time() {
    let g = ground();
    let worker = Worker::from_vars(&g.queue, vars(&[("WORKER_CONCURRENCY", "")])).unwrap().unwrap();
    let worker = worker.data(g.stage.clone()).jobs((gated,)).start().await.unwrap();
    for n in 0..5 {
        g.gated(n).await;
    }
    g.stage.until_entered(2).await;
    rest().await;
    assert_eq!(worker.stats().running, 2);
}

#[tokio::test]
async fn worker_enabled_false_is_no_worker_and_the_other_variables_are_checked_all_the_same() {
    let g = ground();
    for value in ["false", "0", "no", "OFF"] {
        assert!(Worker::from_vars(&g.queue, vars(&[("WORKER_ENABLED", value)])).unwrap().is_none());
    }
}

#[tokio::test]
async fn a_variable_that_can_not_be_used_is_named_with_its_value() {
    let g = ground();
    for (name, value) in [
        ("WORKER_ENABLED", "perhaps"),
        ("WORKER_CONCURRENCY", "0"),
        ("WORKER_CONCURRENCY", "-1"),
        ("WORKER_CONCURRENCY", "2.5"),
        ("WORKER_CONCURRENCY", "99999999999999999999"),
        ("WORKER_POLL_INTERVAL_MS", "0"),
        ("WORKER_POLL_INTERVAL_MS", "500ms"),
    ] {
        let error = Worker::from_vars(&g.queue, vars(&[(name, value)])).map(drop).unwrap_err();
        assert!(matches!(error, WorkerError::Env(_)));
        let text = error.to_string();
        assert!(text.contains(name) && text.contains(value) && text.contains("write"), "{text}");
    }
}
