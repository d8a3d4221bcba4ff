//! One claimed job → one Verdict: running it, and apart from that the pure step from what happened to what follows.

use crate::{
    context::{JobContext, block_on},
    job::{AttemptOutcome, CompletionRolledBack, ErrorClass, JobError, MAX_ERROR, MAX_RESULT, Timeout, cut},
    registry::{Attempting, BackoffPolicy, DataMap, JobEntry, Known},
    retry::Backoff,
    secret::SecretKeys,
    store::{Claimed, Next},
    time::{Clock, Millis, Sleep, millis},
};
use std::{
    any::Any,
    borrow::Cow,
    future::{Future, poll_fn},
    panic::{AssertUnwindSafe, catch_unwind},
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll},
    time::{Duration, Instant},
};
use tokio::sync::oneshot;
use tracing::Span;

pub(crate) mod following;
mod threads;
use threads::Threads;

pub use crate::context::{Order, Orders};

/// What is told of an attempt whose handler was dropped since its job was cancelled.
const DROPPED: &str = "cancelled while it ran";

/// A single poll of a handler that takes longer than this is named in a warning: it held a thread of the runtime.
const LONG_POLL: Duration = Duration::from_secs(1);

// ---- the pure step -------------------------------------------------------------------------------------

/// How an attempt came to its end.
#[derive(Debug)]
pub enum Ending {
    /// The handler returned: the output as JSON text, `None` for `()`, or its error.
    Returned(Result<Option<String>, JobError>),
    /// It took longer than this.
    TimedOut(Duration),
    /// It panicked with this text.
    Panicked(String),
    /// The payload is not what this build's function takes.
    Undecodable(String),
    /// The attempt could not be started, for this reason.
    NotStarted(String),
    /// Its worker is gone; the text says how that is known.
    Lost(String),
    /// Its worker stops and took it from the handler.
    Stopped,
    /// It completed in a transaction that did not commit.
    RolledBack,
    /// A person has cancelled the job, and this is what came of the attempt.
    TakenBack(String),
    /// Its lease was lost and its handler dropped: there is nothing to store.
    Forgotten,
}

/// What a job's row and type say about another attempt.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// The attempt that ended; 1 = first run.
    pub attempt: u32,
    /// Counted starts at most.
    pub max_attempts: u32,
    /// The row's own backoff; it goes before the type's.
    pub backoff: Option<Backoff>,
    /// The type's backoff.
    pub policy: BackoffPolicy,
}

/// What follows from an attempt: the edge that the job takes. The names are those of the store's methods.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// running → completed.
    Complete {
        /// JSON text of the output.
        result: Option<String>,
    },
    /// running → pending, scheduled, dead or cancelled.
    Fail {
        /// How it failed.
        outcome: AttemptOutcome,
        /// The text for people, cut to its limit.
        error: String,
        /// What becomes of the job.
        next: Next,
    },
    /// running → scheduled; the attempt does not count.
    Snooze {
        /// When to run it again.
        run_at: Millis,
    },
    /// running → pending; the attempt does not count.
    Release,
    /// Nothing: the job is somebody else's by now.
    Forget,
}

/// What follows from `ending`. `random` is in 0.0 ..= 1.0 and picks the place within the backoff's jitter.
///
/// Pure, but for what a [`BackoffPolicy::Own`] function does; should that one panic, the default backoff is taken.
pub fn verdict(ending: Ending, terms: &Terms, now: Millis, random: f64) -> Verdict {
    let failed = |outcome, text: String, error: Option<&JobError>| {
        let next = terms.next(outcome, &text, error, now, random);
        Verdict::Fail { outcome, error: cut(&text, MAX_ERROR).into_owned(), next }
    };
    match ending {
        Ending::Returned(Ok(Some(result))) if result.len() > MAX_RESULT => {
            let text = format!(
                "the result is {} bytes of JSON, at most {MAX_RESULT} are stored: return less, or a reference to it",
                result.len()
            );
            failed(AttemptOutcome::Failed, text, None)
        }
        Ending::Returned(Ok(result)) => Verdict::Complete { result },
        Ending::Returned(Err(error)) => returned(error, now, failed),
        Ending::TimedOut(after) => {
            failed(AttemptOutcome::TimedOut, format!("timed out after {after:?}"), None)
        }
        Ending::Panicked(text) => failed(AttemptOutcome::Panicked, format!("panicked: {text}"), None),
        Ending::Undecodable(text) => failed(AttemptOutcome::Undecodable, text, None),
        Ending::NotStarted(text) => failed(AttemptOutcome::Failed, text, None),
        Ending::Lost(text) => failed(AttemptOutcome::Lost, text, None),
        Ending::RolledBack => {
            let error = JobError::new(CompletionRolledBack);
            failed(AttemptOutcome::Failed, error.to_string(), Some(&error))
        }
        Ending::Stopped => Verdict::Release,
        Ending::TakenBack(text) => {
            let error = cut(&text, MAX_ERROR).into_owned();
            Verdict::Fail { outcome: AttemptOutcome::Cancelled, error, next: Next::Cancelled }
        }
        Ending::Forgotten => Verdict::Forget,
    }
}

