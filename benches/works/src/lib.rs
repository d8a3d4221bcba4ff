//! The works that every queue of the bench is put to, the same code for each: what is enqueued, what its handler does,
//! what is timed.
//!
//! A queue is a program of its own (the peers' SQLite libraries can't be linked together) that implements [`Subject`]
//! and calls [`run`]. It is started as `PROGRAM work WORK FILE key=value…` and answers with one line of JSON on
//! standard output: the figures' names and values.

mod figures;

pub use figures::{Figures, done, handle, now_ns, quantile_ms};

use figures::{errors, last_at, samples};
use serde::{Deserialize, Serialize};
use std::{
    collections::HashMap,
    future::Future,
    io::BufRead,
    time::{Duration, Instant},
};

/// What every job carries: about 100 bytes of JSON.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Payload {
    /// A number.
    pub user_id: u64,
    /// A text of its own.
    pub email: String,
    /// A text that all share.
    pub template: String,
    /// Nanoseconds of Unix time when it was enqueued; 0 where no latency is measured.
    pub t: u64,
}

impl Payload {
    /// One that is not stamped.
    pub fn numbered(number: u64) -> Self {
        let email = format!("user{number:07}@example.com");
        Self { user_id: number, email, template: "welcome-to-the-service".into(), t: 0 }
    }

    fn stamped(number: u64) -> Self {
        Self { t: now_ns(), ..Self::numbered(number) }
    }
}

/// A queue, opened. Its errors are counted and the first is shown.
pub trait Subject: Clone + Send + Sync + 'static {
    /// One job, durable (as durable as the queue is set) when it returns.
    fn enqueue(&self, job: Payload) -> impl Future<Output = Result<(), String>> + Send;

    /// Many jobs in the queue's best way.
    fn bulk(&self, jobs: Vec<Payload>) -> impl Future<Output = Result<(), String>> + Send {
        async {
            for job in jobs {
                self.enqueue(job).await?;
            }
            Ok(())
        }
    }

    /// Starts a worker that lives as long as the program and calls [`handle`] for each job.
    fn start(&self) -> impl Future<Output = ()> + Send;

    /// Rows that no worker of this bench may claim: `finished`, in the `future` and of higher priority, or of a type
    /// that is `unknown` to the worker.
    fn lay(&self, what: &str, rows: u64) -> impl Future<Output = Result<(), String>> + Send {
        let refused = Err(format!("{rows} rows, {what}: this queue has no way to lay them"));
        async { refused }
    }
}

/// The settings that a program was started with.
pub struct Settings {
    /// The work's name.
    pub work: String,
    /// The database file.
    pub file: String,
    rest: HashMap<String, String>,
}

impl Settings {
    /// Those of this program.
    ///
    /// # Panics
    /// Where a setting is no `key=value`.
    pub fn of_this_program() -> Self {
        let mut arguments = std::env::args().skip_while(|argument| argument != "work").skip(1);
        let mut next = |what| {
            arguments
                .next()
                .unwrap_or_else(|| panic!("usage: PROGRAM work WORK FILE key=value…; {what} is missing"))
        };
        let (work, file) = (next("WORK"), next("FILE"));
        let pair = |text: String| {
            let (key, value) = text.split_once('=').unwrap_or_else(|| panic!("{text}: not key=value"));
            (key.to_owned(), value.to_owned())
        };
        Self { work, file, rest: arguments.map(pair).collect() }
    }

    /// A setting, or `default`.
    pub fn text<'a>(&'a self, key: &str, default: &'a str) -> &'a str {
        self.rest.get(key).map_or(default, String::as_str)
    }

    /// A setting that is a whole number, or `default`.
    ///
    /// # Panics
    /// Where it is no number.
    pub fn number(&self, key: &str, default: u64) -> u64 {
        self.rest
            .get(key)
            .map_or(default, |value| value.parse().unwrap_or_else(|_| panic!("{key}={value}: no number")))
    }

    fn limit(&self) -> Duration {
        Duration::from_secs(self.number("limit", 8))
    }
}

