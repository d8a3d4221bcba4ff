//! The queue as applications use it: enqueueing, its options and errors, scopes, acts of people.

use crate::{Ids, rigged::Rigged};
use chrono::{DateTime, Utc};
use jobq::{
    Acted, Call, EnqueueError, JobFilter, JobHandle, JobId, JobRow, JobSet, JobState, ManualClock,
    MemoryStore, NoQueue, QueueError, SqliteOptions, SqliteStore,
    job::{Defaults, MAX_PAYLOAD},
    prelude::*,
    store::{Claim, ClaimSet, Claimed, Completion, Failure, NewWorker, Next, Settled, Store, StoreError},
};
use serde::{Deserialize, Serialize};
use serde_json::json;
use sqlx::{Connection, SqliteConnection};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    process::Command,
    sync::Arc,
    time::Duration,
};

/// What `#[job]` writes for `async fn measure(ctx: &JobContext, user_id: u64, email: String) -> Result<u32, String>`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Measure {
    user_id: u64,
    email: String,
}

impl Job for Measure {
    const TYPE: &'static str = "measure";
    const DEFAULTS: Defaults = Defaults {
        queue: "scales",
        priority: 3,
        max_attempts: Some(8),
        timeout: Some(Timeout::After(secs(20))),
        retain: Some(days(2)),
        ..Defaults::NONE
    };
    type Args = (u64, String);
    type Return = Result<u32, String>;

    fn from_args((user_id, email): (u64, String)) -> Self {
        Self { user_id, email }
    }

    fn label(&self) -> Option<String> {
        Some(format!("Measure {}", self.email))
    }
}

fn measure<'a>(ctx: &'a JobContext, user_id: u64, email: String) -> Call<'a, Measure> {
    Call::new(Box::pin(async move { Ok((user_id as u32 + email.len() as u32) * ctx.attempt()) }))
}

/// The same for `async fn sweep()`.
#[derive(Serialize, Deserialize)]
struct Sweep {}

impl Job for Sweep {
    const TYPE: &'static str = "sweep";
    const DEFAULTS: Defaults = Defaults::NONE;
    type Args = ();
    type Return = ();

    fn from_args((): ()) -> Self {
        Self {}
    }
}

fn sweep() -> Call<'static, Sweep> {
    Call::new(Box::pin(async {}))
}

/// A queue in memory with a clock of its own, and a job in it that no test may touch.
struct Bench {
    queue: JobQueue,
    clock: ManualClock,
    bystander: JobRow,
}

impl Bench {
    async fn new() -> Self {
        Self::on(Arc::new(MemoryStore::new()), ManualClock::default()).await
    }

    async fn on(store: Arc<dyn Store>, clock: ManualClock) -> Self {
        let queue = JobQueue::with_store(store, Arc::new(clock.clone()));
        let id = queue.enqueue(Sweep {}).queue("bystanders").label("bystander").await.unwrap().id();
        let bystander = queue.get(id).await.unwrap().unwrap();
        Self { queue, clock, bystander }
    }

    async fn on_sqlite(dir: &Path) -> Self {
        let clock = ManualClock::default();
        let file = SqliteOptions::new(dir.join("queue.db")).clock(Arc::new(clock.clone()));
        Self::on(Arc::new(SqliteStore::open(file).await.unwrap()), clock).await
    }

    async fn row(&self, id: JobId) -> JobRow {
        self.queue.get(id).await.unwrap().unwrap()
    }

    /// The states of all jobs but the bystander, which must be as it was.
    async fn others(&self) -> Vec<JobState> {
        assert_eq!(self.row(self.bystander.id).await, self.bystander, "the bystander was touched");
        let rows = self.queue.list(JobFilter { limit: 1000, ..JobFilter::default() }).await.unwrap();
        rows.iter().filter(|row| row.id != self.bystander.id).map(|row| row.state).collect()
    }

    /// A job in this state.
    async fn job_in(&self, state: JobState) -> JobId {
        let delay = if state == JobState::Scheduled { hours(1) } else { secs(0) };
        let email = state.to_string();
        let id = self.queue.enqueue(Measure { user_id: 1, email }).delay(delay).await.unwrap().id();
        match state {
            JobState::Scheduled | JobState::Pending => {}
            JobState::Cancelled => drop(self.queue.cancel(id).await.unwrap()),
            JobState::Running | JobState::Completed | JobState::Dead => {
                let claimed = self.claim_one().await;
                assert_eq!(claimed.id, id);
                self.end(&claimed, state).await;
            }
        }
        assert_eq!(self.row(id).await.state, state);
        id
    }

    async fn claim_one(&self) -> Claimed {
        let (store, now) = (self.queue.store(), jobq::Clock::now(&self.clock));
        let worker = store.register(NewWorker { beat: secs(5), queues: String::new() }, now).await.unwrap();
        let set = Arc::new(ClaimSet {
            job_types: vec!["measure".into(), "sweep".into()],
            queues: Some(vec!["scales".into(), "default".into()]),
        });
        let claim = Claim { worker, set, limit: 1, standing: false };
        store.claim(claim, now).await.unwrap().remove(0)
    }

    async fn end(&self, claimed: &Claimed, state: JobState) {
        let (store, now) = (self.queue.store(), jobq::Clock::now(&self.clock));
        let (id, lease) = (claimed.id, claimed.lease);
        let outcome = jobq::AttemptOutcome::Failed;
        let settled = match state {
            JobState::Completed => {
                store.complete(vec![Completion { id, lease, result: None, ties: claimed.ties }], now).await
            }
            JobState::Dead => {
                let failure = Failure {
                    id,
                    lease,
                    outcome,
                    error: "no".into(),
                    next: Next::Dead,
                    ties: claimed.ties,
                    on_dead: None,
                };
                store.fail(vec![failure], now).await
            }
            _ => return,
        };
        assert_eq!(settled.unwrap(), [Settled::Applied]);
    }
}

