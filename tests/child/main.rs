//! The other process of the crash tests: it opens a queue, does one thing, and can be killed while it does.

use jobq::{
    job::{NewJob, WorkerId},
    store::{
        Claim, ClaimSet, Completion, NewWorker, Store, StoreError,
        sqlite::{SqliteOptions, SqliteStore},
    },
    time::{Clock, SystemClock},
};
use std::{io::BufRead, sync::Arc, time::Duration};

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args[..] {
        ["lock", path] => lock(path),
        ["hog", path] => hog(path),
        ["enqueue", path, job_type] => run(enqueue(path, job_type)),
        ["hold", path, job_type, count] => run(hold(path, job_type, count.parse().unwrap())),
        ["fork", path] => fork(path),
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

/// Takes the write lock again and again, and holds it three quarters of the time.
fn hog(path: &str) {
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
        std::thread::sleep(Duration::from_millis(15));
        db.execute_batch("COMMIT").unwrap();
        std::thread::sleep(Duration::from_millis(5));
    }
    println!("enough");
}

/// Enqueues as many jobs as each line says, in one commit, and names them.
async fn enqueue(path: &str, job_type: &str) {
    let store = open(path).await;
    println!("ready");
    while let Some(count) = heard() {
        let jobs = (0..count.parse().unwrap()).map(|n: i64| NewJob::new(job_type.to_owned(), n.to_string()));
        let ids = store.enqueue(jobs.collect(), SystemClock.now()).await.unwrap();
        let ids: Vec<String> = ids.iter().map(ToString::to_string).collect();
        println!("enqueued {}", ids.join(" "));
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
        let ended = got.iter().map(|job| Completion { id: job.id, lease: job.lease, result: None });
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
