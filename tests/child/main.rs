//! The other process of the crash tests: it opens a queue, does one thing, and can be killed while it does.

mod cost;
mod jobs;
mod journal;

use jobq::{
    JobQueue, Worker,
    job::{NewJob, OnConflict, UniqueKey, Until, WorkerId},
    store::{
        Claim, ClaimSet, Completion, NewWorker, Store, StoreError,
        sqlite::{SqliteOptions, SqliteStore},
    },
    time::{Clock, SystemClock},
};
use std::{io::BufRead, path::Path, sync::Arc, task::Poll, time::Duration};

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args[0] {
        "cost" => cost::listen(),
        _ => {
            tracing_subscriber::fmt().with_max_level(tracing::Level::WARN).with_writer(std::io::stderr).init()
        }
    }
    match args[..] {
        ["lock", path] => lock(path),
        ["byte", side_car, byte] => lock_byte(side_car, byte.parse().unwrap()),
        ["hog", path, hold, gap] => {
            hog(path, [hold, gap].map(|millis| Duration::from_millis(millis.parse().unwrap())))
        }
        ["enqueue", path, job_type] => run(enqueue(path, job_type)),
        ["unique", path, keys] => run(unique(path, keys.parse().unwrap())),
        ["act", path] => run(act(path)),
        ["hold", path, job_type, count] => run(hold(path, job_type, count.parse().unwrap())),
        ["fork", path] => fork(path),
        ["open", path] => run(open_once(path)),
        ["work", path, folder, slots, grace] => {
            work(path, folder, slots.parse().unwrap(), Duration::from_millis(grace.parse().unwrap()));
        }
        ["drain", path, folder, slots] => drain(path, folder, slots.parse().unwrap()),
        ["churn", path, folder] => run(churn(path, folder)),
        ["users", path] => run(users(path)),
        ["visit", path, times] => visit(path, times.parse().unwrap()),
        ["refused", path, times] => run(refused(path, times.parse().unwrap())),
        ["delayed", path, rounds] => run(delayed(path, rounds.parse().unwrap())),
        ["cost", path, act] => run(cost::cost(path, act)),
        ["bulk", path, count] => run(bulk(path, count.parse().unwrap())),
        _ => panic!("unknown: {args:?}"),
    }
}

fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

fn heard() -> Option<String> {
    std::io::stdin().lock().lines().next().and_then(Result::ok)
}

fn connection(path: &str) -> rusqlite::Connection {
    let db = rusqlite::Connection::open(path).unwrap();
    db.busy_timeout(Duration::from_secs(60)).unwrap();
    db
}

async fn open(path: &str) -> Arc<SqliteStore> {
    Arc::new(SqliteStore::open(SqliteOptions::new(path)).await.unwrap())
}

/// Holds the write lock until it is told to let go.
fn lock(path: &str) {
    let db = connection(path);
    db.execute_batch("BEGIN IMMEDIATE").unwrap();
    println!("locked");
    heard();
    db.execute_batch("COMMIT").unwrap();
    println!("unlocked");
    heard();
}

/// Holds the byte of a worker that is not its own.
fn lock_byte(side_car: &str, byte: i64) {
    use nix::{
        fcntl::{FcntlArg, fcntl},
        libc,
    };
    let file = std::fs::OpenOptions::new().read(true).write(true).open(side_car).unwrap();
    let (l_type, l_whence) = (libc::F_WRLCK as _, libc::SEEK_SET as _);
    fcntl(&file, FcntlArg::F_SETLK(&libc::flock { l_type, l_whence, l_start: byte, l_len: 1, l_pid: 0 }))
        .unwrap();
    println!("held");
    heard();
}