/// Facts that hold on every store.
macro_rules! on_every_store {
    ($($fact:ident)*) => {
        mod in_memory { $(
            #[tokio::test]
            async fn $fact() {
                super::$fact(super::Bench::new().await).await;
            }
        )* }
        mod on_sqlite { $(
            #[tokio::test]
            async fn $fact() {
                let dir = tempfile::tempdir().unwrap();
                super::$fact(super::Bench::on_sqlite(dir.path()).await).await;
            }
        )* }
    };
}

on_every_store! {
    priority_and_delay_are_read_back_exactly_and_the_job_waits
    every_option_lands_in_its_own_column
    a_job_is_never_due_before_what_was_asked_and_no_time_overflows
    a_label_is_cut_by_characters_and_the_cut_is_marked
    every_act_works_in_its_states_and_says_why_not_in_the_others
    acts_on_many_answer_for_each_in_order
    acts_on_one_job_take_its_handle_as_they_take_its_id
    a_filter_is_built_condition_by_condition
    pages_give_each_job_that_stays_once_whatever_comes_and_goes
    prune_follows_the_retention_of_the_row_then_of_the_queue
    a_job_by_name_is_checked_and_is_the_same_as_by_function
}

fn ada() -> Measure {
    Measure { user_id: 42, email: "ada@example.org".into() }
}

// ---- enqueueing and its options --------------------------------------------------------------------------------