/// What follows from an error that the handler returned.
fn returned(
    error: JobError,
    now: Millis,
    failed: impl Fn(AttemptOutcome, String, Option<&JobError>) -> Verdict,
) -> Verdict {
    let end = |outcome, next| {
        let error = cut(&error.to_string(), MAX_ERROR).into_owned();
        Verdict::Fail { outcome, error, next }
    };
    match error.class() {
        ErrorClass::Snooze(delay) => Verdict::Snooze { run_at: now.saturating_add(millis(delay)) },
        ErrorClass::Dead => end(AttemptOutcome::Failed, Next::Dead),
        ErrorClass::Cancel => end(AttemptOutcome::Cancelled, Next::Cancelled),
        ErrorClass::Retry | ErrorClass::RetryIn(_) => {
            failed(AttemptOutcome::Failed, error.to_string(), Some(&error))
        }
    }
}

impl Terms {
    /// What becomes of a job that failed so.
    fn next(
        &self,
        outcome: AttemptOutcome,
        text: &str,
        error: Option<&JobError>,
        now: Millis,
        random: f64,
    ) -> Next {
        if self.attempt >= self.max_attempts {
            return Next::Dead;
        }
        let wait = match (error.map(JobError::class), &self.backoff, self.policy) {
            (Some(ErrorClass::RetryIn(delay)), ..) => delay,
            (_, Some(backoff), _) => backoff.delay(self.attempt, random),
            (_, None, BackoffPolicy::Set(backoff)) => backoff.delay(self.attempt, random),
            (_, None, BackoffPolicy::Own(wait)) => {
                let made = JobError::new(text);
                let error = error.unwrap_or(&made);
                caught(|| wait(self.attempt, error))
                    .unwrap_or_else(|_| Backoff::DEFAULT.delay(self.attempt, random))
            }
            // Not the job's fault: it had been at the head of the queue, and is not to wait behind all that came since.
            (_, None, BackoffPolicy::Unset) if outcome == AttemptOutcome::Lost => return Next::AsBefore,
            (_, None, BackoffPolicy::Unset) => Backoff::DEFAULT.delay(self.attempt, random),
        };
        Next::At(now.saturating_add(millis(wait)))
    }
}

// ---- running -------------------------------------------------------------------------------------------

/// A future on its way to a thread of its own.
pub type Body = Pin<Box<dyn Future<Output = Ending> + Send>>;

/// Sees each attempt's end, before it is stored.
pub(crate) type Watch = Arc<dyn Fn(&Claimed, &Verdict) + Send + Sync>;

/// Runs claimed jobs; touches no store.
pub struct Executor {
    data: Arc<DataMap>,
    clock: Arc<dyn Clock>,
    timeout: Timeout,
    scope: Box<dyn Fn(Body) -> Body + Send + Sync>,
    threads: Threads,
    watch: Option<Watch>,
    keys: Option<Arc<SecretKeys>>,
}

impl Executor {
    /// `timeout` holds for jobs whose row has none. `scope` surrounds the body of a `blocking` job on its thread with
    /// what the caller surrounds the call of [`attempt`](Self::attempt) with.
    pub fn new(
        data: Arc<DataMap>,
        clock: Arc<dyn Clock>,
        timeout: Timeout,
        scope: impl Fn(Body) -> Body + Send + Sync + 'static,
    ) -> Self {
        Self {
            data,
            clock,
            timeout,
            scope: Box::new(scope),
            threads: Threads::default(),
            watch: None,
            keys: None,
        }
    }

    /// The same, and `watch` sees how each attempt ends.
    pub(crate) fn watched(mut self, watch: Option<Watch>) -> Self {
        self.watch = watch;
        self
    }

