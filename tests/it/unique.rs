//! Unique jobs as users write them: the attribute, the builders, by name, in bulk, and worked off by a worker.

use jobq::{
    Acted, EnqueueError, Enqueued, Fields, JobField, JobFilter, JobId, JobRow, JobState, KeyScope, Landed,
    ManualClock, MemoryStore, OnConflict, QueueError, Unique, Until,
    job::{MAX_KEY, UniqueRow},
    prelude::*,
    state::StateSet,
};
use serde_json::json;
use std::{collections::BTreeSet, sync::Arc};

#[job(type = "unique-test:welcome", unique(key = "{user_id}", within = "1h", on_conflict = keep))]
async fn welcome(user_id: u64, text: String) {
    let _ = (user_id, text);
}

#[job(type = "unique-test:index", unique(key = "{doc} in {site}", debounce = "5s"))]
async fn reindex(site: String, doc: u64, body: String) {
    let _ = (site, doc, body);
}

#[job(type = "unique-test:whole", unique)]
async fn whole(a: Option<u32>, b: Option<u32>) {
    let _ = (a, b);
}

#[job(type = "unique-test:charge", max_attempts = 1, unique(key = "{order}", until = succeeded, on_conflict = reject))]
async fn charge(order: u64, fine: bool) -> Result<(), JobError> {
    if fine { Ok(()) } else { Err(format!("no money for {order}").into()) }
}

#[job(type = "unique-test:all", unique(key = "one", scope = global, states = [running, dead], on_conflict = replace))]
async fn sole(n: u32) {
    let _ = n;
}

#[job(type = "unique-test:lane", queue = "near", unique(key = "{n}", scope = queue, on_conflict = replace(payload, priority)))]
async fn in_its_lane(n: u32) {
    let _ = n;
}

#[job(type = "unique-test:plain")]
async fn plain(n: u32) {
    let _ = n;
}

struct Bench {
    queue: JobQueue,
    clock: ManualClock,
}

impl Bench {
    fn new() -> Self {
        let clock = ManualClock::at(1_767_225_600_000);
        let queue = JobQueue::with_store(Arc::new(MemoryStore::new()), Arc::new(clock.clone()));
        Self { queue, clock }
    }

    async fn row(&self, id: impl Into<JobId>) -> JobRow {
        self.queue.get(id).await.unwrap().expect("it is there")
    }

    async fn key(&self, id: impl Into<JobId>) -> UniqueRow {
        self.row(id).await.unique.expect("it has a key")
    }

    async fn jobs(&self) -> usize {
        self.queue.list(JobFilter::default().limit(1000)).await.unwrap().len()
    }

    async fn drain(&self) {
        let jobs = (welcome, reindex, whole, charge, sole, in_its_lane, plain);
        Worker::new(&self.queue).jobs(jobs).drain().await.unwrap();
    }
}

#[test]
fn the_attribute_says_how_a_job_is_unique() {
    use JobState::{Dead, Pending, Running, Scheduled};
    let rule = |rule: Option<jobq::job::UniqueRule>| rule.expect("it is unique");
    let is = rule(Welcome::DEFAULTS.unique);
    assert_eq!((is.within, is.scope, is.on_conflict), (Some(hours(1)), KeyScope::JobType, OnConflict::Keep));
    assert_eq!(is.states, Until::Finished.states());
    let is = rule(Reindex::DEFAULTS.unique);
    assert_eq!((is.debounce, is.states), (Some(secs(5)), Until::Started.states()));
    assert_eq!(is.on_conflict, OnConflict::replace(&[JobField::Payload, JobField::RunAt]));
    assert_eq!(rule(Whole::DEFAULTS.unique), jobq::job::UniqueRule::DEFAULT);
    let is = rule(Charge::DEFAULTS.unique);
    assert_eq!((is.states, is.on_conflict), (Until::Succeeded.states(), OnConflict::Reject));
    let is = rule(Sole::DEFAULTS.unique);
    assert_eq!((is.scope, is.on_conflict), (KeyScope::Global, OnConflict::Replace(Fields::ALL)));
    assert_eq!(is.states, StateSet::of(&[Scheduled, Pending, Running, Dead]));
    let is = rule(InItsLane::DEFAULTS.unique);
    assert_eq!(is.scope, KeyScope::Queue);
    assert_eq!(is.on_conflict, OnConflict::replace(&[JobField::Payload, JobField::Priority]));
    assert_eq!(Plain::DEFAULTS.unique, None);
    let reindex = Reindex { site: "a".into(), doc: 7, body: String::new() };
    assert_eq!(reindex.unique_key().as_deref(), Some("7 in a"));
    assert_eq!((Whole { a: None, b: None }.unique_key(), Plain { n: 1 }.unique_key()), (None, None));
}