#[tokio::test]
async fn a_function_and_its_payload_store_the_same_job() {
    let bench = Bench::new().await;
    let by_function: JobHandle<Measure> =
        measure.enqueue((42, "ada@example.org".into())).on(&bench.queue).await.unwrap();
    let by_payload = ada().enqueue().on(&bench.queue).await.unwrap();
    let by_queue = bench.queue.enqueue(ada()).await.unwrap();
    let pointer: fn() -> Call<'static, Sweep> = sweep;
    let other = pointer.enqueue(()).on(&bench.queue).await.unwrap();

    let first = bench.row(by_function.id()).await;
    for same in [by_payload, by_queue] {
        let row = bench.row(same.id()).await;
        assert_eq!(row, JobRow { id: row.id, ..first.clone() });
    }
    assert_eq!(first.payload, r#"{"user_id":42,"email":"ada@example.org"}"#);
    assert_eq!(first.label.as_deref(), Some("Measure ada@example.org"));
    assert_eq!(bench.row(other.id()).await.job_type, "sweep");
    assert_eq!((measure, sweep).job_types(), ["measure", "sweep"]);
    assert_eq!(bench.others().await.len(), 4);
}

/// A payload need not be shareable between threads; the enqueue of it is still sent between them.
#[job(type = "queue-test:count")]
async fn count_up(cell: std::cell::Cell<u32>) -> Result<(), JobError> {
    cell.set(cell.get() + 1);
    Ok(())
}

#[tokio::test]
async fn an_enqueue_moves_between_threads_even_where_its_payload_is_not_shareable() {
    let bench = Bench::new().await;
    let (one, many) = (bench.queue.clone(), bench.queue.clone());
    let one = tokio::spawn(async move { count_up.enqueue(1.into()).on(&one).await });
    one.await.unwrap().unwrap();
    let many = tokio::spawn(async move { many.enqueue_all([CountUp { cell: 2.into() }]).await });
    many.await.unwrap().unwrap();
    assert_eq!(bench.others().await.len(), 2);
}

#[tokio::test]
async fn a_dropped_enqueue_stores_nothing() {
    let bench = Bench::new().await;
    drop(bench.queue.enqueue(ada()).priority(9));
    drop(bench.queue.enqueue(ada()).into_future());
    assert_eq!(bench.others().await, []);
}

/// Case 003: a due time once landed in the priority column.
async fn priority_and_delay_are_read_back_exactly_and_the_job_waits(bench: Bench) {
    let id =
        measure.enqueue((1, "x".into())).priority(7).delay(hours(1)).on(&bench.queue).await.unwrap().id();
    let row = bench.row(id).await;
    assert_eq!((row.priority, row.run_at), (7, row.created_at + 3_600_000));
    assert_eq!(row.state, JobState::Scheduled);

    let promoted = async || {
        let now = jobq::Clock::now(&bench.clock);
        bench.queue.store().promote(10, now).await.unwrap()
    };
    bench.clock.advance(hours(1) - Duration::from_millis(1));
    assert_eq!(promoted().await, 0);
    bench.clock.advance(Duration::from_millis(1));
    assert_eq!(promoted().await, 1);
    assert_eq!(bench.others().await, [JobState::Pending]);
}

async fn every_option_lands_in_its_own_column(bench: Bench) {
    let backoff = Backoff::Fixed { delay: secs(11), jitter: 0.5 };
    let id = bench.queue.enqueue(ada());
    let id = id.priority(-5).max_attempts(13).queue("mail").timeout(secs(17)).backoff(backoff);
    let id = id.retain(days(19)).label("A title").delay(mins(23)).await.unwrap().id();
    let row = bench.row(id).await;
    let now = jobq::Clock::now(&bench.clock);
    let expected = JobRow {
        flow: None,
        id,
        unique: None,
        job_type: "measure".into(),
        queue: "mail".into(),
        state: JobState::Scheduled,
        priority: -5,
        payload: row.payload.clone(),
        version: 1,
        label: Some("A title".into()),
        run_at: now + 23 * 60_000,
        attempts: 0,
        max_attempts: 13,
        lease: 0,
        worker: None,
        heartbeat_at: None,
        started_at: None,
        completed_at: None,
        cancel_asked_at: None,
        created_at: now,
        updated_at: now,
        timeout: Some(Timeout::After(secs(17))),
        backoff: Some(backoff),
        retain: Some(days(19)),
        processed_items: None,
        total_items: None,
        result: None,
        error: None,
        concurrency_key: None,
    };
    assert_eq!(row, expected);
    assert_eq!(bench.others().await.len(), 1);
}

#[tokio::test]
async fn what_the_enqueue_leaves_open_the_type_says_and_then_the_queue() {
    let bench = Bench::new().await;
    let typed = bench.row(bench.queue.enqueue(ada()).await.unwrap().id()).await;
    assert_eq!((typed.queue.as_str(), typed.priority, typed.max_attempts), ("scales", 3, 8));
    assert_eq!((typed.timeout, typed.retain), (Some(Timeout::After(secs(20))), Some(days(2))));
    assert_eq!((typed.backoff, typed.run_at), (None, typed.created_at));

    let plain = bench.row(bench.queue.enqueue(Sweep {}).await.unwrap().id()).await;
    assert_eq!((plain.queue.as_str(), plain.priority, plain.max_attempts), ("default", 0, 3));
    assert_eq!((plain.timeout, plain.retain, plain.label), (None, None, None));

    let own = JobQueue::options().default_max_attempts(11);
    let own = own.with_store(bench.queue.store().clone(), Arc::new(bench.clock.clone())).unwrap();
    let by_queue = bench.row(own.enqueue(Sweep {}).await.unwrap().id()).await;
    assert_eq!(by_queue.max_attempts, 11);
    // Case 029: "no retries" is not "not set".
    let once = bench.row(own.enqueue(Sweep {}).max_attempts(1).await.unwrap().id()).await;
    assert_eq!(once.max_attempts, 1);
    let never = bench.row(own.enqueue(ada()).timeout(Timeout::Never).await.unwrap().id()).await;
    assert_eq!(never.timeout, Some(Timeout::Never));
    assert_eq!(bench.others().await.len(), 5);
}

async fn a_job_is_never_due_before_what_was_asked_and_no_time_overflows(bench: Bench) {
    let now = jobq::Clock::now(&bench.clock);
    let base = DateTime::<Utc>::from_timestamp_millis(now).unwrap();
    let tick = Duration::from_nanos(1);
    let cases = [
        (bench.queue.enqueue(ada()).delay(tick), now + 1),
        (bench.queue.enqueue(ada()).run_at(base + tick), now + 1),
        (bench.queue.enqueue(ada()).run_at(base + hours(1)), now + 3_600_000),
        (bench.queue.enqueue(ada()).delay(hours(1)).run_at(base - secs(1)), now - 1000),
        (bench.queue.enqueue(ada()).run_at(base).delay(secs(1)), now + 1000),
    ];
    for (enqueue, expected) in cases {
        let id = enqueue.await.unwrap().id();
        assert_eq!(bench.row(id).await.run_at, expected);
    }
    for far in [
        bench.queue.enqueue(ada()).delay(Duration::MAX),
        bench.queue.enqueue(ada()).run_at(DateTime::<Utc>::MAX_UTC),
        bench.queue.enqueue(ada()).delay(days(u64::MAX)),
    ] {
        let row = bench.row(far.await.unwrap().id()).await;
        assert_eq!(row.state, JobState::Scheduled);
        assert!(row.run_at > now + 1000 * 365 * 86_400_000, "{} is not far away", row.run_at);
    }
    let past = bench.queue.enqueue(ada()).run_at(DateTime::<Utc>::MIN_UTC).await.unwrap().id();
    assert_eq!(bench.row(past).await.state, JobState::Pending);
    assert_eq!(bench.others().await.len(), 9);
}

async fn a_label_is_cut_by_characters_and_the_cut_is_marked(bench: Bench) {
    let label = async |label: String| {
        let id = bench.queue.enqueue(ada()).label(label).await.unwrap().id();
        bench.row(id).await.label.unwrap()
    };
    assert_eq!(label("ł".repeat(255)).await, "ł".repeat(255));
    assert_eq!(label("ł".repeat(256)).await, "ł".repeat(254) + "…");
    assert_eq!(label("a\0b".into()).await, "a\u{fffd}b");
    let own = Measure { user_id: 1, email: "é".repeat(300) };
    let row = bench.row(bench.queue.enqueue(own).await.unwrap().id()).await;
    assert_eq!(row.label.unwrap(), format!("Measure {}…", "é".repeat(246)));
    assert_eq!(bench.others().await.len(), 4);
}

/// A payload that serde can't write as JSON: a map with keys that are no text.
#[derive(Clone, Serialize, Deserialize)]
struct Grid {
    cells: BTreeMap<(u8, u8), u8>,
}

impl Job for Grid {
    const TYPE: &'static str = "grid";
    const DEFAULTS: Defaults = Defaults::NONE;
    type Args = BTreeMap<(u8, u8), u8>;
    type Return = ();

    fn from_args(cells: Self::Args) -> Self {
        Self { cells }
    }
}

fn grid(cells: usize) -> Grid {
    Grid { cells: (0..cells).map(|cell| ((cell as u8, 0), 1)).collect() }
}

#[tokio::test]
async fn what_cannot_be_a_job_is_refused_with_what_to_write_and_nothing_is_stored() {
    let bench = Bench::new().await;
    let enqueue = || bench.queue.enqueue(ada());
    let jitter = |jitter| Backoff::Fixed { delay: secs(1), jitter };
    let factor = |factor| Backoff::Exponential { base: secs(1), factor, max: secs(9), jitter: 0.0 };
    let name = |why: &str, name: &str| {
        format!("{name:?} can't be the name of a queue: {why}; a name such as \"mail\" is meant")
    };
    let long = "ż".repeat(33);
    let cases = [
        (
            enqueue().max_attempts(0),
            "max_attempts is 0, and such a job never runs; 1 means one run and no retry".into(),
        ),
        (
            enqueue().timeout(Duration::ZERO),
            "the timeout is zero, and no attempt can be that fast; for none write `Timeout::Never`".into(),
        ),
        (
            enqueue().backoff(jitter(f64::NAN)),
            "the backoff can't be used: its jitter is NaN; it must be from 0 to 1".into(),
        ),
        (
            enqueue().backoff(factor(f64::INFINITY)),
            "the backoff can't be used: its factor is inf; it must be at least 1".into(),
        ),
        (
            enqueue().backoff(factor(0.5)),
            "the backoff can't be used: its factor is 0.5; it must be at least 1".into(),
        ),
        (enqueue().queue(""), name("it is empty", "")),
        (enqueue().queue(long.clone()), name("it is longer than 64 bytes", &long)),
        (enqueue().queue("ma\nil"), name("it has a control character in it", "ma\nil")),
        (enqueue().queue("mail "), name("it begins or ends with white space", "mail ")),
    ];
    for (enqueue, expected) in cases {
        assert_eq!(enqueue.await.unwrap_err().to_string(), expected);
    }
    let unwritable = bench.queue.enqueue(grid(1)).await.unwrap_err();
    assert_eq!(
        unwritable.to_string(),
        "the payload of `grid` can't be written as JSON: key must be a string"
    );
    assert_eq!(bench.others().await, []);
    bench.queue.enqueue(ada()).queue("ż".repeat(32)).await.unwrap();
    assert_eq!(bench.others().await.len(), 1);
}

#[derive(Serialize, Deserialize)]
struct Weigh {
    grams: f64,
    note: Option<String>,
}

impl Job for Weigh {
    const TYPE: &'static str = "weigh";
    const DEFAULTS: Defaults = Defaults::NONE;
    type Args = (f64, Option<String>);
    type Return = ();

    fn from_args((grams, note): Self::Args) -> Self {
        Self { grams, note }
    }
}

#[tokio::test]
async fn a_payload_that_no_attempt_could_read_is_refused_and_one_with_null_in_it_is_not() {
    let bench = Bench::new().await;
    let weigh = |grams, note: Option<&str>| Weigh { grams, note: note.map(str::to_owned) };
    for grams in [f64::NAN, f64::INFINITY] {
        let error = bench.queue.enqueue(weigh(grams, None)).await.unwrap_err();
        assert!(matches!(error, EnqueueError::Unreadable { job_type: "weigh", .. }), "{error}");
        assert_eq!(
            error.to_string(),
            "the payload of `weigh` can't be read back from its JSON: invalid type: null, expected f64 at line 1 \
             column 13; NaN and infinities have no JSON and become `null`"
        );
    }
    let many = [weigh(1.0, None), weigh(f64::NAN, None)];
    let error = bench.queue.enqueue_all(many).await.unwrap_err();
    assert_eq!((error.landed.len(), error.index), (0, Some(1)));
    assert_eq!(bench.others().await, []);

    for note in [None, Some("null"), Some("none")] {
        bench.queue.enqueue(weigh(2.5, note)).await.unwrap();
    }
    assert_eq!(bench.others().await.len(), 3);
}

#[tokio::test]
async fn a_payload_of_16_mib_is_taken_and_one_more_byte_is_not() {
    let bench = Bench::new().await;
    let sized = |bytes| {
        let around = r#"{"user_id":1,"email":""}"#.len();
        bench.queue.enqueue(Measure { user_id: 1, email: "x".repeat(bytes - around) }).label("large")
    };
    sized(MAX_PAYLOAD).await.unwrap();
    match sized(MAX_PAYLOAD + 1).await.unwrap_err() {
        EnqueueError::TooLarge { job_type, bytes } => {
            assert_eq!((job_type, bytes), ("measure", MAX_PAYLOAD + 1))
        }
        other => panic!("{other}"),
    }
    assert_eq!(bench.others().await.len(), 1);
}

// ---- which queue -----------------------------------------------------------------------------------------------

#[tokio::test]
async fn a_scope_takes_the_place_of_the_default_for_its_future_and_what_it_spawns_through_jobq() {
    let (bench, other) = (Bench::new().await, Bench::new().await);
    let outside = bench
        .queue
        .scope(async {
            ada().enqueue().await.unwrap();
            jobq::spawn(async { ada().enqueue().await.unwrap() }).await.unwrap();
            ada().enqueue().on(&other.queue).await.unwrap();
            other.queue.scope(async { ada().enqueue().await.unwrap() }).await;
            ada().enqueue().await.unwrap();
            tokio::spawn(async { ada().enqueue().await }).await.unwrap()
        })
        .await;
    assert_eq!(bench.others().await.len(), 3);
    assert_eq!(other.others().await.len(), 2);
    match outside.unwrap_err() {
        EnqueueError::NoQueue(NoQueue::OutsideScope) => {}
        error => panic!("{error}"),
    }
    assert_eq!(
        NoQueue::OutsideScope.to_string(),
        "this task is outside of every queue's scope: start it with `jobq::spawn` instead of `tokio::spawn`, enter \
         one with `queue.scope(future)`, or name the queue with `.on(&queue)`"
    );
}

#[job(type = "queue-test:parent")]
async fn parent(media: String) -> Result<(), JobError> {
    resize.enqueue((media.clone(), 1)).await?;
    jobq::spawn(async { resize.enqueue((media, 2)).await }).await??;
    Ok(())
}

#[tokio::test]
async fn what_a_running_job_enqueues_goes_to_its_own_queue() {
    let (bench, other) = (Bench::new().await, Bench::new().await);
    bench.queue.enqueue(Parent { media: "a.png".into() }).await.unwrap();
    let worker = Worker::new(&bench.queue).jobs((parent,));
    other.queue.scope(worker.drain()).await.unwrap();
    let mut states = bench.others().await;
    states.sort();
    assert_eq!(states, [JobState::Pending, JobState::Pending, JobState::Completed]);
    assert_eq!(other.others().await, []);
}

/// The default is one for the whole process, so this runs in a process of its own.
#[test]
fn without_a_scope_the_installed_queue_is_meant_and_without_one_the_error_says_what_to_write() {
    const CHILD: &str = "JOBQ_TEST_ALONE";
    if std::env::var_os(CHILD).is_some() {
        return tokio::runtime::Runtime::new().unwrap().block_on(alone());
    }
    let name = std::thread::current().name().unwrap().to_owned();
    let child =
        Command::new(std::env::current_exe().unwrap()).args(["--exact", &name]).env(CHILD, "1").output();
    let child = child.unwrap();
    let said = String::from_utf8_lossy(&child.stdout);
    assert!(child.status.success() && said.contains("1 passed"), "{said}");
}

async fn alone() {
    let error = ada().enqueue().await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "no queue to enqueue in: call `queue.install()` once at the start of the program, or name the queue with \
         `.on(&queue)`"
    );
    let (first, second) = (Bench::new().await, Bench::new().await);
    first.queue.install();
    ada().enqueue().await.unwrap();
    second.queue.install();
    tokio::spawn(async { ada().enqueue().await.unwrap() }).await.unwrap();
    assert_eq!((first.others().await.len(), second.others().await.len()), (1, 1));
    // From the first scope on, a task outside of all is told so, and no default is taken for it.
    first.queue.scope(async { ada().enqueue().await.unwrap() }).await;
    let outside = ada().enqueue().await.unwrap_err();
    assert!(matches!(outside, EnqueueError::NoQueue(NoQueue::OutsideScope)), "{outside}");
    assert_eq!((first.others().await.len(), second.others().await.len()), (2, 1));
}