    /// The same, and it opens the secrets that these keys have sealed.
    pub(crate) fn opening(mut self, keys: Option<Arc<SecretKeys>>) -> Self {
        self.keys = keys;
        self
    }

    /// Runs one attempt to its end, whatever its handler does, and says what follows.
    ///
    /// # Cancel safety
    /// Dropping the future drops an async handler with it; a `blocking` one is left to itself.
    pub async fn attempt(&self, entry: &'static JobEntry, ctx: &JobContext) -> Verdict {
        let ending = match entry.blocking {
            // On the heap: the future of all other attempts is not to be as large as this one.
            true => outlived(Box::pin(self.on_own_thread(entry, ctx)).as_mut()).await,
            false => outlived(pin!(self.in_place(entry, ctx))).await,
        };
        let ending = if ctx.is_unwanted() { unwanted(ending) } else { ending };
        self.conclude(ending, entry, ctx.job())
    }

    /// Tells operators, and who watches, what follows from an attempt.
    pub(crate) fn tell(&self, job: &Claimed, verdict: &Verdict) {
        tell(job, verdict, &*self.clock);
        if let Some(watch) = &self.watch {
            watch(job, verdict);
        }
    }

    /// What follows where an attempt that ended well had completed in a transaction that did not commit.
    pub(crate) fn rolled_back(&self, entry: &'static JobEntry, job: &Claimed) -> Verdict {
        self.conclude(Ending::RolledBack, entry, job)
    }

    fn conclude(&self, ending: Ending, entry: &JobEntry, job: &Claimed) -> Verdict {
        // Success is what happens all the time, and needs no clock.
        if let Ending::Returned(Ok(None)) = ending {
            return Verdict::Complete { result: None };
        }
        let Claimed { attempt, max_attempts, backoff, .. } = *job;
        let terms = Terms { attempt, max_attempts, backoff, policy: entry.backoff };
        let now = self.clock.now();
        // A user's Display can panic as well.
        caught(|| verdict(ending, &terms, now, fastrand::f64())).unwrap_or_else(|panic| {
            let text = format!("its error could not be written: panicked: {panic}");
            verdict(Ending::NotStarted(text), &terms, now, fastrand::f64())
        })
    }

    async fn in_place(&self, entry: &'static JobEntry, ctx: &JobContext) -> Ending {
        let job = ctx.job();
        let span = span_of(ctx);
        let payload = match payload(entry, job, self.keys.as_deref()) {
            Ok(payload) => payload,
            Err(ending) => return ending,
        };
        let mut body = match start(entry, &payload, ctx, &self.data, &span) {
            Ok(body) => body,
            Err(ending) => return ending,
        };
        let mut limit = Limit::new(job.timeout.unwrap_or(self.timeout), &*self.clock);
        let ending = poll_fn(|cx| {
            let order = ctx.order(cx);
            if let Poll::Ready(ending) = poll_body(&mut body, cx, &span, ctx) {
                return Poll::Ready(given_up(ending, order));
            }
            // The handler has just been polled with the switch fired: what it wanted to do last is done.
            match order {
                Order::Drop => return Poll::Ready(Ending::Stopped),
                Order::Lost => return Poll::Ready(Ending::Forgotten),
                Order::TakenBack => return Poll::Ready(Ending::TakenBack(DROPPED.into())),
                Order::Run | Order::Cancel => {}
            }
            let Poll::Ready(after) = limit.poll(cx) else {
                return Poll::Pending;
            };
            ctx.expire();
            let _last_chance = poll_body(&mut body, cx, &span, ctx);
            Poll::Ready(Ending::TimedOut(after))
        })
        .await;
        let _inside = inside(ctx, &span);
        match caught(|| drop(body)) {
            Err(panic) if !matches!(ending, Ending::Returned(_)) => {
                tracing::warn!(panic, "the job's handler panicked while it was dropped");
                ending
            }
            _ => ending,
        }
    }