/// Jobs of one bulk enqueue.
const BULK: u64 = 1_000;
/// Tasks that enqueue side by side.
const TASKS: u64 = 64;

/// Puts the queue to the work that the settings name, prints its figures and ends the program.
pub async fn run(settings: &Settings, queue: impl Subject) -> ! {
    let (jobs, limit) = (settings.number("jobs", 20_000), settings.limit());
    let mut figures = match settings.work.as_str() {
        // The file is laid; nothing else.
        "open" => Figures::default(),
        "fill" => bulk(&queue, jobs, Duration::MAX).await,
        "lay" => lay(&queue, settings.text("what", "finished"), jobs).await,
        "one" => one(&queue, jobs, limit).await,
        "tasks" => from_tasks(&queue, jobs, limit).await.0,
        "bulk" => bulk(&queue, jobs, limit).await,
        "drain" => drain(&queue, jobs, limit).await,
        "both" => both(&queue, jobs, limit).await,
        "latency" => latency(&queue, jobs, settings).await,
        "produce" => produce(&queue, jobs, settings).await,
        "serve" => serve(&queue, settings).await,
        "idle" => idle(&queue, Duration::from_secs(settings.number("seconds", 10))).await,
        other => panic!("there is no work {other:?}"),
    };
    if settings.work == "drain" {
        // The ends of the last jobs are stored, so that they are not run again by who uses the file next.
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    figures.set("errors", errors() as f64);
    println!("{figures}");
    // What the queue still does in the background is nobody's business.
    std::process::exit(0)
}

/// W1, one task: enqueues, each awaited before the next.
async fn one(queue: &impl Subject, jobs: u64, limit: Duration) -> Figures {
    let began = Instant::now();
    let mut sent = 0;
    while sent < jobs && began.elapsed() < limit {
        figures::counted(queue.enqueue(Payload::numbered(sent))).await;
        sent += 1;
    }
    Figures::rate(sent, began.elapsed())
}

/// W1, 64 tasks: the same from each of them.
async fn from_tasks(queue: &impl Subject, jobs: u64, limit: Duration) -> (Figures, u64) {
    let began = Instant::now();
    let task = |task| {
        let queue = queue.clone();
        tokio::spawn(async move {
            let mut sent = 0;
            while sent < jobs / TASKS && began.elapsed() < limit {
                figures::counted(queue.enqueue(Payload::numbered(task * jobs + sent))).await;
                sent += 1;
            }
            sent
        })
    };
    let tasks: Vec<_> = (0..TASKS).map(task).collect();
    let mut sent = 0;
    for task in tasks {
        sent += task.await.expect("an enqueuing task panicked");
    }
    (Figures::rate(sent, began.elapsed()), sent)
}

/// W2: enqueues of 1,000 jobs, each awaited before the next.
async fn bulk(queue: &impl Subject, jobs: u64, limit: Duration) -> Figures {
    let began = Instant::now();
    let mut sent = 0;
    while sent < jobs && began.elapsed() < limit {
        let end = (sent + BULK).min(jobs);
        figures::counted(queue.bulk((sent..end).map(Payload::numbered).collect())).await;
        sent = end;
    }
    Figures::rate(sent, began.elapsed())
}

/// W6: rows that are in the way, or not.
async fn lay(queue: &impl Subject, what: &str, rows: u64) -> Figures {
    figures::counted(queue.lay(what, rows)).await;
    Figures::of("rows", rows as f64)
}

/// W3 and W6: from the start of a worker to the last handler, over a backlog that was laid before.
async fn drain(queue: &impl Subject, jobs: u64, limit: Duration) -> Figures {
    let began = (Instant::now(), now_ns());
    queue.start().await;
    ran(jobs, began, limit).await
}

/// W4: 64 tasks enqueue while a worker runs what they bring.
async fn both(queue: &impl Subject, jobs: u64, limit: Duration) -> Figures {
    queue.start().await;
    let began = (Instant::now(), now_ns());
    let (_, sent) = from_tasks(queue, jobs, limit).await;
    let mut figures = ran(sent, began, limit).await;
    figures.set("sent", sent as f64);
    figures
}

/// W5 in one process: one job at a time for an idle worker, from the call of enqueue to the start of its handler.
async fn latency(queue: &impl Subject, jobs: u64, settings: &Settings) -> Figures {
    queue.start().await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    let began = Instant::now();
    for number in 0..jobs {
        tokio::time::sleep(Duration::from_micros(settings.number("pause_us", 10_000))).await;
        figures::counted(queue.enqueue(Payload::stamped(number))).await;
        let ran = until(number + 1, Instant::now(), settings.limit()).await;
        if ran <= number || began.elapsed() > settings.limit() {
            break;
        }
    }
    samples()
}

/// W5 across processes, the enqueuing one. Its pauses vary, so that it keeps no step with who looks at intervals.
async fn produce(queue: &impl Subject, jobs: u64, settings: &Settings) -> Figures {
    let (pause, vary) = (settings.number("pause_us", 10_000), settings.number("vary_us", 3_000));
    let began = Instant::now();
    let mut sent = 0;
    while sent < jobs && began.elapsed() < settings.limit() {
        // tokio's timers count whole milliseconds. This is the main thread, no task waits for it.
        std::thread::sleep(Duration::from_micros(pause + sent * 1_237 % vary.max(1)));
        figures::counted(queue.enqueue(Payload::stamped(sent))).await;
        sent += 1;
    }
    Figures::of("sent", sent as f64)
}

/// W5 across processes and W8, a working one: says `ready`, starts when it is told to by a line on standard input
/// (`at_once`: before that, untold), says how many it ran whenever that has changed, and ends with the next line.
async fn serve(queue: &impl Subject, settings: &Settings) -> Figures {
    let mut lines = lines_of_stdin();
    let at_once = settings.number("at_once", 0) == 1;
    if at_once {
        queue.start().await;
        println!("ready");
    } else {
        println!("ready");
        lines.recv().await;
    }
    let began = now_ns();
    if !at_once {
        queue.start().await;
    }
    let mut said = 0;
    while tokio::time::timeout(Duration::from_millis(20), lines.recv()).await.is_err() {
        if done() != said {
            said = done();
            println!("{said}");
        }
    }
    let mut figures = samples();
    figures.set("ran", done() as f64);
    figures.set("began_s", began as f64 / 1e9);
    figures.set("last_s", last_at() as f64 / 1e9);
    figures
}

fn lines_of_stdin() -> tokio::sync::mpsc::UnboundedReceiver<()> {
    let (tell, lines) = tokio::sync::mpsc::unbounded_channel();
    std::thread::spawn(move || {
        std::io::stdin().lock().lines().map_while(Result::ok).all(|_| tell.send(()).is_ok())
    });
    lines
}

/// W7: what a worker costs that has nothing to do.
async fn idle(queue: &impl Subject, over: Duration) -> Figures {
    queue.start().await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let before = figures::cpu_time();
    tokio::time::sleep(over).await;
    let mut figures =
        Figures::of("cpu_percent", (figures::cpu_time() - before).as_secs_f64() / over.as_secs_f64() * 100.0);
    figures.set("rss_mb", figures::resident_mb());
    figures
}

/// The rate of `jobs` handlers from `began` to the last of them, or of those that ran until the limit.
async fn ran(jobs: u64, (began, began_ns): (Instant, u64), limit: Duration) -> Figures {
    match until(jobs, began, limit).await {
        ran if ran < jobs => Figures::rate(ran, began.elapsed()),
        ran => Figures::rate(ran, Duration::from_nanos(last_at().saturating_sub(began_ns))),
    }
}

/// Waits until `jobs` handlers ran, or the limit is over; how many did.
async fn until(jobs: u64, began: Instant, limit: Duration) -> u64 {
    while done() < jobs && began.elapsed() < limit {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    done()
}