// ---- many at once ----------------------------------------------------------------------------------------------

/// A queue on a store that tells what it was asked; the bystander is in it already.
async fn rigged() -> (Rigged, Bench) {
    let (memory, clock) = (MemoryStore::new(), ManualClock::default());
    let bystander = Bench::on(Arc::new(memory.clone()), clock.clone()).await.bystander;
    let rig = Rigged::over(memory);
    let queue = JobQueue::with_store(Arc::new(rig.clone()), Arc::new(clock.clone()));
    (rig, Bench { queue, clock, bystander })
}

fn crowd(size: u64) -> impl Iterator<Item = Measure> {
    (0..size).map(|user_id| Measure { user_id, email: "x".into() })
}

async fn payload(bench: &Bench, id: JobId) -> u64 {
    serde_json::from_str::<Measure>(&bench.row(id).await.payload).unwrap().user_id
}

#[tokio::test]
async fn many_jobs_are_stored_10000_in_a_commit_with_their_ids_in_their_order() {
    let (rig, bench) = rigged().await;
    let ids = bench
        .queue
        .enqueue_all(crowd(25_000))
        .priority(4)
        .delay(secs(9))
        .label("one of many")
        .await
        .unwrap()
        .ids();
    assert_eq!(rig.enqueued(), [10_000, 10_000, 5_000]);
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), 25_000);
    for index in [0, 9_999, 10_000, 24_999] {
        assert_eq!(payload(&bench, ids[index]).await, index as u64);
        let row = bench.row(ids[index]).await;
        assert_eq!((row.priority, row.run_at, row.max_attempts), (4, row.created_at + 9_000, 8));
        assert_eq!(row.label.as_deref(), Some("one of many"));
    }
    bench.others().await;
}

