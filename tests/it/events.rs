//! Events: what follows from one, in one commit or in the caller's; subscribers in the process; the application's own bus.

use crate::worker::ground::{Ground, busy, ground, log, rest};
use jobq::{
    Clock, EmitError, Emitted, EnqueueError, JobFilter, JobRow, ManualClock, MemoryStore, Missed, NoQueue,
    SqliteOptions, SqliteStore, StoreError, emit, prelude::*,
};
use serde::{Deserialize, Serialize};
use std::{path::Path, sync::Arc};
use tokio::sync::broadcast;

#[derive(Event, Clone, Debug, Serialize, Deserialize)]
#[event(name = "events-test:user-registered")]
struct UserRegistered {
    user_id: u64,
    email: String,
    friends: Vec<u64>,
}

impl UserRegistered {
    fn ada() -> Self {
        Self { user_id: 42, email: "ada@example.org".into(), friends: vec![7, 8, 9] }
    }

    fn alone() -> Self {
        Self { friends: Vec::new(), ..Self::ada() }
    }
}

impl From<&UserRegistered> for Welcome {
    fn from(event: &UserRegistered) -> Self {
        Self { user_id: event.user_id, email: event.email.clone() }
    }
}

#[job(
    type = "events-test:welcome",
    payload = Welcome,
    queue = "mail",
    priority = 5,
    max_attempts = 7,
    label = "Welcome to {email}",
    on = UserRegistered
)]
async fn send_welcome(user_id: u64, email: String) -> Result<u64, JobError> {
    Ok(user_id + email.len() as u64)
}

/// What borrows from the event, in an order of its own.
fn each_friend(event: &UserRegistered) -> impl Iterator<Item = TellFriend> {
    event.friends.iter().rev().map(|friend| TellFriend { friend: *friend })
}

fn of_site(event: &SiteEvent) -> Option<TellFriend> {
    match event {
        SiteEvent::Befriended(friend) => Some(TellFriend { friend: *friend }),
        _ => None,
    }
}

#[job(type = "events-test:friend", on(UserRegistered, with = each_friend), on(SiteEvent, with = of_site))]
async fn tell_friend(friend: u64) {
    std::hint::black_box(friend);
}

mod elsewhere {
    use super::{EraseProfile, UserRegistered};

    pub fn of_the_nameless(event: &UserRegistered) -> Vec<EraseProfile> {
        if event.email.is_empty() { vec![EraseProfile { user_id: event.user_id }] } else { Vec::new() }
    }
}

#[job(type = "events-test:erase", on(UserRegistered, with = elsewhere::of_the_nameless))]
async fn erase_profile(user_id: u64) {
    std::hint::black_box(user_id);
}

/// The enum of a bus that was there before jobq.
#[derive(Event, Debug)]
#[event(name = "events-test:site")]
enum SiteEvent {
    Befriended(u64),
    Visited,
    Broken,
}

fn thumbnails(event: &SiteEvent) -> Option<Thumbnail> {
    match event {
        SiteEvent::Broken => panic!("no such picture"),
        _ => None,
    }
}

#[job(type = "events-test:thumbnail", on(SiteEvent, with = thumbnails))]
async fn thumbnail(path: String) {
    std::hint::black_box(path);
}

/// Nothing follows from it.
#[derive(Event)]
#[event(name = "events-test:nothing")]
struct Nothing;

#[derive(Event)]
#[event(name = "events-test:measured")]
struct Measured(f64);

impl From<&Measured> for Weigh {
    fn from(event: &Measured) -> Self {
        Self { kilos: event.0 }
    }
}

#[job(type = "events-test:weigh", on = Measured)]
async fn weigh(kilos: f64) {
    std::hint::black_box(kilos);
}

mod twin {
    #[derive(jobq::Event)]
    #[event(name = "events-test:measured")]
    pub struct Measured;
}

/// A queue on each store, with a job in it that no test may touch.
struct Site {
    queue: JobQueue,
    clock: ManualClock,
    bystander: JobRow,
}

impl Site {
    async fn memory() -> Self {
        let clock = ManualClock::default();
        Self::on(JobQueue::with_store(Arc::new(MemoryStore::new()), Arc::new(clock.clone())), clock).await
    }