    async fn on_own_thread(&self, entry: &'static JobEntry, ctx: &JobContext) -> Ending {
        let job = ctx.job();
        let mut limit = Limit::new(job.timeout.unwrap_or(self.timeout), &*self.clock);
        let mut returned = match self.lend_thread(entry, ctx.clone()) {
            Ok(returned) => returned,
            Err(error) => return Ending::NotStarted(format!("no thread for a blocking job: {error}")),
        };
        let mut over = None;
        poll_fn(|cx| {
            let order = ctx.order(cx);
            if order >= Order::TakenBack {
                ctx.set_overdue();
            }
            if let Poll::Ready(ending) = Pin::new(&mut returned).poll(cx) {
                let ending = ending.unwrap_or_else(|_| Ending::Panicked("its thread ended".into()));
                return Poll::Ready(over.map_or_else(|| given_up(ending, order), Ending::TimedOut));
            }
            if order == Order::Drop {
                return Poll::Ready(over.map_or(Ending::Stopped, Ending::TimedOut));
            }
            if over.is_none()
                && let Poll::Ready(after) = limit.poll(cx)
            {
                over = Some(after);
                ctx.set_overdue();
                ctx.expire();
                let (id, job_type) = (job.id, &*job.job_type);
                tracing::warn!(%id, job_type, ?after, "a blocking job is past its time-out: it was told to stop and keeps lease and slot until it returns");
            }
            Poll::Pending
        })
        .await
    }

    /// Starts the job on a thread of jobq's own; the answer comes when its body has returned.
    fn lend_thread(
        &self,
        entry: &'static JobEntry,
        ctx: JobContext,
    ) -> std::io::Result<oneshot::Receiver<Ending>> {
        let (tell, told) = oneshot::channel();
        let (data, keys) = (self.data.clone(), self.keys.clone());
        let body: Body = Box::pin(async move {
            let span = span_of(&ctx);
            let payload = match payload(entry, ctx.job(), keys.as_deref()) {
                Ok(payload) => payload,
                Err(ending) => return ending,
            };
            let mut body = match start(entry, &payload, &ctx, &data, &span) {
                Ok(body) => body,
                Err(ending) => return ending,
            };
            let ending = poll_fn(|cx| poll_quietly(&mut body, cx, &span, &ctx)).await;
            let _inside = inside(&ctx, &span);
            let _said = caught(|| drop(body));
            ending
        });
        let body = (self.scope)(body);
        let runtime = tokio::runtime::Handle::current();
        self.threads.run(Box::new(move || {
            let _inside = runtime.enter();
            // Nobody listens any more when the worker has stopped meanwhile.
            let _unheard = tell.send(block_on(body));
        }))?;
        Ok(told)
    }
}

/// Tells operators of an attempt that did not succeed.
fn tell(job: &Claimed, verdict: &Verdict, clock: &dyn Clock) {
    let Verdict::Fail { outcome, error, next } = verdict else { return };
    let Claimed { id, attempt, max_attempts, .. } = job;
    let job_type = &*job.job_type;
    match next {
        Next::At(at) => {
            let again_in = Duration::from_millis(at.saturating_sub(clock.now()).unsigned_abs());
            tracing::warn!(%id, job_type, attempt, max_attempts, ?again_in, error, "an attempt ended ({outcome}); the job runs again");
        }
        Next::AsBefore => {
            tracing::warn!(%id, job_type, attempt, max_attempts, error, "an attempt ended ({outcome}); the job runs again at once");
        }
        Next::Dead => {
            tracing::error!(%id, job_type, attempt, max_attempts, error, "an attempt ended ({outcome}); the job is dead")
        }
        Next::Cancelled => {
            tracing::info!(%id, job_type, attempt, error, "a running job was cancelled")
        }
    }
}

/// The time that an attempt has; its timer is made when it is first waited for, so a job that never waits pays none.
struct Limit<'a> {
    clock: &'a dyn Clock,
    after: Option<(Duration, Duration)>,
    timer: Option<Sleep<'a>>,
}