#[tokio::test]
async fn a_function_enqueues_many_by_their_arguments() {
    let bench = Bench::new().await;
    let ids = measure.enqueue_all([(7, "x".into()), (8, "y".into())]).on(&bench.queue).await.unwrap().ids();
    assert_eq!([payload(&bench, ids[0]).await, payload(&bench, ids[1]).await], [7, 8]);
    let ids =
        resize.enqueue_all((0..3).map(|size| ("a.png".into(), size))).on(&bench.queue).await.unwrap().ids();
    assert_eq!(bench.row(ids[2]).await.payload, r#"{"media":"a.png","size":2}"#);
    assert_eq!(bench.others().await.len(), 5);
}

#[tokio::test]
async fn atomic_is_one_commit_and_nothing_is_no_commit() {
    let (rig, bench) = rigged().await;
    assert_eq!(bench.queue.enqueue_all(crowd(25_000)).atomic().await.unwrap().len(), 25_000);
    assert_eq!(rig.enqueued(), [25_000]);
    assert_eq!(bench.queue.enqueue_all(crowd(0)).await.unwrap(), []);
    assert_eq!(rig.enqueued(), [25_000]);
    bench.others().await;
}

#[tokio::test]
async fn a_failed_commit_says_how_many_jobs_landed_before_and_their_ids() {
    let (rig, bench) = rigged().await;
    let busy = StoreError::Busy { waited: secs(5), holder: "somebody else writes".into() };
    rig.fail_after(1, "enqueue", busy);
    let error = bench.queue.enqueue_all(crowd(25_000)).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "10000 of 25000 jobs were enqueued, then came: the database was busy for 5s: somebody else writes"
    );
    assert_eq!((error.landed.len(), error.of, error.index), (10_000, 25_000, None));
    assert_eq!(payload(&bench, error.landed[9_999].id).await, 9_999);
    assert_eq!(rig.enqueued(), [10_000, 10_000], "it went on after a failure");
    let total: u64 = bench.queue.counts().await.unwrap().iter().map(|count| count.count).sum();
    assert_eq!(total, 10_001);
    bench.others().await;

    let atomic = bench.queue.enqueue_all(crowd(25_000)).atomic().await.unwrap_err();
    assert_eq!(atomic.landed, []);
    assert_eq!(bench.queue.counts().await.unwrap().iter().map(|count| count.count).sum::<u64>(), 10_001);
}

#[tokio::test]
async fn a_job_that_cannot_be_stored_is_named_by_its_place_and_its_commit_has_none() {
    let (rig, bench) = rigged().await;
    let jobs = |bad| (0..10_010).map(move |index| grid(usize::from(index == bad)));
    let error = bench.queue.enqueue_all(jobs(10_003)).await.unwrap_err();
    assert_eq!((error.landed.len(), error.index), (10_000, Some(10_003)));
    assert_eq!(
        error.to_string(),
        "10000 of 10010 jobs were enqueued, then came the job at index 10003: the payload of `grid` can't be written \
         as JSON: key must be a string"
    );
    let error = bench.queue.enqueue_all(jobs(10_003)).atomic().await.unwrap_err();
    assert_eq!((error.landed.len(), error.index), (0, Some(10_003)));
    let error = bench.queue.enqueue_all(jobs(20_000)).queue("").await.unwrap_err();
    assert!(matches!(error.error, EnqueueError::BadQueueName(_)), "{error}");
    assert_eq!(rig.enqueued(), [10_000]);
    bench.others().await;
}

#[tokio::test]
async fn a_store_without_transactions_says_so_for_every_builder() {
    let bench = Bench::new().await;
    let mut own = SqliteConnection::connect("sqlite::memory:").await.unwrap();
    let error = ada().enqueue().in_tx(&mut own).on(&bench.queue).priority(3).await.unwrap_err();
    assert!(matches!(error, EnqueueError::Store(StoreError::NoTransactions)), "{error}");
    let mut tx = own.begin().await.unwrap();
    let error = bench.queue.enqueue(ada()).in_tx(&mut tx).await.unwrap_err();
    assert!(matches!(error, EnqueueError::Store(StoreError::NoTransactions)), "{error}");
    let error = bench.queue.enqueue_all([ada(), ada()]).in_tx(&mut *tx).await.unwrap_err();
    assert!(matches!(error.error, EnqueueError::Store(StoreError::NoTransactions)), "{error}");
    assert_eq!(error.landed, []);
    assert_eq!(bench.others().await, []);
}