#[tokio::test]
async fn a_handle_says_whether_its_job_is_new() {
    let bench = Bench::new();
    let first = welcome.enqueue((42, "hi".into())).on(&bench.queue).await.unwrap();
    let second = welcome.enqueue((42, "hello".into())).on(&bench.queue).await.unwrap();
    assert!(first.is_new() && !second.is_new());
    assert_eq!((first.id(), second.landed()), (second.id(), Landed::Existing));
    assert!(welcome.enqueue((43, "hi".into())).on(&bench.queue).await.unwrap().is_new());
    let key = bench.key(&first).await;
    assert_eq!((key.key.as_str(), key.scope.as_str()), ("42", "unique-test:welcome"));
    // By name, and in another queue: the same job.
    let payload = json!({ "text": "", "user_id": 42 });
    let raw = bench.queue.enqueue_raw("unique-test:welcome", payload).queue("mail").await.unwrap();
    assert_eq!(raw, Enqueued { id: first.id(), landed: Landed::Existing });
    // Within its hour, also once it has run.
    bench.drain().await;
    assert_eq!(bench.row(&first).await.state, JobState::Completed);
    bench.clock.advance(hours(1) - std::time::Duration::from_millis(1));
    assert!(!welcome.enqueue((42, "hi".into())).on(&bench.queue).await.unwrap().is_new());
    bench.clock.advance(std::time::Duration::from_millis(1));
    assert!(welcome.enqueue((42, "hi".into())).on(&bench.queue).await.unwrap().is_new());
}

#[tokio::test]
async fn every_builder_can_say_it_anew() {
    let bench = Bench::new();
    let queue = &bench.queue;
    let by_key = plain.enqueue(1).unique_key("k").on(queue).await.unwrap();
    assert!(!plain.enqueue(2).unique_key("k").on(queue).await.unwrap().is_new());
    assert_eq!(bench.key(&by_key).await.states, Until::Finished.states());
    // The key alone: all else is as the type says.
    let welcomed = welcome.enqueue((1, String::new())).unique_key("other").on(queue).await.unwrap();
    assert!(bench.key(&welcomed).await.window_ends_at.is_some());
    // All of it, in any order.
    let rule = || Unique::key("k").until(Until::Deleted).scope(KeyScope::Global);
    let global = plain.enqueue(3).unique(rule()).on(queue).await.unwrap();
    assert!(global.is_new(), "another scope");
    let anew = plain.enqueue(4).unique(rule()).unique_key("l").on(queue).await.unwrap();
    assert_eq!((bench.key(&anew).await.scope.as_str(), anew.is_new()), ("", true));
    assert_eq!(bench.key(&anew).await.states, StateSet::of(&JobState::ALL));
    let states = Unique::key("m").states([JobState::Completed]);
    let states = plain.enqueue(5).unique(states).on(queue).await.unwrap();
    assert!(!bench.key(&states).await.states.contains(JobState::Running));
    // Not at all.
    let free = welcome.enqueue((1, String::new())).unique(None).on(queue).await.unwrap();
    assert_eq!((bench.row(&free).await.unique, free.is_new()), (None, true));
    // In bulk, each by its own key.
    let many = queue.enqueue_all((0..6).map(|n| Plain { n: n % 3 })).unique(Unique::payload()).await.unwrap();
    assert_eq!(
        many.iter().map(Enqueued::is_new).collect::<Vec<_>>(),
        [true, true, true, false, false, false]
    );
    assert_eq!(many[4].id, many[1].id);
    let raw =
        queue.enqueue_raw("unique-test:plain", json!({ "n": 1 })).unique(Unique::payload()).await.unwrap();
    assert_eq!(raw, Enqueued { id: many[1].id, landed: Landed::Existing });
}

