//! Versions of payloads: older ones are upgraded, newer ones wait for the build that knows them.

use crate::worker::ground::{Ground, ground};
use jobq::{
    AttemptOutcome, JobSet, JobState, ManualClock, QueueError, Registry, Schedule, SqliteOptions,
    SqliteStore, StoreError,
    job::NewJob,
    prelude::*,
    schedule::{CatchUp, Overlap},
    store::{Claim, ClaimSet, Failure, NewSchedule, NewWorker, Next, Source, Store},
};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};

/// What the jobs of one test were given.
#[derive(Clone, Default)]
struct Post(Arc<Mutex<Vec<String>>>);

impl Post {
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

/// Version 1 had `to`, version 2 `to` and `copies`, this one is made of both.
#[job(type = "versions-test:mail", aliases = ["versions-test:post"], max_attempts = 2, version = 3, upgrade = older_mail)]
async fn send_mail(#[data] post: &Post, address: String, copies: u32) {
    post.0.lock().unwrap().push(format!("{address} × {copies}"));
}

fn older_mail(stored: u32, mut payload: Value) -> Result<Value, String> {
    match (stored, payload["to"].take()) {
        (_, to) if to == json!("panic") => panic!("no such mail"),
        (_, to) if to == json!("wrong") => Ok(json!({ "address": to, "copies": "many" })),
        (1, Value::String(to)) => Ok(json!({ "address": to, "copies": 1 })),
        (2, Value::String(to)) => Ok(json!({ "address": to, "copies": payload["copies"] })),
        (_, to) => Err(format!("{to} is no address")),
    }
}

/// Without a version: the first.
#[job(type = "versions-test:plain", max_attempts = 2)]
async fn plain(#[data] post: &Post, n: u32) {
    post.0.lock().unwrap().push(n.to_string());
}

fn row(job_type: &'static str, version: u32, payload: Value) -> NewJob {
    NewJob { version, max_attempts: 2, ..NewJob::new(job_type, payload.to_string()) }
}

async fn drain(queue: &JobQueue, post: &Post) {
    Worker::new(queue).data(post.clone()).jobs((send_mail, plain)).drain().await.unwrap();
}

async fn stored(g: &Ground, new: NewJob) -> jobq::JobId {
    g.memory.enqueue(vec![new], jobq::Clock::now(&g.clock)).await.unwrap()[0].id
}

async fn older_payloads_are_upgraded_and_new_ones_are_of_this_version(queue: JobQueue) {
    let post = Post::default();
    let now = queue.clock().now();
    let rows = vec![
        row("versions-test:mail", 1, json!({ "to": "ada" })),
        row("versions-test:post", 1, json!({ "to": "bob" })),
        row("versions-test:mail", 2, json!({ "to": "cy", "copies": 2 })),
        row("versions-test:plain", 1, json!({ "n": 4 })),
    ];
    let old = queue.store().enqueue(rows, now).await.unwrap();
    let new = send_mail.enqueue(("dee".into(), 3)).on(&queue).await.unwrap();
    let many = send_mail.enqueue_all([("eve".into(), 5)]).on(&queue).await.unwrap();
    let raw =
        queue.enqueue_raw("versions-test:post", json!({ "address": "fay", "copies": 6 })).await.unwrap();
    let plain = plain.enqueue(7).on(&queue).await.unwrap();
    for (id, version) in [(new.id(), 3), (many[0].id, 3), (raw.id, 3), (plain.id(), 1), (old[0].id, 1)] {
        assert_eq!(queue.get(id).await.unwrap().unwrap().version, version);
    }
    drain(&queue, &post).await;
    let mut took = post.take();
    took.sort();
    assert_eq!(took, ["4", "7", "ada × 1", "bob × 1", "cy × 2", "dee × 3", "eve × 5", "fay × 6"]);
    let first = queue.get(old[0].id).await.unwrap().unwrap();
    assert_eq!((first.state, first.version, &*first.payload), (JobState::Completed, 1, r#"{"to":"ada"}"#));
}

#[tokio::test]
async fn older_payloads_are_upgraded_and_new_ones_are_of_this_version_in_memory() {
    older_payloads_are_upgraded_and_new_ones_are_of_this_version(ground().queue).await;
}

#[tokio::test]
async fn older_payloads_are_upgraded_and_new_ones_are_of_this_version_on_sqlite() {
    let dir = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::default());
    let options = SqliteOptions::new(dir.path().join("app.db")).clock(clock.clone());
    let queue = JobQueue::with_store(Arc::new(SqliteStore::open(options).await.unwrap()), clock);
    older_payloads_are_upgraded_and_new_ones_are_of_this_version(queue).await;
}

/// Semantics 5: it goes through the retry schedule with a clear error, since a roll-back or a new build may repair it.
#[tokio::test]
async fn a_newer_payload_waits_for_its_build_and_says_so() {
    let (g, post) = (ground(), Post::default());
    let bystander = g.bystander().await;
    let id =
        stored(&g, row("versions-test:mail", 4, json!({ "address": "ada", "copies": 1, "sealed": true })))
            .await;
    let plain = stored(&g, row("versions-test:plain", 2, json!({ "n": 1 }))).await;
    let fine = stored(&g, row("versions-test:plain", 1, json!({ "n": 2 }))).await;
    drain(&g.queue, &post).await;
    assert_eq!(post.take(), ["2"], "no handler saw the others");
    assert_eq!(g.state(fine).await, JobState::Completed);
    for (id, text) in [
        (id, "written by version 4 of `versions-test:mail`; this build knows up to 3"),
        (plain, "written by version 2 of `versions-test:plain`; this build knows up to 1"),
    ] {
        let row = g.row(id).await;
        assert_eq!((row.state, row.attempts, row.error.as_deref()), (JobState::Scheduled, 1, Some(text)));
        assert_eq!(g.attempts(id).await[0].outcome, AttemptOutcome::Undecodable);
    }
    g.clock.advance(hours(2));
    drain(&g.queue, &post).await;
    assert_eq!((g.state(id).await, g.state(plain).await), (JobState::Dead, JobState::Dead));
    g.untouched(bystander).await;
}

#[tokio::test]
async fn an_upgrade_that_fails_says_from_which_version_and_why() {
    let (g, post) = (ground(), Post::default());
    let mail = |version, to| row("versions-test:mail", version, json!({ "to": to }));
    let refused = stored(&g, mail(1, json!(7))).await;
    let wrong = stored(&g, mail(2, json!("wrong"))).await;
    let panics = stored(&g, mail(1, json!("panic"))).await;
    let no_json = stored(&g, NewJob::new("versions-test:mail", "{")).await;
    drain(&g.queue, &post).await;
    let told = async |id| {
        let row = g.row(id).await;
        assert_eq!((row.state, row.attempts), (JobState::Scheduled, 1), "it is tried again");
        (g.attempts(id).await[0].outcome, row.error.unwrap())
    };
    let undecodable = AttemptOutcome::Undecodable;
    let text = "`versions-test:mail` has no upgrade for this payload of version 1: 7 is no address";
    assert_eq!(told(refused).await, (undecodable, text.into()));
    let text = "upgraded from version 2, the payload does not fit `versions-test:mail` of this build: invalid type: \
                string \"many\", expected u32 at line 1 column 34";
    assert_eq!(told(wrong).await, (undecodable, text.into()));
    assert_eq!(told(panics).await, (AttemptOutcome::Panicked, "panicked: no such mail".into()));
    let (outcome, text) = told(no_json).await;
    assert_eq!(outcome, undecodable);
    assert!(text.starts_with("the payload does not fit `versions-test:mail` of this build: EOF"), "{text}");
    assert!(post.take().is_empty());
}

// ---- queue.check() ---------------------------------------------------------------------------------------------

#[tokio::test]
async fn a_check_of_what_this_build_can_run_finds_nothing_and_changes_nothing() {
    let (g, post) = (ground(), Post::default());
    assert!(g.queue.check().await.unwrap().is_ok(), "an empty queue");
    stored(&g, row("versions-test:post", 1, json!({ "to": "ada" }))).await;
    plain.enqueue(7).delay(hours(1)).on(&g.queue).await.unwrap();
    let before = g.queue.list(Default::default()).await.unwrap();
    let report = g.queue.check().await.unwrap();
    assert_eq!(report.to_string(), "2 payloads were checked, and this build can run all of them");
    assert_eq!(g.queue.list(Default::default()).await.unwrap(), before);
    // What is done with need not be read any more.
    let cancelled = stored(&g, row("versions-test:mail", 9, json!(null))).await;
    g.queue.cancel(cancelled).await.unwrap();
    assert!(g.queue.check().await.unwrap().is_ok());
    drain(&g.queue, &post).await;
    assert_eq!(post.take(), ["ada × 1"]);
}

#[tokio::test]
async fn a_check_names_what_this_build_can_not_run_with_examples_and_errors() {
    let g = ground();
    for _ in 0..14 {
        stored(&g, row("versions-test:plain", 1, json!({ "m": 1 }))).await;
    }
    let (mut newer, now) = (Vec::new(), jobq::Clock::now(&g.clock));
    for _ in 0..2 {
        newer.push(stored(&g, row("versions-test:plain", 3, json!({ "n": 1 }))).await);
    }
    let lone = NewJob { run_at: Some(now + 1), ..row("versions-test:retired", 1, json!({})) };
    let lone = stored(&g, lone).await;
    for n in 0..7 {
        stored(&g, row("versions-test:mail", 1, json!({ "to": n }))).await;
    }
    let panics = stored(&g, row("versions-test:mail", 2, json!({ "to": "panic" }))).await;
    // One of them runs, one is dead.
    let worker = g.memory.register(NewWorker { beat: secs(5), queues: String::new() }, now).await.unwrap();
    let set = Arc::new(ClaimSet { job_types: vec!["versions-test:plain".into()], queues: None });
    let taken = g.memory.claim(Claim { worker, set, limit: 2, standing: false }, now).await.unwrap();
    let ended = Failure {
        id: taken[0].id,
        lease: 1,
        outcome: AttemptOutcome::Failed,
        error: "no".into(),
        next: Next::Dead,
        ties: taken[0].ties,
        on_dead: None,
    };
    g.memory.fail(vec![ended], now).await.unwrap();

    let report = g.queue.check().await.unwrap();
    assert!(!report.is_ok());
    let [mail, panicking, first, third] = &report.unreadable[..] else { panic!("{report}") };
    assert_eq!((&*mail.job_type, mail.version, mail.standing.waiting), ("versions-test:mail", 1, 7));
    assert_eq!(mail.faults.len(), 5, "some of seven different errors");
    assert_eq!(panicking.faults[0].ids, [panics]);
    assert_eq!(panicking.faults[0].error, "its decoding panicked: no such mail");
    assert_eq!((first.standing.waiting, first.standing.running, first.standing.dead), (12, 1, 1));
    let [fault] = &first.faults[..] else { panic!("{report}") };
    assert_eq!((fault.count, fault.ids.len(), fault.ids[0]), (14, 5, taken[0].id));
    assert_eq!(third.faults[0].ids, newer);

    let text = report.to_string();
    assert!(
        text.starts_with("25 payloads were checked\n7 waiting jobs of `versions-test:mail` v1 cannot be"),
        "{text}"
    );
    let lines = [
        "\n12 waiting, 1 running and 1 dead jobs of `versions-test:plain` v1 cannot be read by this build\n    the \
         payload does not fit `versions-test:plain` of this build: missing field `n` at line 1 column 7 (",
        "\n2 waiting jobs of `versions-test:plain` v3 cannot be read by this build\n    written by version 3 of \
         `versions-test:plain`; this build knows up to 1 (",
        &format!(
            "\n1 waiting job of `versions-test:retired`, a name that no job of this program has ({lone})"
        ),
    ];
    for line in lines {
        assert!(text.contains(line), "{line} is not in {text}");
    }
    let value = serde_json::to_value(&report).unwrap();
    assert_eq!(value["unreadable"][3]["waiting"], json!(2));
    assert_eq!(value["unknown"][0]["ids"], json!([lone.to_string()]));

    // Another set of jobs knows less.
    let registry = Registry::linked().unwrap().pick(&send_mail.job_types()).unwrap();
    let report = g.queue.check().with(&registry).await.unwrap();
    assert_eq!((report.unknown.len(), report.unknown[0].standing.all()), (2, 16));
}

#[tokio::test]
async fn a_long_check_tells_how_far_it_is() {
    let g = ground();
    plain.enqueue_all(0..2500).on(&g.queue).await.unwrap();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let told = seen.clone();
    let report = g.queue.check().on_progress(move |so_far| told.lock().unwrap().push(so_far)).await.unwrap();
    assert_eq!(report.payloads, 2500);
    let seen: Vec<_> =
        seen.lock().unwrap().iter().map(|so_far| (so_far.payloads, so_far.rows, so_far.of)).collect();
    assert_eq!(seen, [(1000, 1000, 2500), (2000, 2000, 2500), (2500, 2500, 2500)]);
    g.rig.fail("payloads", StoreError::Closed);
    assert!(matches!(g.queue.check().await, Err(QueueError::Store(StoreError::Closed))));
}

// ---- what is stored beside jobs, and secrets -------------------------------------------------------------------

/// Version 1 had its password in `login`, beside the user.
#[job(type = "versions-test:log-in", max_attempts = 1, version = 2, upgrade = older_login)]
async fn log_in(#[data] post: &Post, user: String, #[secret] password: String) {
    post.0.lock().unwrap().push(format!("{user} {password}"));
}

fn older_login(_: u32, payload: Value) -> Result<Value, String> {
    let password = payload["login"].as_str().ok_or("no login")?;
    Ok(json!({ "user": payload["user"], "password": password }))
}

#[tokio::test]
async fn a_schedule_of_an_older_version_ticks_with_its_payload_upgraded() {
    let g = ground();
    let bystander = g.bystander().await;
    let schedule = Schedule::new("letter", "0 * * * *", SendMail { address: "ada".into(), copies: 2 });
    let row = g.queue.schedule(schedule).await.unwrap();
    assert_eq!((row.version, &*row.payload), (3, r#"{"address":"ada","copies":2}"#));
    let older = |version, payload: Value| NewSchedule {
        id: "older".into(),
        job_type: "versions-test:post".into(),
        payload: payload.to_string(),
        version,
        cron_expr: "0 * * * *".into(),
        tz: "UTC".into(),
        catch_up: CatchUp::Once,
        overlap: Overlap::Allow,
        source: Source::Dynamic,
        options: "{}".into(),
        next_run: row.next_run,
        enabled: None,
    };
    let now = jobq::Clock::now(&g.clock);
    g.memory.put_schedule(older(2, json!({ "to": "bob", "copies": 3 })), now).await.unwrap();
    let id = g.queue.run_schedule_now("older").await.unwrap();
    let job = g.row(id).await;
    assert_eq!((job.version, &*job.payload), (3, r#"{"address":"bob","copies":3}"#));
    let post = Post::default();
    drain(&g.queue, &post).await;
    assert_eq!(post.take(), ["bob × 3"]);

    g.memory.put_schedule(older(4, json!({})), now).await.unwrap();
    let error = g.queue.run_schedule_now("older").await.unwrap_err().to_string();
    assert!(error.contains("written by version 4 of `versions-test:mail`"), "{error}");
    g.untouched(bystander).await;
}

#[tokio::test]
async fn a_sealed_secret_of_an_older_version_is_opened_for_its_upgrade_and_for_the_check() {
    let g = ground();
    let bystander = g.bystander().await;
    let keys = jobq::SecretKeys::new("a", [1; 32]).unwrap();
    let options = JobQueue::options().secret_keys(keys);
    let keyed = options.with_store(Arc::new(g.memory.clone()), Arc::new(g.clock.clone())).unwrap();
    let marked = json!({ "user": "ada", "login": { "$secret": "hush" } });
    let mut jobs = [row("versions-test:log-in", 1, marked)];
    let now = jobq::Clock::now(&g.clock);
    // As a build that had version 1 stored it.
    let scheduled = g.memory.enqueue(jobs.to_vec(), now).await.unwrap()[0].id;
    jobs[0].payload = json!({ "user": "bob", "password": 7 }).to_string();
    jobs[0].version = 2;
    g.memory.enqueue(jobs.to_vec(), now).await.unwrap();

    let report = keyed.check().await.unwrap();
    let text = report.to_string();
    assert!(
        text.contains("1 waiting job of `versions-test:log-in` v2 cannot be read by this build"),
        "{text}"
    );
    assert!(!text.contains("`versions-test:log-in` v1") && !text.contains("hush"), "{text}");
    let post = Post::default();
    Worker::new(&keyed).data(post.clone()).jobs(log_in).drain().await.unwrap();
    assert_eq!(post.take(), ["ada hush"]);
    assert_eq!(g.state(scheduled).await, JobState::Completed);
    g.untouched(bystander).await;
}

#[tokio::test]
async fn a_replaced_payload_takes_its_version_with_it() {
    let g = ground();
    let bystander = g.bystander().await;
    let replaces = || {
        let unique = jobq::job::UniqueKey {
            key: "k".into(),
            scope: String::new(),
            states: jobq::Until::Finished.states(),
            within: None,
            on_conflict: jobq::OnConflict::replace(&[jobq::job::JobField::Payload]),
        };
        Some(Box::new(unique))
    };
    let first = row("versions-test:mail", 1, json!({ "to": "ada" }));
    let id = stored(&g, NewJob { unique: replaces(), ..first }).await;
    let second = row("versions-test:mail", 2, json!({ "to": "bob", "copies": 5 }));
    assert_eq!(stored(&g, NewJob { unique: replaces(), ..second }).await, id);
    let post = Post::default();
    drain(&g.queue, &post).await;
    assert_eq!(post.take(), ["bob × 5"]);
    g.untouched(bystander).await;
}
