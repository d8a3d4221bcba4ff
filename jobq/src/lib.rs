//! Typed background jobs for Rust that need nothing but a SQLite file.
//!
//! A job is an async function with an attribute. The function stays a function; its parameters are the payload; and
//! enqueueing it is checked by the compiler as a call of it is. Jobs live in a SQLite file beside the application's own
//! tables, and survive crashes of the process and of the machine.
//!
//! ```no_run
//! use jobq::prelude::*;
//!
//! /// Welcomes a new user.
//! #[job(queue = "mail", max_attempts = 5, label = "Welcome mail to {email}")]
//! async fn send_welcome_email(user_id: u64, email: String) -> Result<(), JobError> {
//!     println!("to {email}: welcome, number {user_id}");
//!     Ok(())
//! }
//!
//! # async fn app() -> Result<(), JobError> {
//! let queue = JobQueue::open("sqlite://app.db").await?;
//! queue.install();
//!
//! // Stored, and run by a worker of this process or another:
//! let handle = send_welcome_email.enqueue((42, "ada@example.org".into())).delay(mins(5)).await?;
//! println!("enqueued as {}", handle.id());
//!
//! // Still a function; this runs here and now:
//! send_welcome_email(42, "ada@example.org".into()).await?;
//!
//! // Runs what is due, until SIGTERM or ctrl-c:
//! Worker::new(&queue).concurrency(8).run().await?;
//! # Ok(())
//! # }
//! ```
//!
//! # The words
//! A **job** is one row: a *payload* for one *job type* (the stored name of a job function). A **queue** is a named lane
//! of work, such as `mail`; [`JobQueue`] is the handle to all lanes of one store. A **worker** *claims* jobs and runs
//! them; each run is an **attempt**. A job that is out of attempts is **dead**: kept for people, who may *retry* it.
//!
//! # Where to look
//! - everything that jobs can do, chapter by chapter: the [`guide`];
//! - to enqueue: [`JobFn::enqueue`] on the function, [`EnqueueExt::enqueue`] on the payload, the options of [`Enqueue`];
//! - which queue that goes to: [`JobQueue::install`], [`JobQueue::scope`], [`Enqueue::on`];
//! - to tell what happened, and have jobs follow from it: [`Event`](derive@Event), [`JobQueue::emit`], [`EventBus`];
//! - to have a job at most once: [`Unique`], in the attribute `unique(…)`; what an enqueue found: [`Enqueued`];
//! - how many run at once and how often one starts, over all processes: the chapter [`limits`](guide::limits),
//!   [`JobQueue::set_limit`];
//! - to run: [`Worker`]; what it needs to be told, how it starts, stops and drains;
//! - jobs that follow from one another: the chapter [`flows`](guide::flows), [`Enqueue::then`], [`batch`];
//! - to wait for what a job returns: [`JobHandle::wait`], [`JobQueue::result`], [`WaitError`];
//! - jobs at the times of a clock: `#[job(cron = …)]`, [`JobQueue::schedule`], the chapter [`cron`](guide::cron);
//! - what people do to jobs: [`JobQueue`]'s `list`, `cancel`, `retry`, `delete`, `run_now`, `pause_queue`, `pause_type`;
//! - what a job may know and say: [`JobContext`], [`JobError`]; to complete it with one's own rows:
//!   [`JobContext::complete_in`]; how far it is and what it wrote: [`JobQueue::output`];
//! - parameters that nobody is to read: [`guide::secrets`], [`JobQueue::reveal`];
//! - to test jobs: [`testing`], [`#[jobq::test]`](macro@test), [`assert_enqueued!`];
//! - to change a payload while jobs wait: the chapter [`versions`](guide::versions), [`JobQueue::check`];
//! - to show what a job takes, in forms and clients: the chapter [`schema`](guide::schema), [`JobEntry::template`];
//! - the states and who may leave them: [`state`]; the storage: [`store::Store`].
//!
//! # The log
//! What a person should know is told to `tracing`, from targets that begin with `jobq`. The target `jobq::sql` at level
//! TRACE tells every statement that the queue's own connections run, without the values: see [`SqliteOptions`]. With the feature
//! `tracing-output`, what jobs tell `tracing` is in their output: see the [guide](guide::context).

pub mod check;
pub mod context;
pub mod enqueue;
pub mod event;
pub mod executor;
pub mod flow;
pub mod guide;
pub mod job;
pub mod limit;
pub mod maintenance;
#[doc(hidden)]
pub mod private;
pub mod queue;
pub mod registry;
pub mod retry;
pub mod schedule;
pub mod secret;
pub mod state;
pub mod store;
pub mod testing;
pub mod time;
pub mod worker;

pub use jobq_macros::{Event, job, test};

pub use check::{Check, CheckProgress, CheckReport};
pub use context::{CompleteError, JobContext, StepError};
#[cfg(feature = "tracing-output")]
pub use context::{tracing_layer, tracing_layer_at};
pub use enqueue::{
    Call, Enqueue, EnqueueAll, EnqueueAllError, EnqueueError, EnqueueExt, EnqueueRaw, Follows, JobFn,
    JobHandle, JobLink, JobSet, LinkExt,
};
#[cfg(feature = "cron")]
pub use enqueue::{Schedule, ScheduleError};
pub use event::{
    Emit, EmitError, Emitted, EmittedInTx, Event, EventBus, Forwarded, Forwarding, Missed, Subscriber, emit,
};
pub use flow::{Batch, BatchOutcome, Each, Flow, FlowHandle, FlowRow, FlowState, batch};
pub use job::{
    Attempt, AttemptOutcome, CompletionRolledBack, DeadJob, Fields, FlowId, Job, JobError, JobField, JobId,
    JobRow, KeyScope, LogLevel, OnConflict, OutputLine, Timeout, Unique, Until, WorkerId,
};
pub use limit::{Bounds, Limit, Limited, Rate};
pub use queue::{
    JobQueue, JobQueueOptions, NoQueue, OutputPages, Pages, Pausing, QueueError, Wait, WaitError, spawn,
};
pub use registry::{JobEntry, Registry, registry};
pub use retry::Backoff;
#[cfg(feature = "encryption")]
pub use secret::{BadKeys, SecretKeys};
pub use state::JobState;
pub use store::{
    Acted, Count, Enqueued, JobFilter, Landed, LimitRow, Pause, Paused, ScheduleRow, Step, StoreError,
    TickRow, Tx,
    memory::MemoryStore,
    sqlite::{Durability, SqliteOptions, SqliteStore},
};
pub use time::{Clock, ManualClock, SystemClock, days, hours, mins, secs};
pub use worker::{Worker, WorkerError, WorkerHandle, WorkerStats};

/// The sqlx whose transactions [`Enqueue::in_tx`] takes.
pub use sqlx;

/// The one import of a user: the attribute, the traits that give job functions and payloads their `enqueue`, and what
/// a program names all the time.
pub mod prelude {
    pub use crate::{
        context::JobContext,
        enqueue::{EnqueueExt, JobFn, LinkExt},
        event::Event,
        job::{DeadJob, Job, JobError, OnConflict, Timeout, Unique, Until},
        queue::JobQueue,
        retry::Backoff,
        state::JobState,
        store::JobFilter,
        time::{days, hours, mins, secs},
        worker::Worker,
    };
    pub use jobq_macros::{Event, job};
}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