/// Case 078.
#[tokio::test]
async fn payloads_are_equal_whatever_order_they_come_in() {
    let payloads = [json!({}), json!({ "a": 1 }), json!({ "a": 1, "b": null }), json!({ "b": null, "a": 1 })];
    for first in 0..24_usize {
        let (mut order, mut rest) = (Vec::new(), payloads.to_vec());
        for (left, place) in [(4, first / 6), (3, first % 6 / 2), (2, first % 2), (1, 0)] {
            assert_eq!(rest.len(), left);
            order.push(rest.remove(place));
        }
        let bench = Bench::new();
        let mut ids = BTreeSet::new();
        for payload in order {
            ids.insert(bench.queue.enqueue_raw("unique-test:whole", payload).await.unwrap().id);
        }
        assert_eq!((ids.len(), bench.jobs().await), (2, 2));
        let typed = whole.enqueue((Some(1), None)).on(&bench.queue).await.unwrap();
        assert!(!typed.is_new() && ids.contains(&typed.id()), "and by the function");
    }
}

#[tokio::test]
async fn a_debounced_job_runs_once_with_the_last_payload() {
    let bench = Bench::new();
    let enqueue =
        async |body: &str| reindex.enqueue(("s".into(), 7, body.into())).on(&bench.queue).await.unwrap();
    let first = enqueue("one").await;
    for body in ["two", "three"] {
        bench.clock.advance(secs(3));
        let again = enqueue(body).await;
        assert_eq!((again.id(), again.landed()), (first.id(), Landed::Replaced));
        bench.drain().await;
        assert_eq!(bench.row(&first).await.state, JobState::Scheduled, "put off");
    }
    bench.clock.advance(secs(5));
    bench.drain().await;
    let row = bench.row(&first).await;
    assert_eq!((row.state, row.attempts), (JobState::Completed, 1));
    assert!(row.payload.contains("three"), "{}", row.payload);
    assert!(enqueue("four").await.is_new());
    // A delay that is said goes before the debounce's.
    let sooner =
        reindex.enqueue(("s".into(), 8, String::new())).delay(secs(1)).on(&bench.queue).await.unwrap();
    let row = bench.row(&sooner).await;
    assert_eq!(row.run_at - row.created_at, 1000);
}

#[tokio::test]
async fn a_rejected_job_is_a_typed_error_that_names_the_other() {
    let bench = Bench::new();
    let queue = &bench.queue;
    let first = charge.enqueue((1, false)).on(queue).await.unwrap();
    let holder = |error: &EnqueueError| match error {
        EnqueueError::Duplicate { key, existing } => (key.clone(), *existing),
        other => panic!("{other:?}"),
    };
    let error = charge.enqueue((1, true)).on(queue).await.unwrap_err();
    assert_eq!(holder(&error), ("1".into(), Some(first.id())));
    let text = format!("job {} has the unique key \"1\" already; nothing was enqueued", first.id());
    assert_eq!(error.to_string(), text);
    // In bulk: which one it was, and nothing of its commit.
    let many = [2, 3, 1, 4].map(|order| Charge { order, fine: true });
    let error = queue.enqueue_all(many).await.unwrap_err();
    assert_eq!(
        (error.index, error.landed.len(), holder(&error.error)),
        (Some(2), 0, ("1".into(), Some(first.id())))
    );
    let error = queue.enqueue_all([5, 5].map(|order| Charge { order, fine: true })).await.unwrap_err();
    assert_eq!((error.index, holder(&error.error)), (Some(1), ("5".into(), None)));
    assert_eq!(bench.jobs().await, 1);
    // `until = succeeded`: its death does not free the key, a retry runs it.
    bench.drain().await;
    assert_eq!(bench.row(&first).await.state, JobState::Dead);
    assert!(charge.enqueue((1, true)).on(queue).await.is_err());
    queue.retry(&first).await.unwrap();
    assert!(charge.enqueue((1, true)).on(queue).await.is_err());
}

/// Case 082.
#[tokio::test]
async fn a_retry_beside_a_live_job_of_the_key_names_it() {
    let bench = Bench::new();
    let queue = &bench.queue;
    let mut ended = Vec::new();
    for n in 0..50 {
        let job = plain.enqueue(n).unique_key(n.to_string()).on(queue).await.unwrap();
        queue.cancel(&job).await.unwrap();
        ended.push(job.id());
    }
    let live = plain.enqueue(7).unique_key("7").on(queue).await.unwrap();
    let refusal = queue.retry(ended[7]).await.unwrap_err();
    assert!(
        matches!(&refusal, QueueError::KeyHeld { id, holder } if (*id, *holder) == (ended[7], live.id()))
    );
    let text = format!(
        "job {} can't be retried: job {} holds its unique key; it has to end, or be cancelled, first",
        ended[7],
        live.id()
    );
    assert_eq!(refusal.to_string(), text);
    let answers = queue.retry_all(ended.clone()).await.unwrap();
    let refused: Vec<_> = answers.iter().enumerate().filter(|(_, acted)| **acted != Acted::Done).collect();
    assert_eq!(refused, [(7, &Acted::KeyHeld(live.id()))]);
}