// ---- by name ---------------------------------------------------------------------------------------------------

#[job(
    type = "queue-test:resize",
    aliases = ["queue-test:scale"],
    queue = "images",
    priority = 2,
    max_attempts = 6,
    label = "Resize {media}"
)]
async fn resize(media: String, size: u32) -> Result<(), JobError> {
    drop((media, size));
    Ok(())
}

async fn a_job_by_name_is_checked_and_is_the_same_as_by_function(bench: Bench) {
    let queue = &bench.queue;
    let by_function = bench.row(resize.enqueue(("a.png".into(), 9)).on(queue).await.unwrap().id()).await;
    let payload = json!({ "media": "a.png", "size": 9 });
    for name in ["queue-test:resize", "queue-test:scale"] {
        let row = bench.row(queue.enqueue_raw(name, payload.clone()).await.unwrap().id).await;
        assert_eq!(row, JobRow { id: row.id, ..by_function.clone() });
    }
    let raw =
        queue.enqueue_raw("queue-test:resize", payload.clone()).priority(-1).delay(hours(2)).label("Mine");
    let row = bench.row(raw.await.unwrap().id).await;
    assert_eq!((row.priority, row.run_at, row.max_attempts), (-1, row.created_at + 7_200_000, 6));
    assert_eq!(row.label.as_deref(), Some("Mine"));
    assert_eq!(bench.others().await.len(), 4);

    let foreign = queue.enqueue_raw("thumbnail", payload.clone()).await.unwrap_err();
    assert!(
        foreign.to_string().starts_with(
            "no job `thumbnail` in this program; is the crate that has it named anywhere in this program, as in \
             `use that_crate as _`? It knows "
        ),
        "{foreign}"
    );
    let unknown = queue.enqueue_raw("queue-test:resise", payload.clone()).await.unwrap_err();
    assert!(
        unknown.to_string().starts_with(
            "no job `queue-test:resise` in this program; did you mean `queue-test:resize`? Or is the crate that has it"
        ),
        "{unknown}"
    );
    match unknown {
        EnqueueError::UnknownType { known, .. } => {
            assert!(known.contains(&"queue-test:resize") && known.is_sorted())
        }
        other => panic!("{other}"),
    }
    let unfit = queue.enqueue_raw("queue-test:resize", json!({ "media": "a.png" })).await.unwrap_err();
    assert!(matches!(unfit, EnqueueError::Unfit(_)));
    assert_eq!(
        unfit.to_string(),
        "the payload does not fit `queue-test:resize` of this build: missing field `size` at line 1 column 17"
    );
    let large = json!({ "media": "x".repeat(MAX_PAYLOAD), "size": 9 });
    let large = queue.enqueue_raw("queue-test:resize", large).await.unwrap_err();
    assert!(matches!(large, EnqueueError::TooLarge { .. }), "{large}");
    let zero = queue.enqueue_raw("queue-test:resize", payload).max_attempts(0).await.unwrap_err();
    assert!(matches!(zero, EnqueueError::NoAttempts), "{zero}");
    assert_eq!(bench.others().await.len(), 4);
}

// ---- acts of people --------------------------------------------------------------------------------------------

async fn every_act_works_in_its_states_and_says_why_not_in_the_others(bench: Bench) {
    use JobState::*;
    for state in JobState::ALL {
        let [cancel, retry, run_now, delete] = [
            bench.job_in(state).await,
            bench.job_in(state).await,
            bench.job_in(state).await,
            bench.job_in(state).await,
        ];
        let queue = &bench.queue;
        let verdicts = [
            (
                queue.cancel(cancel).await.map(drop),
                "scheduled, pending or running jobs can be cancelled",
                !state.is_terminal(),
            ),
            (
                queue.retry(retry).await,
                "completed, dead or cancelled jobs can be retried",
                state.is_terminal(),
            ),
            (queue.run_now(run_now).await, "scheduled jobs can be run before their time", state == Scheduled),
            (
                queue.delete(delete).await,
                "completed, dead or cancelled jobs can be deleted",
                state.is_terminal(),
            ),
        ];
        for ((verdict, text, possible), id) in verdicts.into_iter().zip([cancel, retry, run_now, delete]) {
            let expected = if possible { None } else { Some(format!("job {id} is {state}; only {text}")) };
            assert_eq!(verdict.err().map(|error| error.to_string()), expected);
        }
        bench.others().await;
        bench.queue.cancel_all([cancel, retry, run_now, delete]).await.unwrap();
    }
}

async fn acts_on_one_job_take_its_handle_as_they_take_its_id(bench: Bench) {
    let queue = &bench.queue;
    let handle = queue.enqueue(ada()).delay(hours(1)).await.unwrap();
    assert_eq!(queue.get(&handle).await.unwrap().unwrap().id, handle.id());
    queue.run_now(&handle).await.unwrap();
    queue.cancel(handle.clone()).await.unwrap();
    queue.retry(&handle).await.unwrap();
    assert_eq!(queue.attempts(&handle).await.unwrap(), []);
    queue.cancel(handle.id().as_uuid()).await.unwrap();
    assert_eq!(bench.others().await, [JobState::Cancelled]);
    queue.delete(handle).await.unwrap();
    assert_eq!(bench.others().await, []);
}

