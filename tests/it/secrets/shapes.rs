//! Values that look like marks: in a plain field they are values, and in a secret one they are the secret's value.

use super::*;
use jobq::{MemoryStore, OnConflict, SystemClock};
use serde_json::Value;

#[derive(Clone, Default)]
struct Given(Arc<Mutex<Vec<Value>>>);

#[job(type = "shapes:mixed", max_attempts = 1)]
async fn mixed(#[data] given: &Given, meta: Value, #[secret] token: Value) {
    given.0.lock().unwrap().push(json!([meta, token]));
}

#[job(type = "shapes:plain", max_attempts = 1)]
async fn plain(#[data] given: &Given, meta: Value) {
    given.0.lock().unwrap().push(meta);
}

/// Gives what the next job of a chain is to take.
#[job(type = "shapes:gives", max_attempts = 1)]
async fn gives(both: (Value, Value)) -> Result<(Value, Value), JobError> {
    Ok(both)
}

#[job(type = "shapes:nested", max_attempts = 1)]
async fn nested(charges: Vec<Charge>) {
    let _ = charges;
}

#[job(type = "shapes:whole", max_attempts = 1)]
async fn whole(#[secret] charge: Charge) -> Result<u64, JobError> {
    Ok(charge.cents)
}

fn shapes() -> [Value; 6] {
    [
        json!({"$secret": "x"}),
        json!({"$secret": {"$secret": [1]}}),
        json!({"$sealed": "a:AAAA"}),
        json!({"$sealed": "zz:AAAA"}),
        json!({"$sealed": 5}),
        json!({"$secret": 1, "$sealed": ""}),
    ]
}

async fn opened(keyed: bool, file: Option<&Path>) -> JobQueue {
    let options = JobQueue::options();
    let options = match keyed {
        true => options.secret_keys(SecretKeys::new("a", [1; 32]).unwrap()),
        false => options,
    };
    match file {
        Some(file) => options.open(file.to_str().unwrap()).await.unwrap(),
        None => options.with_store(Arc::new(MemoryStore::new()), Arc::new(SystemClock)).unwrap(),
    }
}

async fn given(queue: &JobQueue) -> Vec<Value> {
    let given = Given::default();
    let drained = Worker::new(queue).jobs((mixed, plain, gives)).data(given.clone()).drain().await.unwrap();
    assert_eq!(drained.failed, 0, "{drained:?}");
    std::mem::take(&mut *given.0.lock().unwrap())
}

async fn each_way(queue: &JobQueue, shape: &Value) {
    let both = || (shape.clone(), shape.clone());
    let expected = json!([shape, shape]);
    let as_json = json!({"meta": shape, "token": shape});
    let unique = || Unique::key("k").on_conflict(OnConflict::replace_all());

    let typed = mixed.enqueue(both()).on(queue).await.unwrap().id();
    let raw = queue.enqueue_raw("shapes:mixed", as_json.clone()).await.unwrap().id;
    let schedule = queue.schedule(Schedule::new(
        "typed",
        "0 0 1 1 *",
        Mixed { meta: shape.clone(), token: shape.clone() },
    ));
    let shown = schedule.await.unwrap();
    assert_eq!(value(&shown.payload), json!({"meta": shape, "token": "[redacted]"}));
    queue.schedule(Schedule::raw("raw", "0 0 1 1 *", "shapes:mixed", as_json.clone())).await.unwrap();
    queue.run_schedule_now("typed").await.unwrap();
    queue.run_schedule_now("raw").await.unwrap();
    for id in [typed, raw] {
        let row = queue.get(id).await.unwrap().unwrap();
        assert_eq!(value(&row.payload), json!({"meta": shape, "token": "[redacted]"}));
        assert_eq!(value(&queue.reveal(id).await.unwrap().unwrap()), as_json, "what was enqueued");
    }
    queue.enqueue_all([Mixed { meta: shape.clone(), token: shape.clone() }]).await.unwrap();
    mixed.enqueue((json!(1), json!(1))).on(queue).unique(unique()).await.unwrap();
    mixed.enqueue(both()).on(queue).unique(unique()).await.unwrap();
    gives.enqueue(both()).then(mixed).on(queue).await.unwrap();
    assert_eq!(given(queue).await, vec![expected; 7], "{shape}");

    let id = plain.enqueue(shape.clone()).on(queue).unique(Unique::payload()).await.unwrap().id();
    queue.enqueue_raw("shapes:plain", json!({ "meta": shape })).await.unwrap();
    let as_json = json!({ "meta": shape });
    assert_eq!(value(&queue.get(id).await.unwrap().unwrap().payload), as_json);
    assert_eq!(value(&queue.reveal(id).await.unwrap().unwrap()), as_json);
    assert_eq!(given(queue).await, [shape.clone(), shape.clone()], "{shape}");
}

#[tokio::test]
async fn a_value_that_looks_like_a_mark_comes_as_it_was_given() {
    for keyed in [true, false] {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("app.db");
        let queues = [opened(keyed, None).await, opened(keyed, Some(&file)).await];
        for (queue, shape) in queues.iter().flat_map(|queue| shapes().map(|shape| (queue, shape))) {
            each_way(queue, &shape).await;
        }
        let pool = jobq::sqlx::SqlitePool::connect(file.to_str().unwrap()).await.unwrap();
        let mut tx = pool.begin_with("BEGIN IMMEDIATE").await.unwrap();
        for shape in shapes() {
            mixed.enqueue((shape.clone(), shape)).on(&queues[1]).in_tx(&mut *tx).await.unwrap();
        }
        tx.commit().await.unwrap();
        assert_eq!(given(&queues[1]).await, shapes().map(|shape| json!([shape, shape])));
    }
}