/// Case 079, what laws can't bring about.
#[tokio::test]
async fn a_payload_that_no_build_can_read_and_a_type_that_nobody_knows_leave_no_key_behind() {
    let bench = Bench::new();
    let store = bench.queue.store();
    let new = |job_type: &'static str| {
        let unique = jobq::job::UniqueKey {
            key: "k".into(),
            scope: job_type.into(),
            states: Until::Finished.states(),
            within: None,
            on_conflict: OnConflict::Keep,
        };
        jobq::job::NewJob {
            unique: Some(Box::new(unique)),
            max_attempts: 1,
            ..jobq::job::NewJob::new(job_type, r#"{"n":"no number"}"#)
        }
    };
    let now = jobq::Clock::now(&bench.clock);
    let broken = store.enqueue(vec![new("unique-test:plain"), new("nobody:knows")], now).await.unwrap();
    bench.drain().await;
    assert_eq!(bench.row(broken[0]).await.state, JobState::Dead);
    assert!(store.enqueue(vec![new("unique-test:plain")], now).await.unwrap()[0].is_new());
    // Nobody knows it: it waits, and holds its key, until a person takes it back.
    assert!(!store.enqueue(vec![new("nobody:knows")], now).await.unwrap()[0].is_new());
    bench.queue.cancel(broken[1]).await.unwrap();
    assert!(store.enqueue(vec![new("nobody:knows")], now).await.unwrap()[0].is_new());
}

#[tokio::test]
async fn what_can_not_be_a_key_is_said() {
    let bench = Bench::new();
    let queue = &bench.queue;
    for (unique, part) in [
        (Unique::key(""), "it is empty"),
        (Unique::key("a").within(secs(0)), "its window is zero"),
        (Unique::key("a").debounce(secs(0)), "its debounce is zero"),
        (Unique::key("a").on_conflict(OnConflict::replace(&[])), "it replaces nothing"),
    ] {
        let error = plain.enqueue(1).unique(unique).on(queue).await.unwrap_err();
        assert!(matches!(error, EnqueueError::BadUnique(_)) && error.to_string().contains(part), "{error}");
    }
    assert_eq!(bench.jobs().await, 0);
    // A long one is stored by its beginning and its hash, and found by the whole.
    let long = "ü".repeat(MAX_KEY);
    let job = plain.enqueue(1).unique_key(&long).on(queue).await.unwrap();
    assert!(!plain.enqueue(2).unique_key(&long).on(queue).await.unwrap().is_new());
    assert!(plain.enqueue(2).unique_key(long.clone() + "!").on(queue).await.unwrap().is_new());
    let found = queue.list(JobFilter::default().unique_key(&long)).await.unwrap();
    assert_eq!(found.iter().map(|row| row.id).collect::<Vec<_>>(), [job.id()]);
    let key = bench.key(&job).await.key;
    assert!(key.len() <= MAX_KEY && key.starts_with("üüü") && key.contains("sha256:"), "{key}");
}

#[tokio::test]
async fn a_row_tells_of_its_key_in_words() {
    let bench = Bench::new();
    let job = welcome.enqueue((42, String::new())).on(&bench.queue).await.unwrap();
    let row = serde_json::to_value(bench.row(&job).await).unwrap();
    let unique = &row["unique"];
    assert_eq!(
        (&unique["key"], &unique["states"]),
        (&json!("42"), &json!(["scheduled", "pending", "running"]))
    );
    assert!(
        unique["window_ends_at"].as_str().unwrap().ends_with('Z') || unique["window_ends_at"].is_string()
    );
    let sole_one = sole.enqueue(1).on(&bench.queue).await.unwrap();
    assert_eq!(bench.key(&sole_one).await.scope, "");
    let near = in_its_lane.enqueue(1).on(&bench.queue).await.unwrap();
    let far = in_its_lane.enqueue(1).queue("far").priority(3).on(&bench.queue).await.unwrap();
    assert!(near.is_new() && far.is_new());
    assert_eq!(bench.key(&near).await.scope, "unique-test:lane\nnear");
    let again = in_its_lane.enqueue(1).priority(5).on(&bench.queue).await.unwrap();
    assert_eq!((again.landed(), bench.row(&near).await.priority), (Landed::Replaced, 5));
}
