//! Secrets sealed in the store: what lies in the file, keys that come and go, and settings that can't be used.

use super::*;

const KEY_A: [u8; 32] = [1; 32];
const KEY_B: [u8; 32] = [2; 32];

fn keys(id: &str, key: [u8; 32]) -> SecretKeys {
    SecretKeys::new(id, key).unwrap()
}

async fn open(path: &Path, keys: SecretKeys) -> JobQueue {
    JobQueue::options().secret_keys(keys).open(path.to_str().unwrap()).await.unwrap()
}

/// All bytes of the database's files.
fn bytes(folder: &Path) -> Vec<u8> {
    let files = std::fs::read_dir(folder).unwrap().flatten();
    files.flat_map(|file| std::fs::read(file.path()).unwrap()).collect()
}

fn contains(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

async fn drain(queue: &JobQueue) -> Vec<String> {
    let told = Told::default();
    Worker::new(queue).jobs(charge).data(told.clone()).drain().await.unwrap();
    told.all()
}

#[tokio::test]
async fn no_byte_of_a_secret_lies_in_the_file_and_the_function_is_given_it() {
    let log = log_of(Level::TRACE);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("app.db");
    let queue = open(&path, keys("a", KEY_A)).await;
    let pool = jobq::sqlx::SqlitePool::connect(path.to_str().unwrap()).await.unwrap();

    let id = a_charge(1).enqueue().on(&queue).await.unwrap().id();
    queue.enqueue_all((2..50).map(a_charge)).await.unwrap();
    queue.enqueue_raw("secret:charge", json!({"cents":50,"card":card(),"accessCode":HUSH})).await.unwrap();
    let mut tx = pool.begin_with("BEGIN IMMEDIATE").await.unwrap();
    a_charge(51).enqueue().on(&queue).in_tx(&mut tx).await.unwrap();
    tx.commit().await.unwrap();

    let lies = bytes(folder.path());
    assert!(contains(&lies, "cents") && contains(&lies, "$sealed\":\"a:"), "the scan sees payloads");
    assert!(path.with_extension("db-wal").exists(), "the log is scanned, too");
    for part in ["hush", "0123456789", "aHVzaC"] {
        assert!(!contains(&lies, part), "{part}");
    }
    assert_eq!(
        queue.get(id).await.unwrap().unwrap().payload,
        r#"{"cents":1,"card":"[redacted]","accessCode":"[redacted]"}"#
    );
    assert!(queue.reveal(id).await.unwrap().unwrap().contains(HUSH));

    assert_eq!(drain(&queue).await, vec![format!("{HUSH} 7 {HUSH}"); 51]);
    pool.close().await;
    drop(queue);
    let lies = bytes(folder.path());
    for text in ["hush", "0123456789"] {
        assert!(!contains(&lies, text), "{text} after the run");
        assert!(!log.text().contains(text), "{text} in the log");
    }
}

#[tokio::test]
async fn without_a_key_the_file_has_them_so_the_scan_can_fail() {
    let folder = tempfile::tempdir().unwrap();
    let queue = JobQueue::open(folder.path().join("app.db").to_str().unwrap()).await.unwrap();
    a_charge(1).enqueue().on(&queue).await.unwrap();
    assert!(contains(&bytes(folder.path()), HUSH));
}

/// A queue over the same store with other keys, on the clock of the test.
fn with_keys(queue: &TestQueue, keys: Option<SecretKeys>) -> JobQueue {
    let options = JobQueue::options();
    let options = match keys {
        Some(keys) => options.secret_keys(keys),
        None => options,
    };
    options.with_store(queue.store().clone(), Arc::new(queue.clock().clone())).unwrap()
}

#[jobq::test]
async fn a_schedule_keeps_its_secrets_sealed_and_each_of_its_jobs_is_given_them(queue: TestQueue) {
    let keyed = with_keys(&queue, Some(keys("a", KEY_A)));
    let schedule = Schedule::new("nightly-charge", "@hourly", a_charge(1));
    let shown = keyed.schedule(schedule).await.unwrap();
    let hidden = r#"{"cents":1,"card":"[redacted]","accessCode":"[redacted]"}"#;
    assert_eq!(shown.payload, hidden);
    assert_eq!(keyed.schedules().await.unwrap()[0].payload, hidden);
    let stored = queue.store().schedules(None).await.unwrap().remove(0).payload;
    assert!(!stored.contains(HUSH) && stored.contains(r#""card":{"$sealed":"a:"#), "{stored}");

    let now = keyed.run_schedule_now("nightly-charge").await.unwrap();
    let payload = queue.store().get(now).await.unwrap().unwrap().payload;
    assert!(!payload.contains(HUSH) && payload.contains("$sealed"), "{payload}");
    assert_eq!(drain(&keyed).await, [format!("{HUSH} 7 {HUSH}")]);
    queue.advance(hours(1));
    assert_eq!(drain(&keyed).await, [format!("{HUSH} 7 {HUSH}")], "the tick's own job");

    let keyless = with_keys(&queue, None);
    let error = keyless.run_schedule_now("nightly-charge").await.unwrap_err().to_string();
    assert!(error.contains("sealed with the key `a`, which is not here"), "{error}");
}

#[jobq::test]
async fn a_missing_or_another_key_fails_the_attempt_and_loses_nothing(queue: TestQueue) {
    let sealing = with_keys(&queue, Some(keys("a", KEY_A)));
    let id = a_charge(1).enqueue().on(&sealing).await.unwrap().id();
    let payload = queue.store().get(id).await.unwrap().unwrap().payload;
    assert!(!payload.contains(HUSH) && payload.contains(r#""card":{"$sealed":"a:"#), "{payload}");

    for (reader, why) in [
        (
            with_keys(&queue, None),
            "it is sealed with the key `a`, which is not here: add it to JOBQ_SECRET_KEYS",
        ),
        (with_keys(&queue, Some(keys("a", KEY_B))), "the key `a` is another one than it was sealed with"),
    ] {
        assert!(drain(&reader).await.is_empty());
        let row = queue.get(id).await.unwrap().unwrap();
        let error = row.error.unwrap();
        assert!(
            error.starts_with(&format!("the secret `card` of `secret:charge` can't be opened: {why}")),
            "{error}"
        );
        let error = reader.reveal(id).await.unwrap_err();
        assert!(matches!(&error, QueueError::Sealed(_)) && error.to_string().contains(why), "{error}");
        queue.advance(mins(1));
    }
    let row = queue.store().get(id).await.unwrap().unwrap();
    assert_eq!((row.state, &row.payload), (JobState::Dead, &payload), "kept for people, as it was");

    queue.retry(id).await.unwrap();
    assert_eq!(drain(&sealing).await.len(), 1);
}

#[jobq::test]
async fn a_new_key_seals_and_the_old_one_opens(queue: TestQueue) {
    let old = with_keys(&queue, Some(keys("a", KEY_A)));
    let first = a_charge(1).enqueue().on(&old).await.unwrap().id();
    let new = with_keys(&queue, Some(keys("b", KEY_B).and("a", KEY_A).unwrap()));
    let second = a_charge(2).enqueue().on(&new).await.unwrap().id();
    for (id, key) in [(first, "a"), (second, "b")] {
        let payload = queue.store().get(id).await.unwrap().unwrap().payload;
        assert!(payload.contains(&format!(r#"{{"$sealed":"{key}:"#)), "{payload}");
    }
    assert_eq!(drain(&new).await.len(), 2);
}

#[jobq::test]
async fn what_is_sealed_can_not_be_moved_to_another_job_or_field(queue: TestQueue) {
    let keyed = with_keys(&queue, Some(keys("a", KEY_A)));
    let id = a_charge(1).enqueue().on(&keyed).await.unwrap().id();
    let payload: serde_json::Value =
        serde_json::from_str(&queue.store().get(id).await.unwrap().unwrap().payload).unwrap();
    let swapped = json!({"cents":1,"card":payload["accessCode"],"accessCode":payload["card"]}).to_string();
    let moved = NewJob::new("secret:pay", payload.to_string());
    let swapped = NewJob::new("secret:charge", swapped);
    for job in queue.store().enqueue(vec![moved, swapped], 0).await.unwrap() {
        let error = keyed.reveal(job.id).await.unwrap_err().to_string();
        assert!(
            error.contains("another one than it was sealed with, or the row was changed by hand"),
            "{error}"
        );
    }
}

#[tokio::test]
async fn keys_of_the_environment_are_used_or_refused_and_never_shown() {
    use base64::{Engine, engine::general_purpose::STANDARD};
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("app.db").to_str().unwrap().to_owned();
    let key = STANDARD.encode(KEY_A);
    let open = async |variables: &[(&str, &str)]| {
        let variables: Vec<_> =
            variables.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        let path = path.clone();
        JobQueue::from_vars(move |asked| match asked {
            "JOBQ_DATABASE" => Some(path.clone()),
            _ => variables.iter().find(|(name, _)| name == asked).map(|(_, value)| value.clone()),
        })
        .await
    };
    let queue = open(&[("JOBQ_SECRET_KEY", &key)]).await.unwrap();
    let id = a_charge(1).enqueue().on(&queue).await.unwrap().id();
    assert!(queue.store().get(id).await.unwrap().unwrap().payload.contains(r#""$sealed":"default:"#));
    let several = format!("new:{}, default:{key}", STANDARD.encode(KEY_B));
    let queue = open(&[("JOBQ_SECRET_KEYS", &several)]).await.unwrap();
    assert!(queue.reveal(id).await.unwrap().unwrap().contains(HUSH));

    for (variables, why) in [
        (
            &[("JOBQ_SECRET_KEY", HUSH)][..],
            "JOBQ_SECRET_KEY: entry 1 has no name and is not 32 bytes in base64",
        ),
        (&[("JOBQ_SECRET_KEYS", "a:hush")], "JOBQ_SECRET_KEYS: the key `a` is not 32 bytes in base64"),
        (
            &[("JOBQ_SECRET_KEYS", &several), ("JOBQ_SECRET_KEY", &key)],
            "JOBQ_SECRET_KEY: JOBQ_SECRET_KEYS is set too",
        ),
    ] {
        let error = open(variables).await.unwrap_err();
        let text = format!("{error} {error:?}");
        assert!(text.contains(why), "{text}");
        assert!(!text.contains("hush") && !text.contains(&key), "{text}");
    }
    let options = JobQueue::options().secret_keys(keys("a", KEY_A));
    assert!(format!("{options:?}").contains(r#"SecretKeys(["a"])"#), "{options:?}");
}

#[tokio::test]
async fn a_queue_of_an_older_run_is_read_when_keys_come_later() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("app.db");
    let plain = JobQueue::open(path.to_str().unwrap()).await.unwrap();
    a_charge(1).enqueue().on(&plain).await.unwrap();
    drop(plain);
    let queue = open(&path, keys("a", KEY_A)).await;
    a_charge(2).enqueue().on(&queue).await.unwrap();
    assert_eq!(drain(&queue).await.len(), 2);
}