#[jobq::test]
async fn of_a_type_that_is_not_linked_whatever_is_marked_is_left_out_and_nothing_is_opened(queue: TestQueue) {
    let payload = r#"{"a":{"$secret":"x"},"b":{"$sealed":"zz:AAAA"},"c":{"$secret":1,"d":2}}"#;
    let stored = queue.store().enqueue(vec![NewJob::new("shapes:nobody's", payload)], 0).await.unwrap();
    let row = queue.get(stored[0].id).await.unwrap().unwrap();
    assert_eq!(row.payload, r#"{"a":"[redacted]","b":"[redacted]","c":{"$secret":1,"d":2}}"#);
    assert_eq!(queue.reveal(row.id).await.unwrap().unwrap(), payload, "as it is stored");
}

#[jobq::test]
async fn a_secret_is_left_out_also_where_it_was_stored_before_it_was_one(queue: TestQueue) {
    let stored = NewJob::new("shapes:mixed", json!({"meta": 1, "token": HUSH}).to_string());
    let stored = queue.store().enqueue(vec![stored], 0).await.unwrap();
    let row = queue.get(stored[0].id).await.unwrap().unwrap();
    assert_eq!(row.payload, r#"{"meta":1,"token":"[redacted]"}"#);
}

#[jobq::test]
async fn a_payload_with_secrets_inside_another_one_is_refused_unless_it_is_a_secret_as_a_whole(
    queue: TestQueue,
) {
    let why = "a secret that stands inside another payload would be shown to everybody";
    let error = nested.enqueue(vec![a_charge(1)]).await.unwrap_err().to_string();
    assert!(error.contains(why) && error.contains("shapes:nested") && !error.contains("hush"), "{error}");
    let error = queue.enqueue_raw("shapes:nested", json!({"charges": [a_charge(1)]})).await.unwrap_err();
    assert!(error.to_string().contains(why), "{error}");
    assert!(queue.list(JobFilter::default()).await.unwrap().is_empty());
    nested.enqueue(Vec::new()).await.unwrap();

    let id = whole.enqueue(a_charge(1)).await.unwrap().id();
    assert_eq!(queue.get(id).await.unwrap().unwrap().payload, r#"{"charge":"[redacted]"}"#);
    queue.drain().await.assert_ok();
}

#[tokio::test]
async fn who_opens_a_file_without_a_key_is_told_of_it_or_refused() {
    let log = log_of(Level::WARN);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("app.db");
    opened(true, Some(&file)).await;
    assert!(!log.text().contains("there is no key"), "{}", log.text());
    opened(false, Some(&file)).await;
    let text = log.text();
    let told: Vec<_> = text.lines().filter(|line| line.contains("there is no key")).collect();
    assert_eq!(told.len(), 1, "{text}");
    assert!(told[0].contains("JOBQ_SECRET_KEYS") && told[0].contains("shapes:mixed"), "{text}");
    assert!(!told[0].contains("shapes:plain"), "{text}");

    let strict = || JobQueue::options().require_secret_keys();
    let error = strict().open(file.to_str().unwrap()).await.unwrap_err().to_string();
    assert!(error.contains("there is no key: set JOBQ_SECRET_KEYS"), "{error}");
    let other = folder.path().join("other.db");
    strict().open(other.to_str().unwrap()).await.unwrap_err();
    assert!(!other.exists(), "refused before there is a file");
    assert!(strict().with_store(Arc::new(MemoryStore::new()), Arc::new(SystemClock)).is_err());
    strict().secret_keys(SecretKeys::new("a", [1; 32]).unwrap()).open(file.to_str().unwrap()).await.unwrap();
}

/// Version 1 had `pin` for its secret.
#[job(type = "shapes:older", max_attempts = 1, version = 2, upgrade = from_pin)]
async fn older(#[data] given: &Given, meta: Value, #[secret] token: Value) {
    given.0.lock().unwrap().push(json!([meta, token]));
}

fn from_pin(_: u32, payload: Value) -> Result<Value, String> {
    Ok(json!({"meta": payload["meta"], "token": payload["pin"]}))
}

#[jobq::test]
async fn a_row_of_another_version_keeps_the_values_of_plain_fields_and_gives_its_former_secrets(
    queue: TestQueue,
) {
    let given = Given::default();
    for shape in shapes() {
        let row = NewJob::new("shapes:older", json!({"meta": shape, "pin": {"$secret": 7}}).to_string());
        let stored = queue.store().enqueue(vec![row], 0).await.unwrap();
        let shown = queue.get(stored[0].id).await.unwrap().unwrap().payload;
        assert_eq!(value(&shown)["pin"], "[redacted]");
        Worker::new(&queue).jobs(older).data(given.clone()).drain().await.unwrap();
        assert_eq!(std::mem::take(&mut *given.0.lock().unwrap()), [json!([shape, 7])]);
    }
}