async fn a_filter_is_built_condition_by_condition(bench: Bench) {
    let queue = &bench.queue;
    let start = bench.bystander.created_at;
    let at = |millis| DateTime::from_timestamp_millis(millis).unwrap();
    let mut ids = Vec::new();
    for (place, label) in ["Ada", "Bob", "ada's"].into_iter().enumerate() {
        bench.clock.advance(secs(1));
        let delay = secs(if place == 2 { 60 } else { 0 });
        ids.push(queue.enqueue(ada()).queue("mail").label(label).delay(delay).await.unwrap().id());
    }
    let all = JobFilter::default;
    let found = async |filter: JobFilter| -> Vec<JobId> {
        queue.list(filter).await.unwrap().iter().map(|row| row.id).collect()
    };
    assert_eq!(found(all().queue("mail")).await, [ids[2], ids[1], ids[0]]);
    assert_eq!(found(all().job_type("sweep")).await, [bench.bystander.id]);
    assert_eq!(found(all().label("ADA")).await, [ids[2], ids[0]]);
    assert_eq!(found(all().queue("mail").state(JobState::Scheduled)).await, [ids[2]]);
    let either = all().queue("mail").state(JobState::Scheduled).state(JobState::Pending);
    assert_eq!(found(either.clone().limit(2)).await, [ids[2], ids[1]]);
    assert_eq!(found(either.limit(2).after(ids[1])).await, [ids[0]]);
    let between = all().created_from(at(start + 1_000)).created_before(at(start + 3_000));
    assert_eq!(found(between).await, [ids[1], ids[0]]);
    // Between two milliseconds: the one after is the first that is not before it.
    let shortly = Duration::from_micros(1);
    assert_eq!(found(all().created_from(at(start + 2_000) + shortly)).await, [ids[2]]);
    assert_eq!(found(all().queue("mail").created_before(at(start + 1_000) + shortly)).await, [ids[0]]);
    bench.others().await;
}

async fn acts_on_many_answer_for_each_in_order(bench: Bench) {
    let dead = bench.job_in(JobState::Dead).await;
    let [waiting, gone] = [bench.job_in(JobState::Pending).await, bench.job_in(JobState::Cancelled).await];
    bench.queue.delete(gone).await.unwrap();

    let not_found = bench.queue.cancel(gone).await.unwrap_err();
    assert!(matches!(not_found, QueueError::NotFound { id } if id == gone));
    assert_eq!(not_found.to_string(), format!("there is no job {gone} in this queue"));
    assert!(bench.queue.get(gone).await.unwrap().is_none());

    let ids = [waiting, gone, dead];
    let acted = bench.queue.retry_all(ids).await.unwrap();
    assert_eq!(acted, [Acted::WrongState(JobState::Pending), Acted::NotFound, Acted::Done]);
    assert_eq!(bench.queue.attempts(dead).await.unwrap().len(), 1, "the history stays");
    let acted = bench.queue.cancel_all(ids).await.unwrap();
    assert_eq!(acted, [Acted::Done, Acted::NotFound, Acted::Done]);
    let acted = bench.queue.run_now_all(ids).await.unwrap();
    let wrong = Acted::WrongState(JobState::Cancelled);
    assert_eq!(acted, [wrong, Acted::NotFound, wrong]);
    let acted = bench.queue.delete_all(ids).await.unwrap();
    assert_eq!(acted, [Acted::Done, Acted::NotFound, Acted::Done]);
    assert_eq!(bench.others().await, []);
}

async fn pages_give_each_job_that_stays_once_whatever_comes_and_goes(bench: Bench) {
    let ids = bench.queue.enqueue_all(crowd(250)).queue("mail").await.unwrap().ids();
    let filter = JobFilter { queue: Some("mail".into()), ..JobFilter::default() };
    let mut pages = bench.queue.pages(filter.clone());
    let mut seen = Vec::new();
    while let Some(page) = pages.next().await.unwrap() {
        assert!(page.len() <= 100 && !page.is_empty());
        seen.extend(page.iter().map(|row| row.id));
        // The cursor's own row goes, and new rows come.
        let last = page.last().unwrap().id;
        bench.queue.cancel(last).await.unwrap();
        bench.queue.delete(last).await.unwrap();
        bench.queue.enqueue_all(crowd(7)).queue("mail").await.unwrap();
    }
    let expected: Vec<_> = ids.into_iter().rev().collect();
    assert_eq!(seen, expected);
    assert!(pages.next().await.unwrap().is_none());
    let none = JobFilter { queue: Some("nobody".into()), ..filter };
    assert!(bench.queue.pages(none).next().await.unwrap().is_none());
    bench.others().await;
}

async fn prune_follows_the_retention_of_the_row_then_of_the_queue(bench: Bench) {
    let queue = JobQueue::options().keep_finished(hours(5)).keep_dead(hours(50));
    let queue = queue.with_store(bench.queue.store().clone(), Arc::new(bench.clock.clone())).unwrap();
    let own = bench.job_in(JobState::Completed).await; // its type keeps it for 2 days
    let dead = queue.enqueue(Sweep {}).await.unwrap().id();
    bench.end(&bench.claim_one().await, JobState::Dead).await;
    let short = queue.enqueue(ada()).retain(hours(1)).await.unwrap().id();
    let finished = queue.enqueue(Sweep {}).await.unwrap().id();
    queue.cancel_all([short, finished]).await.unwrap();

    let mut gone = Vec::new();
    for hour in 1..=60 {
        bench.clock.advance(hours(1));
        queue.prune().await.unwrap();
        for (name, id) in [("own", own), ("dead", dead), ("short", short), ("finished", finished)] {
            if queue.get(id).await.unwrap().is_none() && !gone.iter().any(|(other, _)| *other == name) {
                gone.push((name, hour));
            }
        }
    }
    let expected = [("short", 1), ("finished", 5), ("own", 48), ("dead", 50)];
    assert_eq!(gone, expected);
    bench.others().await;
}

// ---- settings --------------------------------------------------------------------------------------------------