/// Takes the write lock again and again, holds it, and leaves a gap.
fn hog(path: &str, [hold, gap]: [Duration; 2]) {
    let db = connection(path);
    let enough = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let told = enough.clone();
    std::thread::spawn(move || {
        heard();
        told.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    println!("hogging");
    while !enough.load(std::sync::atomic::Ordering::Relaxed) {
        db.execute_batch("BEGIN IMMEDIATE").unwrap();
        std::thread::sleep(hold);
        db.execute_batch("COMMIT").unwrap();
        std::thread::sleep(gap);
    }
    println!("enough");
}

/// Enqueues as many jobs as each line says, of so many unique keys one after the other, and names the job of each.
async fn unique(path: &str, keys: usize) {
    let store = open(path).await;
    println!("ready");
    let job = |n: usize| {
        let unique = UniqueKey {
            key: (n % keys).to_string(),
            scope: "a".into(),
            states: Until::Finished.states(),
            within: None,
            on_conflict: OnConflict::Keep,
        };
        NewJob { unique: Some(Box::new(unique)), ..NewJob::new("a", n.to_string()) }
    };
    while let Some(count) = heard() {
        let jobs = (0..count.parse().unwrap()).map(job).collect();
        let answers = store.enqueue(jobs, SystemClock.now()).await.unwrap();
        let word = |is_new| if is_new { "new" } else { "existing" };
        let told: Vec<_> = answers.iter().map(|job| format!("{}:{}", word(job.is_new()), job.id)).collect();
        println!("enqueued {}", told.join(" "));
    }
}

/// Enqueues as many jobs as each line says, in one commit, and names them.
async fn enqueue(path: &str, job_type: &str) {
    let store = open(path).await;
    println!("ready");
    while let Some(count) = heard() {
        let jobs = (0..count.parse().unwrap()).map(|n: i64| NewJob::new(job_type.to_owned(), n.to_string()));
        let ids = store.enqueue(jobs.collect(), SystemClock.now()).await.unwrap();
        let ids: Vec<String> = ids.iter().map(|new| new.id.to_string()).collect();
        println!("enqueued {}", ids.join(" "));
    }
}

/// Does to jobs what people do, one act a line.
async fn act(path: &str) {
    let queue = queue(path).await;
    println!("ready");
    while let Some(line) = heard() {
        let words: Vec<&str> = line.split(' ').collect();
        let answer = match words[..] {
            ["pause", name] => format!("{:?}", queue.pause_queue(name).await.unwrap()),
            ["pause", name, millis] => {
                let time = Duration::from_millis(millis.parse().unwrap());
                format!("{:?}", queue.pause_queue(name).lasting(time).await.unwrap())
            }
            ["resume", name] => queue.resume_queue(name).await.unwrap().to_string(),
            _ => panic!("unknown: {line}"),
        };
        println!("did {answer}");
    }
}

async fn sign_in(store: &SqliteStore) -> WorkerId {
    let worker = NewWorker { beat: Duration::from_millis(200), queues: "all".into() };
    store.register(worker, SystemClock.now()).await.unwrap()
}

fn wish(worker: WorkerId, job_type: &str, limit: usize, standing: bool) -> Claim {
    let set = ClaimSet { job_types: vec![job_type.to_owned()], queues: None };
    Claim { worker, set: Arc::new(set), limit, standing }
}

/// Claims jobs and holds them until it is told to end.
async fn hold(path: &str, job_type: &str, count: usize) {
    let store = open(path).await;
    let worker = sign_in(&store).await;
    println!("worker {}", worker.0);
    let held = store.claim(wish(worker, job_type, count, true), SystemClock.now()).await.unwrap();
    println!("claimed {}", held.len());
    heard();
    store.unregister(worker);
    // Whatever is asked after it is answered after it.
    store.bury(vec![worker], SystemClock.now()).await.unwrap();
}

fn fork(path: &str) {
    let store = run(open(path));
    let worker = run(sign_in(&store));
    println!("worker {}", worker.0);
    run(store.enqueue((0..1000).map(|n: i64| NewJob::new("a", n.to_string())).collect(), 0)).unwrap();
    let mut app: sqlx::SqliteConnection =
        run(<sqlx::SqliteConnection as sqlx::Connection>::connect(path)).unwrap();
    // SAFETY: the child uses no lock that another thread of the parent may hold: it asks the store, whose first
    // look is at the process id, and opens anew.
    match unsafe { nix::unistd::fork() }.unwrap() {
        nix::unistd::ForkResult::Child => in_fork(path, &store, worker, &mut app),
        nix::unistd::ForkResult::Parent { .. } => {}
    }
    let mut drained = 0;
    while drained < 1000 {
        let got = run(store.claim(wish(worker, "a", 10, true), 1)).unwrap();
        let ended = got.iter().map(|job| Completion {
            id: job.id,
            lease: job.lease,
            result: None,
            ties: jobq::store::Ties::ALL,
        });
        drained += run(store.complete(ended.collect(), 1)).unwrap().len();
    }
    println!("parent drained {drained}");
    loop {
        heard();
    }
}

fn in_fork(path: &str, store: &Arc<SqliteStore>, parent: WorkerId, app: &mut sqlx::SqliteConnection) -> ! {
    let job = || vec![NewJob::new("by the child", "1")];
    let refused = |answer: Result<(), StoreError>| {
        assert!(matches!(answer, Err(StoreError::Forked { .. })), "{answer:?}");
    };
    refused(run(store.enqueue(job(), 1)).map(drop));
    refused(run(store.enqueue_in(app.into(), job(), 1)).map(drop));
    refused(run(store.workers()).map(drop));
    refused(run(store.claim(wish(parent, "a", 1, true), 1)).map(drop));
    let anew = run(open(path));
    run(anew.enqueue(job(), 1)).unwrap();
    let own = run(sign_in(&anew));
    let life = |id: WorkerId| run(anew.workers()).unwrap().into_iter().find(|row| row.id == id).unwrap().life;
    assert_eq!(life(own), jobq::store::Life::Alive);
    assert_eq!(life(parent), jobq::store::Life::Alive);
    println!("forked child: refused, opened anew, sees its parent alive");
    for _ in 0..4000 {
        if life(parent) == jobq::store::Life::Alive {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
    println!("forked child sees its parent {:?}", life(parent));
    std::process::exit(0)
}

/// Opens the queue at a word, and enqueues one job.
async fn open_once(path: &str) {
    println!("ready");
    heard();
    let store = open(path).await;
    store.enqueue(vec![NewJob::new("a", std::process::id().to_string())], SystemClock.now()).await.unwrap();
    println!("opened");
}

fn worker(queue: &JobQueue, slots: usize) -> Worker {
    let beat = Duration::from_millis(200);
    Worker::new(queue).concurrency(slots).heartbeat(beat).rescue_after(beat * 10)
}

async fn queue(path: &str) -> JobQueue {
    JobQueue::with_store(open(path).await, Arc::new(SystemClock))
}

/// What an application's `main` does: run until a signal.
fn work(path: &str, folder: &str, slots: usize, grace: Duration) {
    journal::open(Path::new(folder));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let ended = runtime.block_on(async {
        let mut running = std::pin::pin!(worker(&queue(path).await, slots).grace(grace).run());
        // From its first poll on it listens to signals.
        let polled = std::future::poll_fn(|cx| Poll::Ready(running.as_mut().poll(cx))).await;
        println!("runs");
        match polled {
            Poll::Ready(ended) => ended,
            Poll::Pending => running.await,
        }
    });
    println!("ended {ended:?}");
    if ended.is_err() {
        std::process::exit(1);
    }
}

/// Runs what is due, from the moment it is told to.
fn drain(path: &str, folder: &str, slots: usize) {
    journal::open(Path::new(folder));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let queue = runtime.block_on(queue(path));
    println!("ready");
    heard();
    let stats = runtime.block_on(worker(&queue, slots).drain()).unwrap();
    println!("drained {}", stats.completed);
}

/// Enqueues, claims and settles without a pause, and says what was answered.
async fn churn(path: &str, folder: &str) {
    journal::open(Path::new(folder));
    let store = open(path).await;
    let worker = sign_in(&store).await;
    println!("churns");
    loop {
        let jobs = (0..5).map(|n: i64| NewJob { max_attempts: 100, ..NewJob::new("churned", n.to_string()) });
        let (enqueued, claimed) = tokio::join!(
            store.enqueue(jobs.collect(), SystemClock.now()),
            store.claim(wish(worker, "churned", 7, true), SystemClock.now()),
        );
        enqueued.unwrap().iter().for_each(|new| journal::write("enqueued", &format!("{} 0 0", new.id)));
        let claimed = claimed.unwrap();
        let ended: Vec<_> = claimed
            .iter()
            .map(|job| Completion {
                id: job.id,
                lease: job.lease,
                result: None,
                ties: jobq::store::Ties::ALL,
            })
            .collect();
        for job in &claimed {
            journal::write("start", &format!("{} {} {}", job.id, job.lease, job.attempt));
        }
        let settled = store.complete(ended, SystemClock.now()).await.unwrap();
        for (job, settled) in claimed.iter().zip(settled) {
            assert_eq!(settled, jobq::store::Settled::Applied);
            journal::write("completed", &format!("{} {} {}", job.id, job.lease, job.attempt));
        }
    }
}

/// An application that lays a row of its own and a job for it in one transaction, again and again.
async fn users(path: &str) {
    let store = open(path).await;
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(path);
    let mut app = <sqlx::SqliteConnection as sqlx::Connection>::connect_with(&options).await.unwrap();
    println!("begins");
    loop {
        let mut tx = sqlx::Connection::begin(&mut app).await.unwrap();
        let user: i64 = sqlx::query_scalar("INSERT INTO users DEFAULT VALUES RETURNING id")
            .fetch_one(&mut *tx)
            .await
            .unwrap();
        let mail = NewJob::new("welcome", user.to_string());
        store.enqueue_in((&mut tx).into(), vec![mail], SystemClock.now()).await.unwrap();
        tx.commit().await.unwrap();
        println!("committed {user}");
    }
}

/// Another program's look at the database, as a backup or a person with a shell has it: opens, copies, reads, closes.
fn visit(path: &str, times: usize) {
    use rusqlite::{Connection, OpenFlags};
    for n in 0..times {
        let copy = format!("{path}.copy-{n}");
        // A reader, and a shell that could write: its close is one that checkpoints where it is the last.
        let db = match n % 2 {
            0 => Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap(),
            _ => Connection::open(path).unwrap(),
        };
        db.busy_timeout(Duration::from_secs(30)).unwrap();
        match n % 4 {
            0 | 1 => drop(db.execute("VACUUM INTO ?1", [&copy]).unwrap()),
            // What the shell's `.backup` does.
            _ => {
                let mut target = Connection::open(&copy).unwrap();
                let backup = rusqlite::backup::Backup::new(&db, &mut target).unwrap();
                backup.run_to_completion(100, Duration::ZERO, None).unwrap();
            }
        }
        let jobs: i64 = db.query_row("SELECT count(*) FROM jobs_view", [], |row| row.get(0)).unwrap();
        drop(db);
        let sound: String = Connection::open(&copy)
            .unwrap()
            .query_row("PRAGMA integrity_check", [], |row| row.get(0))
            .unwrap();
        assert_eq!((sound.as_str(), jobs > 0), ("ok", true));
        std::fs::remove_file(&copy).unwrap();
    }
    println!("visited {times}");
}

/// Open files and threads of this process.
fn footprint() -> (usize, usize) {
    let entries = |folder: &str| std::fs::read_dir(folder).unwrap().count();
    (entries("/proc/self/fd"), entries("/proc/self/task"))
}

/// Enqueues that many times beside a lock, and says what that has left behind.
async fn refused(path: &str, times: usize) {
    let options = SqliteOptions::new(path).deadline(Duration::from_millis(1));
    let store = SqliteStore::open(options).await.unwrap();
    let db = connection(path);
    let busy = async || {
        db.execute_batch("BEGIN IMMEDIATE").unwrap();
        let refusal = store.enqueue(vec![NewJob::new("a", "1")], 1).await;
        assert!(matches!(refusal, Err(StoreError::Busy { .. })), "{refusal:?}");
        db.execute_batch("COMMIT").unwrap();
        let stored = store.enqueue(vec![NewJob::new("b", "1")], 1).await;
        // A millisecond may also be too short without any lock.
        assert!(matches!(stored, Ok(_) | Err(StoreError::Busy { .. })), "{stored:?}");
    };
    busy().await;
    let before = footprint();
    for _ in 0..times {
        busy().await;
    }
    println!("left {before:?} {:?}", footprint());
}

/// Bytes of memory that this process has.
fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

/// Stores results in so many rounds of a hundred, each of which meets a lock first, and says what that has left behind.
async fn delayed(path: &str, rounds: usize) {
    const ROUND: usize = 100;
    let options = SqliteOptions::new(path).deadline(Duration::from_millis(1));
    let store = Arc::new(SqliteStore::open(options).await.unwrap());
    let worker = sign_in(&store).await;
    let db = connection(path);
    let round = async || {
        let jobs = || vec![NewJob::new("a", "1"); ROUND];
        while let Err(refusal) = store.enqueue(jobs(), 1).await {
            assert!(matches!(refusal, StoreError::Busy { .. }), "{refusal:?}");
        }
        let held = store.claim(wish(worker, "a", ROUND, true), 1).await.unwrap();
        db.execute_batch("BEGIN IMMEDIATE").unwrap();
        let results = held.iter().map(|job| {
            let result = Some(format!("\"{}\"", "x".repeat(1000)));
            let ended = Completion { id: job.id, lease: job.lease, result, ties: jobq::store::Ties::ALL };
            let store = store.clone();
            tokio::spawn(async move { store.complete(vec![ended], 1).await })
        });
        let results: Vec<_> = results.collect();
        tokio::task::yield_now().await;
        // Whoever is refused now was behind them.
        let refusal = store.enqueue(vec![NewJob::new("b", "1")], 1).await;
        assert!(matches!(refusal, Err(StoreError::Busy { .. })), "{refusal:?}");
        assert!(results.iter().all(|result| !result.is_finished()));
        db.execute_batch("COMMIT").unwrap();
        for result in results {
            assert_eq!(result.await.unwrap().unwrap(), [jobq::store::Settled::Applied]);
        }
        held.len()
    };
    // Until SQLite's page cache has its full size.
    for _ in 0..30 {
        round().await;
    }
    let (before, memory) = (footprint(), resident());
    let mut delayed = 0;
    for _ in 0..rounds {
        delayed += round().await;
    }
    println!("left {delayed} {before:?} {:?} {memory} {}", footprint(), resident());
}

/// Enqueues so many jobs by `enqueue_all`.
async fn bulk(path: &str, count: u64) {
    let queue = queue(path).await;
    println!("begins");
    let ids = queue.enqueue_all((0..count).map(|n| jobs::Note { n })).await.unwrap();
    println!("enqueued {}", ids.len());
}