impl<'a> Limit<'a> {
    fn new(timeout: Timeout, clock: &'a dyn Clock) -> Self {
        let after = match timeout {
            Timeout::After(limit) => Some((limit, clock.steady().saturating_add(limit))),
            Timeout::Never => None,
        };
        Self { clock, after, timer: None }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Duration> {
        let Some((limit, until)) = self.after else {
            return Poll::Pending;
        };
        let timer = self.timer.get_or_insert_with(|| self.clock.sleep_until(until));
        timer.as_mut().poll(cx).map(|()| limit)
    }
}

/// The ending of `attempt`, also where something of the handler's panics outside its body, such as the drop of an error
/// that nobody wants any more: an attempt without an end would keep its slot for ever.
fn outlived(mut attempt: Pin<&mut impl Future<Output = Ending>>) -> impl Future<Output = Ending> {
    poll_fn(move |cx| {
        caught(|| attempt.as_mut().poll(cx)).unwrap_or_else(|panic| Poll::Ready(Ending::Panicked(panic)))
    })
}

/// An error after the worker's call to stop is the handler giving up, not failing: it costs no attempt.
fn given_up(ending: Ending, order: Order) -> Ending {
    match ending {
        Ending::Returned(Err(error)) if order >= Order::Cancel && error.class() == ErrorClass::Retry => {
            Ending::Stopped
        }
        ending => ending,
    }
}

/// What becomes of the attempt of a job that a person has cancelled: only success counts for anything else.
fn unwanted(ending: Ending) -> Ending {
    let text = match ending {
        Ending::Returned(Ok(_)) | Ending::TakenBack(_) | Ending::Forgotten => return ending,
        Ending::Returned(Err(error)) => {
            caught(|| error.to_string()).unwrap_or_else(|panic| format!("panicked: {panic}"))
        }
        Ending::Panicked(text) => format!("panicked: {text}"),
        Ending::TimedOut(after) => format!("timed out after {after:?}"),
        Ending::Undecodable(text) | Ending::NotStarted(text) | Ending::Lost(text) => text,
        Ending::Stopped | Ending::RolledBack => DROPPED.to_owned(),
    };
    Ending::TakenBack(text)
}

fn span_of(ctx: &JobContext) -> Span {
    let (job, _heard) = (ctx.job(), ctx.heard());
    tracing::info_span!("job", id = %job.id, job_type = &*job.job_type, attempt = job.attempt)
}

/// While what this gives is there, what is told is told by the job.
fn inside<'s>(ctx: &JobContext, span: &'s Span) -> impl Sized + use<'s> {
    (ctx.heard(), span.enter())
}

/// The payload with its secrets opened; a job without any pays nothing for it. An older version may have had some.
fn payload<'a>(
    entry: &JobEntry,
    job: &'a Claimed,
    keys: Option<&SecretKeys>,
) -> Result<Cow<'a, str>, Ending> {
    Known::of(entry, job.version)
        .opened(keys, &job.job_type, &job.payload)
        .map_err(|error| Ending::Undecodable(error.to_string()))
}

/// Decodes the payload and makes the handler's future.
fn start<'a>(
    entry: &'static JobEntry,
    payload: &'a str,
    ctx: &'a JobContext,
    data: &'a DataMap,
    span: &Span,
) -> Result<Attempting<'a>, Ending> {
    let _inside = inside(ctx, span);
    match caught(|| entry.start(ctx.job().version, payload, ctx, data)) {
        Ok(Ok(body)) => Ok(body),
        Ok(Err(error)) => Err(Ending::Undecodable(error.to_string())),
        Err(panic) => Err(Ending::Panicked(panic)),
    }
}

/// Polls a handler on a thread of the runtime, and says so when it held that thread for long.
fn poll_body(body: &mut Attempting<'_>, cx: &mut Context<'_>, span: &Span, ctx: &JobContext) -> Poll<Ending> {
    let begun = Instant::now();
    let polled = poll_quietly(body, cx, span, ctx);
    let held = begun.elapsed();
    if held >= LONG_POLL {
        let (id, job_type) = (ctx.id(), ctx.job_type());
        tracing::warn!(%id, job_type, ?held, "a job held a thread of the runtime without awaiting; mark its function `blocking`");
    }
    polled
}

fn poll_quietly(
    body: &mut Attempting<'_>,
    cx: &mut Context<'_>,
    span: &Span,
    ctx: &JobContext,
) -> Poll<Ending> {
    let _inside = inside(ctx, span);
    match caught(|| body.as_mut().poll(cx)) {
        Ok(Poll::Pending) => Poll::Pending,
        Ok(Poll::Ready(returned)) => Poll::Ready(Ending::Returned(returned)),
        Err(panic) => Poll::Ready(Ending::Panicked(panic)),
    }
}

/// What `act` gives, or the text of its panic.
pub(crate) fn caught<T>(act: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(act)).map_err(panic_text)
}

fn panic_text(panic: Box<dyn Any + Send>) -> String {
    let text = match panic.downcast::<String>() {
        Ok(text) => return *text,
        Err(panic) => match panic.downcast::<&'static str>() {
            Ok(text) => return (*text).to_owned(),
            Err(panic) => panic,
        },
    };
    // The value's own drop may panic again.
    let _again = catch_unwind(AssertUnwindSafe(|| drop(text)));
    "a value that is not text".to_owned()
}