#[test]
fn settings_that_cannot_be_used_are_refused_by_name() {
    let opened = |options: jobq::JobQueueOptions| {
        options.with_store(Arc::new(MemoryStore::new()), Arc::new(ManualClock::default()))
    };
    let zero = opened(JobQueue::options().default_max_attempts(0)).unwrap_err();
    assert_eq!(
        zero.to_string(),
        "default_max_attempts is 0, and such a job never runs; 1 means one run and no retry"
    );
    let from = |value: Option<&str>| {
        let value = value.map(str::to_owned);
        JobQueue::options().vars(|name| value.clone().filter(|_| name == "WORKER_DEFAULT_MAX_ATTEMPTS"))
    };
    for (value, expected) in [(None, 3), (Some(""), 3), (Some("7"), 7), (Some(" 12 "), 12)] {
        assert_eq!(opened(from(value).unwrap()).unwrap().default_max_attempts(), expected, "{value:?}");
    }
    for bad in ["0", "-1", "three", "4294967296", "2.5"] {
        assert_eq!(
            from(Some(bad)).unwrap_err().to_string(),
            format!("WORKER_DEFAULT_MAX_ATTEMPTS={bad:?}: write a whole number from 1 to 4294967295")
        );
    }
}

// ---- opening a file --------------------------------------------------------------------------------------------

#[tokio::test]
async fn open_creates_a_file_where_open_existing_does_not_and_what_is_in_it_stays() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("app.db");
    let url = format!("sqlite://{}", file.display());
    let path = file.display().to_string();

    let missing = JobQueue::open_existing(&url).await.unwrap_err();
    assert!(missing.to_string().contains(&path), "{missing}");
    assert!(!file.exists());
    let nowhere = dir.path().join("no/such/dir/app.db").display().to_string();
    let nowhere = JobQueue::open(&nowhere).await.unwrap_err();
    assert!(matches!(nowhere, QueueError::Store(StoreError::Unusable { .. })), "{nowhere}");

    let id = JobQueue::open(&url).await.unwrap().enqueue(ada()).await.unwrap().id();
    let again = JobQueue::open_existing(&path).await.unwrap();
    assert!(again.describe().contains(&path), "{}", again.describe());
    assert_eq!(again.get(id).await.unwrap().unwrap().id, id);
}

#[tokio::test]
async fn another_kind_of_database_is_refused_and_its_password_is_not_shown() {
    let url = "postgres://app:secret@db/app";
    let error = JobQueue::open(url).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "a postgres URL is not a queue; write the path of a SQLite file, or a URL such as sqlite://app.db"
    );
    let error = JobQueue::from_vars(|name| (name == "DATABASE_URL").then(|| url.into())).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "DATABASE_URL: a postgres URL is not a queue; write the path of a SQLite file, or a URL such as \
         sqlite://app.db"
    );
    assert!(!format!("{error:?}").contains("secret"));
}

#[tokio::test]
async fn the_environment_names_the_file_and_the_default_of_attempts() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str| dir.path().join(name).display().to_string();
    let opened = async |vars: &[(&str, String)]| {
        let vars: BTreeMap<_, _> = vars.iter().cloned().collect();
        JobQueue::from_vars(|name| vars.get(name).cloned()).await
    };
    let nothing = opened(&[("JOBQ_DATABASE", " ".into())]).await.unwrap_err();
    assert_eq!(
        nothing.to_string(),
        "JOBQ_DATABASE: it is not set, and DATABASE_URL is not either; write the path of the file, such as app.db"
    );
    let app = ("DATABASE_URL", format!("sqlite://{}", file("app.db")));
    let bad = opened(&[app.clone(), ("WORKER_DEFAULT_MAX_ATTEMPTS", "many".into())]).await.unwrap_err();
    assert_eq!(
        bad.to_string(),
        "WORKER_DEFAULT_MAX_ATTEMPTS=\"many\": write a whole number from 1 to 4294967295"
    );
    let queue = opened(&[app.clone(), ("WORKER_DEFAULT_MAX_ATTEMPTS", "9".into())]).await.unwrap();
    assert!(queue.describe().contains(&file("app.db")), "{}", queue.describe());
    let id = queue.enqueue(Sweep {}).await.unwrap().id();
    assert_eq!(queue.get(id).await.unwrap().unwrap().max_attempts, 9);
    let queue = opened(&[app, ("JOBQ_DATABASE", file("jobs.db"))]).await.unwrap();
    assert!(queue.describe().contains(&file("jobs.db")), "{}", queue.describe());
}

#[tokio::test]
async fn jobs_in_the_applications_transaction_are_there_when_it_commits_and_never_when_it_does_not() {
    let dir = tempfile::tempdir().unwrap();
    let file = sqlx::sqlite::SqliteConnectOptions::new().filename(dir.path().join("app.db"));
    let pool = sqlx::SqlitePool::connect_with(file.create_if_missing(true)).await.unwrap();
    sqlx::query("CREATE TABLE users (id INTEGER PRIMARY KEY)").execute(&pool).await.unwrap();
    let queue = JobQueue::open_pool(&pool).await.unwrap();
    let bystander = queue.enqueue(Sweep {}).await.unwrap().id();

    for (commits, expected) in [(false, 0), (true, 5)] {
        let mut tx = pool.begin().await.unwrap();
        sqlx::query("INSERT INTO users DEFAULT VALUES").execute(&mut *tx).await.unwrap();
        let handle = ada().enqueue().on(&queue).priority(7).delay(hours(1)).in_tx(&mut *tx).await.unwrap();
        let ids = queue.enqueue_all(crowd(3)).in_tx(&mut tx).await.unwrap().ids();
        let payload = json!({ "media": "a.png", "size": 9 });
        let raw = queue.enqueue_raw("queue-test:resize", payload).in_tx(&mut *tx).await.unwrap();
        assert!(queue.get(handle.id()).await.unwrap().is_none(), "seen before the commit");
        if commits {
            tx.commit().await.unwrap()
        } else {
            tx.rollback().await.unwrap()
        }

        let mut found = 0;
        for id in ids.into_iter().chain([handle.id(), raw.id]) {
            found += usize::from(queue.get(id).await.unwrap().is_some());
        }
        assert_eq!(found, expected);
        if commits {
            let row = queue.get(handle.id()).await.unwrap().unwrap();
            assert_eq!((row.priority, row.run_at), (7, row.created_at + 3_600_000));
        }
    }
    assert_eq!(queue.get(bystander).await.unwrap().unwrap().state, JobState::Pending);
    let users: i64 = sqlx::query_scalar("SELECT count(*) FROM users").fetch_one(&pool).await.unwrap();
    assert_eq!(users, 1);
}