    async fn sqlite(dir: &Path) -> Self {
        let clock = ManualClock::default();
        let options = SqliteOptions::new(dir.join("app.db")).clock(Arc::new(clock.clone()));
        let store = SqliteStore::open(options).await.unwrap();
        Self::on(JobQueue::with_store(Arc::new(store), Arc::new(clock.clone())), clock).await
    }

    async fn on(queue: JobQueue, clock: ManualClock) -> Self {
        let id =
            send_welcome.enqueue((1, "bystander".into())).queue("bystanders").on(&queue).await.unwrap().id();
        let bystander = queue.get(id).await.unwrap().unwrap();
        Self { queue, clock, bystander }
    }

    /// All jobs but the bystander, which must be as it was; first to latest.
    async fn jobs(&self) -> Vec<JobRow> {
        let mut rows = self.queue.list(JobFilter::default().limit(1000)).await.unwrap();
        assert_eq!(rows.pop(), Some(self.bystander.clone()), "the bystander was touched");
        rows.reverse();
        rows
    }

    async fn payloads(&self) -> Vec<(String, String)> {
        self.jobs().await.into_iter().map(|row| (row.job_type, row.payload)).collect()
    }
}

macro_rules! on_both {
    ($($(#[$doc:meta])* async fn $name:ident($site:ident: Site) $body:block)*) => { $(
        mod $name {
            use super::*;

            $(#[$doc])*
            async fn holds($site: Site) $body

            #[tokio::test]
            async fn memory() {
                holds(Site::memory().await).await;
            }

            #[tokio::test]
            async fn sqlite() {
                let dir = tempfile::tempdir().unwrap();
                holds(Site::sqlite(dir.path()).await).await;
            }
        }
    )* };
}

fn told<E>(emitted: &Emitted<E>) -> Vec<(&'static str, jobq::JobId)> {
    emitted.jobs().iter().map(|follow| (follow.job_type, follow.id)).collect()
}

fn friend(n: u64) -> (String, String) {
    ("events-test:friend".into(), format!(r#"{{"friend":{n}}}"#))
}

on_both! {
    async fn every_subscribed_job_follows_with_its_payloads_and_as_its_type_says(site: Site) {
        let emitted = site.queue.emit(UserRegistered::ada()).await.unwrap();
        let jobs = site.jobs().await;
        let expected: Vec<_> = jobs.iter().map(|row| (&*row.job_type, row.id)).collect();
        assert_eq!(told(&emitted), expected, "the answer names each of them");
        assert!(emitted.jobs().iter().all(jobq::event::Follow::is_new));
        let welcome = ("events-test:welcome".to_owned(), r#"{"user_id":42,"email":"ada@example.org"}"#.to_owned());
        assert_eq!(site.payloads().await, [friend(9), friend(8), friend(7), welcome]);
        let row = jobs.last().unwrap();
        assert_eq!((&*row.queue, row.priority, row.max_attempts), ("mail", 5, 7));
        assert_eq!(row.label.as_deref(), Some("Welcome to ada@example.org"));
        let handles: Vec<_> = emitted.of::<Welcome>().map(|handle| handle.id()).collect();
        assert_eq!(handles, [row.id]);
        assert_eq!((emitted.of::<TellFriend>().count(), emitted.of::<EraseProfile>().count()), (3, 0));

        let stats = Worker::new(&site.queue)
            .queues(["default", "mail"])
            .jobs((send_welcome, tell_friend))
            .drain()
            .await
            .unwrap();
        assert_eq!(stats.completed, 4);
    }

    async fn an_event_from_which_nothing_follows_is_none_the_worse(site: Site) {
        assert_eq!(told(&site.queue.emit(Nothing).await.unwrap()), []);
        assert_eq!(told(&site.queue.emit(SiteEvent::Visited).await.unwrap()), []);
        assert!(site.jobs().await.is_empty());
    }

    async fn what_the_emit_says_holds_for_all_jobs_that_follow(site: Site) {
        site.queue.emit(UserRegistered::ada()).priority(-3).delay(hours(1)).await.unwrap();
        let now = site.clock.now();
        for row in site.jobs().await {
            assert_eq!((row.state, row.priority, row.run_at), (JobState::Scheduled, -3, now + 3_600_000));
        }
        let at = chrono::DateTime::from_timestamp_millis(now - 1).unwrap();
        let emitted = site.queue.emit(UserRegistered::alone()).run_at(at).await.unwrap();
        let row = site.queue.get(emitted.jobs()[0].id).await.unwrap().unwrap();
        assert_eq!((row.state, row.run_at), (JobState::Pending, now - 1));
    }

    async fn a_mapping_that_panics_names_the_job_and_nothing_is_enqueued(site: Site) {
        let error = site.queue.emit(SiteEvent::Broken).await.unwrap_err();
        assert_eq!(
            error.to_string(),
            "nothing was enqueued for event `events-test:site`: making the payload of job `events-test:thumbnail` \
             panicked: no such picture"
        );
        let error = site.queue.emit(Measured(f64::NAN)).await.unwrap_err();
        assert!(
            matches!(&error, EmitError::Job { job_type: "events-test:weigh", error: EnqueueError::Unfit(_), .. }),
            "{error}"
        );
        let long = UserRegistered { email: "x".repeat(17 << 20), ..UserRegistered::ada() };
        let error = site.queue.emit(long).await.unwrap_err();
        assert!(
            matches!(&error, EmitError::Job { error: EnqueueError::TooLarge { .. }, .. }),
            "the job after those of the friends is too large: {error}"
        );
        assert!(site.jobs().await.is_empty(), "not even the friends are told");
    }

    async fn two_events_of_one_name_are_told_apart_by_nobody_and_refused(site: Site) {
        site.queue.emit(Measured(70.0)).await.unwrap();
        let error = site.queue.emit(twin::Measured).await.unwrap_err();
        assert_eq!(
            error.to_string(),
            "two events are named `events-test:measured`: `it::events::twin::Measured` and `it::events::Measured`; \
             give one of them a name of its own, `#[event(name = \"…\")]`"
        );
        assert_eq!(site.jobs().await.len(), 1);
    }

    async fn an_event_goes_to_the_queue_of_its_scope(site: Site) {
        let other = Site::memory().await;
        let queue = site.queue.clone();
        let emitted = site.queue.scope(async move { emit(UserRegistered::alone()).await }).await.unwrap();
        assert_eq!(site.jobs().await.len(), emitted.jobs().len());
        // A queue that is named goes before.
        queue.scope(async { emit(UserRegistered::alone()).on(&other.queue).await.unwrap() }).await;
        assert_eq!((site.jobs().await.len(), other.jobs().await.len()), (1, 1));
        let outside = emit(UserRegistered::ada()).await.unwrap_err();
        assert!(matches!(outside, EmitError::NoQueue(NoQueue::OutsideScope)), "{outside}");
    }

    async fn subscribers_hear_what_was_stored_in_one_order(site: Site) {
        site.queue.emit(UserRegistered::ada()).await.unwrap();
        let mut first = site.queue.bus().subscribe::<UserRegistered>();
        let mut others = site.queue.clone().bus().subscribe::<SiteEvent>();
        for user_id in [1, 2] {
            site.queue.emit(UserRegistered { user_id, ..UserRegistered::alone() }).await.unwrap();
        }
        let mut second = site.queue.bus().subscribe::<UserRegistered>();
        site.queue.emit(UserRegistered { user_id: 3, ..UserRegistered::alone() }).await.unwrap();
        site.queue.emit(SiteEvent::Broken).await.unwrap_err();
        site.queue.emit(SiteEvent::Befriended(5)).await.unwrap();
        for user_id in [1, 2, 3] {
            assert_eq!(first.recv().await.unwrap().unwrap().user_id, user_id);
        }
        assert_eq!(second.recv().await.unwrap().unwrap().user_id, 3);
        let heard = others.recv().await.unwrap().unwrap();
        assert!(matches!(*heard, SiteEvent::Befriended(5)), "the broken one was never told: {heard:?}");
        drop(site);
        assert!(first.recv().await.is_none(), "the queue is gone");
    }

    async fn jobs_of_other_programs_are_told_of_and_what_is_old_is_not_believed(site: Site) {
        let store = site.queue.store();
        let say = |program: &str, job_type: &str, now| {
            let follows = vec![("events-test:user-registered".into(), job_type.into())];
            store.subscribe(program.into(), follows, now)
        };
        let now = site.clock.now();
        say("billing", "send_bill", now).await.unwrap();
        say("retired", "fold_paper", now - 91 * 24 * 3_600_000).await.unwrap();
        say("same", "events-test:welcome", now).await.unwrap();

        let unlinked = site.queue.bus().unlinked::<UserRegistered>().await.unwrap();
        let names: Vec<_> = unlinked.iter().map(|said| (&*said.program, &*said.job_type)).collect();
        assert_eq!(names, [("billing", "send_bill")]);
        assert!(site.queue.bus().unlinked::<Nothing>().await.unwrap().is_empty());

        let log = log();
        for _ in 0..3 {
            site.queue.emit(UserRegistered::ada()).await.unwrap();
            site.clock.advance(mins(2));
        }
        assert_eq!(log.lines_with("send_bill"), 1, "once: {}", log.text());
        say("shop", "ship", now).await.unwrap();
        site.queue.emit(UserRegistered::ada()).await.unwrap();
        assert_eq!((log.lines_with("job_type=\"ship\""), log.lines_with("fold_paper")), (1, 0), "{}", log.text());
    }
}

// ---- one commit ------------------------------------------------------------------------------------------------

#[tokio::test]
async fn all_that_follows_is_one_enqueue_of_the_store_and_where_that_fails_nobody_is_told() {
    let g = ground();
    let mut heard = g.queue.bus().subscribe::<UserRegistered>();
    g.queue.emit(UserRegistered::ada()).await.unwrap();
    assert_eq!(g.rig.calls("enqueue"), 1);
    g.queue.emit(Nothing).await.unwrap();
    assert_eq!(g.rig.calls("enqueue"), 1, "nothing to store");
    g.rig.fail("enqueue", busy());
    let error = g.queue.emit(UserRegistered::ada()).await.unwrap_err();
    assert!(matches!(error, EmitError::Store(StoreError::Busy { .. })), "{error}");
    g.rig.heal();
    g.queue.emit(UserRegistered { user_id: 5, ..UserRegistered::ada() }).await.unwrap();
    let users = [heard.recv().await, heard.recv().await].map(|heard| heard.unwrap().unwrap().user_id);
    assert_eq!(users, [42, 5]);
}

#[tokio::test]
async fn other_programs_that_can_not_be_asked_hold_up_no_event() {
    let g = ground();
    g.rig.fail("subscriptions", busy());
    assert_eq!(g.queue.emit(UserRegistered::alone()).await.unwrap().jobs().len(), 1);
}

#[tokio::test]
async fn an_event_in_a_transaction_is_stored_and_announced_with_its_commit_alone() {
    let dir = tempfile::tempdir().unwrap();
    let file = sqlx::sqlite::SqliteConnectOptions::new().filename(dir.path().join("app.db"));
    let pool = sqlx::SqlitePool::connect_with(file.create_if_missing(true)).await.unwrap();
    sqlx::query("CREATE TABLE users (id INTEGER PRIMARY KEY)").execute(&pool).await.unwrap();
    let site = Site::on(JobQueue::open_pool(&pool).await.unwrap(), ManualClock::default()).await;
    let mut heard = site.queue.bus().subscribe::<UserRegistered>();
    for (commits, jobs, users) in [(false, 0, 0), (true, 4, 1)] {
        let mut tx = pool.begin().await.unwrap();
        sqlx::query("INSERT INTO users DEFAULT VALUES").execute(&mut *tx).await.unwrap();
        let event = UserRegistered { user_id: jobs as u64, ..UserRegistered::ada() };
        let emitted = site.queue.emit(event).in_tx(&mut *tx).await.unwrap();
        assert_eq!((emitted.jobs().len(), site.jobs().await.len()), (4, 0), "seen before the commit");
        match commits {
            true => {
                tx.commit().await.unwrap();
                emitted.announce();
            }
            false => tx.rollback().await.unwrap(),
        }
        assert_eq!(site.jobs().await.len(), jobs);
        let found: i64 = sqlx::query_scalar("SELECT count(*) FROM users").fetch_one(&pool).await.unwrap();
        assert_eq!(found, users);
    }
    // A store without transactions says so, also where nothing follows.
    let memory = Site::memory().await;
    let mut tx = pool.begin().await.unwrap();
    let refused = memory.queue.emit(Nothing).in_tx(&mut *tx).await.unwrap_err();
    assert!(matches!(refused, EmitError::Store(StoreError::NoTransactions)), "{refused}");
    site.queue.emit(UserRegistered { user_id: 5, ..UserRegistered::ada() }).await.unwrap();
    let users = [heard.recv().await, heard.recv().await].map(|heard| heard.unwrap().unwrap().user_id);
    assert_eq!(users, [4, 5], "the one that was rolled back was never told");
}

#[tokio::test]
async fn a_subscriber_that_is_too_slow_is_told_how_much_it_missed() {
    let site = Site::memory().await;
    let (mut slow, mut quick) = (site.queue.bus().subscribe(), site.queue.bus().subscribe::<SiteEvent>());
    for n in 0..1030_u64 {
        site.queue.emit(SiteEvent::Befriended(n)).await.unwrap();
        assert!(matches!(*quick.recv().await.unwrap().unwrap(), SiteEvent::Befriended(heard) if heard == n));
    }
    assert_eq!(slow.recv().await.unwrap().unwrap_err(), Missed(6));
    let next = slow.recv().await.unwrap().unwrap();
    assert!(matches!(*next, SiteEvent::Befriended(6)), "the oldest that is there: {next:?}");
    let jobs: u64 = site.queue.counts().await.unwrap().iter().map(|count| count.count).sum();
    assert_eq!(jobs, 1030 + 1, "no job was missed");
}

// ---- the application's own bus ---------------------------------------------------------------------------------

async fn friends(g: &Ground) -> usize {
    let rows = g.queue.list(JobFilter::default().job_type("events-test:friend").limit(1000)).await.unwrap();
    rows.len()
}

#[tokio::test]
async fn a_broadcast_is_emitted_until_its_senders_are_gone() {
    let g = ground();
    let mut heard = g.queue.bus().subscribe::<SiteEvent>();
    let (sender, receiver) = broadcast::channel::<Arc<SiteEvent>>(64);
    let forwarding = g.queue.bus().forward(receiver);
    for n in 0..10 {
        sender.send(Arc::new(SiteEvent::Befriended(n))).unwrap();
    }
    sender.send(Arc::new(SiteEvent::Broken)).unwrap();
    sender.send(Arc::new(SiteEvent::Befriended(10))).unwrap();
    drop(sender);
    let log = log();
    let forwarded = forwarding.await;
    assert_eq!((forwarded.emitted, forwarded.jobs, forwarded.lost, forwarded.failed), (11, 11, 0, 1));
    assert_eq!(log.lines_with("no such picture"), 1, "{}", log.text());
    assert_eq!((friends(&g).await, g.rig.calls("enqueue")), (11, 1), "what waited shares a commit");
    for n in 0..=10 {
        assert!(matches!(*heard.recv().await.unwrap().unwrap(), SiteEvent::Befriended(told) if told == n));
    }

    // An event that is cloned does as well.
    let (sender, receiver) = broadcast::channel(8);
    sender.send(UserRegistered::alone()).ok();
    let forwarding = g.queue.bus().forward(receiver);
    sender.send(UserRegistered::alone()).ok();
    drop(sender);
    assert_eq!(forwarding.await.jobs, 2);
}

#[tokio::test]
async fn what_a_broadcast_drops_is_counted_and_told() {
    let g = ground();
    let log = log();
    let (sender, receiver) = broadcast::channel(8);
    for n in 0..20 {
        sender.send(Arc::new(SiteEvent::Befriended(n))).unwrap();
    }
    let forwarding = g.queue.bus().forward(receiver);
    rest().await;
    assert_eq!(forwarding.so_far().lost, 12);
    for n in 0..20 {
        sender.send(Arc::new(SiteEvent::Befriended(n))).unwrap();
    }
    drop(sender);
    let forwarded = forwarding.await;
    assert_eq!((forwarded.emitted, forwarded.lost, friends(&g).await), (16, 24, 16));
    assert_eq!(
        log.lines_with("a broadcast dropped events"),
        2,
        "at once, and the rest at the end: {}",
        log.text()
    );
    assert_eq!(log.lines_with("lost=12"), 2, "{}", log.text());
}

#[tokio::test]
async fn events_of_a_broadcast_wait_out_trouble_of_the_storage() {
    let g = ground();
    let (sender, receiver) = broadcast::channel(64);
    g.rig.fail("enqueue", busy());
    let forwarding = g.queue.bus().forward(receiver);
    sender.send(Arc::new(SiteEvent::Befriended(1))).unwrap();
    g.pass(secs(60)).await;
    assert!(g.rig.calls("enqueue") > 5, "{} tries", g.rig.calls("enqueue"));
    assert_eq!((forwarding.so_far().emitted, forwarding.so_far().failed), (0, 0));
    g.rig.heal();
    g.pass_until("it is stored", async || forwarding.so_far().emitted == 1).await;
    assert_eq!(friends(&g).await, 1);

    // What will not end by itself is given up, event by event, and told.
    g.rig.fail("enqueue", StoreError::Closed);
    sender.send(Arc::new(SiteEvent::Befriended(2))).unwrap();
    sender.send(Arc::new(SiteEvent::Befriended(3))).unwrap();
    g.pass_until("both have failed", async || forwarding.so_far().failed == 2).await;
    g.rig.heal();

    // Told to stop, it reads no more.
    let stopping = tokio::spawn(forwarding.stop());
    rest().await;
    assert_eq!(stopping.await.unwrap().emitted, 1);
    assert!(sender.send(Arc::new(SiteEvent::Befriended(4))).is_err(), "nobody listens");
    assert_eq!(friends(&g).await, 1);
}

#[tokio::test]
async fn a_stop_does_not_wait_for_a_storage_that_does_not_come_back() {
    let g = ground();
    let (sender, receiver) = broadcast::channel(64);
    g.rig.fail("enqueue", busy());
    let forwarding = g.queue.bus().forward(receiver);
    sender.send(Arc::new(SiteEvent::Befriended(1))).unwrap();
    rest().await;
    assert_eq!(forwarding.stop().await.failed, 1);
    // One that is let go goes on.
    g.rig.heal();
    let (sender, receiver) = broadcast::channel(64);
    drop(g.queue.bus().forward(receiver));
    sender.send(Arc::new(SiteEvent::Befriended(2))).unwrap();
    rest().await;
    assert_eq!(friends(&g).await, 1);
}

// ---- what an open says -----------------------------------------------------------------------------------------

#[tokio::test]
async fn an_open_says_which_events_the_linked_jobs_follow_from_and_writes_only_what_is_new() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("app.db").display().to_string();
    let clock = ManualClock::default();
    let open = async || JobQueue::options().clock(Arc::new(clock.clone())).open(&path).await.unwrap();
    let queue = open().await;
    let ours = async |queue: &JobQueue| {
        let said = queue.store().subscriptions().await.unwrap();
        let mine = said.into_iter().filter(|said| said.event == "events-test:user-registered");
        mine.map(|said| (said.job_type, said.seen_at)).collect::<Vec<_>>()
    };
    // The write was handed over before this one.
    queue.store().subscribe("billing".into(), vec![("a".into(), "b".into())], 1).await.unwrap();
    let now = clock.now();
    let types = ["events-test:erase", "events-test:friend", "events-test:welcome"];
    assert_eq!(ours(&queue).await, types.map(|job_type| (job_type.to_owned(), now)));

    clock.advance(hours(1));
    let again = open().await;
    again.store().resume(jobq::Paused::Queue("none".into()), 0).await.unwrap();
    assert_eq!(ours(&again).await[0].1, now, "nothing is new");
    clock.advance(hours(24));
    let later = open().await;
    later.store().resume(jobq::Paused::Queue("none".into()), 0).await.unwrap();
    assert_eq!(ours(&later).await[0].1, clock.now(), "it is there still");
}
