//! The Enqueue builder, JobHandle, and JobFn: how a job function gets its `enqueue`.

use crate::{
    job::{Job, Timeout},
    queue::JobQueue,
    retry::Backoff,
    store::Tx,
    time::Millis,
};
use chrono::{DateTime, Utc};
use std::{
    borrow::Cow,
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

/// What calling a job function gives: the future of its written return type.
///
/// Awaiting it runs the body here and now, as of any async function; nothing is stored. To have it stored and run by a
/// worker, enqueue the function instead: [`JobFn::enqueue`].
#[must_use = "a job function does nothing until it is awaited; to run it in the background, `enqueue` it"]
pub struct Call<'a, J: Job>(Pin<Box<dyn Future<Output = J::Return> + Send + 'a>>);

impl<'a, J: Job> Call<'a, J> {
    /// The call that runs this future. Written by `#[job]`.
    pub fn new(body: Pin<Box<dyn Future<Output = J::Return> + Send + 'a>>) -> Self {
        Self(body)
    }
}

impl<J: Job> Future for Call<'_, J> {
    type Output = J::Return;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<J::Return> {
        self.0.as_mut().poll(cx)
    }
}

impl<J: Job> fmt::Debug for Call<'_, J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Call({})", J::TYPE)
    }
}

/// Every function that returns a [`Call`]: the functions that `#[job]` was put on, and no others.
///
/// `Params` are all its parameters, context and data included; it is always inferred.
#[diagnostic::on_unimplemented(
    message = "this is not a job function",
    label = "a function with `#[job]` on it is expected here"
)]
pub trait JobFn<Params>: Sized {
    /// The payload.
    type Job: Job;

    /// Starts to enqueue a job of this function; awaiting the builder stores it.
    ///
    /// `args` are the payload parameters: `()` for none, the bare value for one, a tuple for more.
    fn enqueue(self, args: <Self::Job as Job>::Args) -> Enqueue<Self::Job> {
        Enqueue::new(Self::Job::from_args(args))
    }
}

/// The same for a payload with named fields: `SendWelcomeEmail { user_id, email }.enqueue().await?`.
pub trait EnqueueExt: Job {
    /// Starts to enqueue this job; awaiting the builder stores it.
    fn enqueue(self) -> Enqueue<Self> {
        Enqueue::new(self)
    }
}

impl<J: Job> EnqueueExt for J {}

/// Job functions as a tuple, `(send_welcome_email, convert_webp)`, up to 16 of them.
pub trait JobSet<Params> {
    /// Their stored names, in the order given.
    fn job_types(&self) -> Vec<&'static str>;
}

macro_rules! job_fn {
    ($($($param:ident)*;)*) => { $(
        impl<'a, F, J: Job, $($param),*> JobFn<($($param,)*)> for F
        where
            F: Fn($($param),*) -> Call<'a, J>,
        {
            type Job = J;
        }
    )* };
}

macro_rules! job_set {
    ($($($set:ident $params:ident)*;)*) => { $(
        impl<$($set: JobFn<$params>, $params),*> JobSet<($($params,)*)> for ($($set,)*) {
            fn job_types(&self) -> Vec<&'static str> {
                vec![$(<$set::Job as Job>::TYPE),*]
            }
        }
    )* };
}

job_fn! {
    ;
    A;
    A B;
    A B C;
    A B C D;
    A B C D E;
    A B C D E G;
    A B C D E G H;
    A B C D E G H I;
    A B C D E G H I K;
    A B C D E G H I K L;
    A B C D E G H I K L M;
    A B C D E G H I K L M N;
    A B C D E G H I K L M N O;
    A B C D E G H I K L M N O P;
    A B C D E G H I K L M N O P Q;
    A B C D E G H I K L M N O P Q R;
}

job_set! {
    A P1;
    A P1 B P2;
    A P1 B P2 C P3;
    A P1 B P2 C P3 D P4;
    A P1 B P2 C P3 D P4 E P5;
    A P1 B P2 C P3 D P4 E P5 F P6;
    A P1 B P2 C P3 D P4 E P5 F P6 G P7;
    A P1 B P2 C P3 D P4 E P5 F P6 G P7 H P8;
    A P1 B P2 C P3 D P4 E P5 F P6 G P7 H P8 I P9;
    A P1 B P2 C P3 D P4 E P5 F P6 G P7 H P8 I P9 J P10;
    A P1 B P2 C P3 D P4 E P5 F P6 G P7 H P8 I P9 J P10 K P11;
    A P1 B P2 C P3 D P4 E P5 F P6 G P7 H P8 I P9 J P10 K P11 L P12;
    A P1 B P2 C P3 D P4 E P5 F P6 G P7 H P8 I P9 J P10 K P11 L P12 M P13;
    A P1 B P2 C P3 D P4 E P5 F P6 G P7 H P8 I P9 J P10 K P11 L P12 M P13 N P14;
    A P1 B P2 C P3 D P4 E P5 F P6 G P7 H P8 I P9 J P10 K P11 L P12 M P13 N P14 O P15;
    A P1 B P2 C P3 D P4 E P5 F P6 G P7 H P8 I P9 J P10 K P11 L P12 M P13 N P14 O P15 P P16;
}

/// A job on its way into a queue. Awaiting it stores the job; dropping it stores nothing.
///
/// `T` is where it commits: `()` in a commit of its own, [`Tx`] after [`in_tx`](Self::in_tx).
#[must_use = "an enqueue does nothing until it is awaited"]
pub struct Enqueue<J: Job, T = ()> {
    job: J,
    options: Options,
    tx: T,
}

impl<J: Job> Enqueue<J> {
    pub(crate) fn new(job: J) -> Self {
        Self { job, options: Options::default(), tx: () }
    }

    /// Enqueues inside the caller's own transaction on the same database: the job is there when it commits, and never
    /// there when it does not.
    pub fn in_tx<'t>(self, tx: impl Into<Tx<'t>>) -> Enqueue<J, Tx<'t>> {
        Enqueue { job: self.job, options: self.options, tx: tx.into() }
    }
}

/// What an enqueue says beyond the job itself; `None`: as the job type, then the queue, says.
#[derive(Clone, Debug, Default)]
struct Options {
    priority: Option<i16>,
    max_attempts: Option<u32>,
    queue: Option<Cow<'static, str>>,
    timeout: Option<Timeout>,
    backoff: Option<Backoff>,
    retain: Option<Duration>,
    label: Option<String>,
    due: Option<Due>,
    on: Option<JobQueue>,
}

#[derive(Clone, Copy, Debug)]
enum Due {
    After(Duration),
    At(Millis),
}

/// The options are the same on every builder.
macro_rules! options {
    ($([$($generics:tt)*] $builder:ty;)*) => { $(
        impl<$($generics)*> $builder {
            /// Larger runs first; −32,768 to 32,767.
            pub fn priority(mut self, priority: i16) -> Self {
                self.options.priority = Some(priority);
                self
            }

            /// Counted starts at most, the first included; at least 1.
            pub fn max_attempts(mut self, max_attempts: u32) -> Self {
                self.options.max_attempts = Some(max_attempts);
                self
            }

            /// The named lane of work, such as `mail`; at most 64 bytes.
            pub fn queue(mut self, name: impl Into<Cow<'static, str>>) -> Self {
                self.options.queue = Some(name.into());
                self
            }

            /// How long one attempt may take: a duration above zero, or [`Timeout::Never`].
            pub fn timeout(mut self, timeout: impl Into<Timeout>) -> Self {
                self.options.timeout = Some(timeout.into());
                self
            }

            /// The wait between attempts, after every kind of failure.
            pub fn backoff(mut self, backoff: Backoff) -> Self {
                self.options.backoff = Some(backoff);
                self
            }

            /// How long the row is kept once the job has ended.
            pub fn retain(mut self, retain: Duration) -> Self {
                self.options.retain = Some(retain);
                self
            }

            /// A title for people; cut at 255 characters.
            pub fn label(mut self, label: impl Into<String>) -> Self {
                self.options.label = Some(label.into());
                self
            }

            /// Not before this long after the enqueue, by the queue's clock. The last of `delay` and `run_at` holds.
            pub fn delay(mut self, delay: Duration) -> Self {
                self.options.due = Some(Due::After(delay));
                self
            }

            /// Not before this instant; one in the past means now.
            pub fn run_at(mut self, at: DateTime<Utc>) -> Self {
                self.options.due = Some(Due::At(whole_millis(at)));
                self
            }

            /// The queue to enqueue in, whatever is installed or in scope.
            pub fn on(mut self, queue: &JobQueue) -> Self {
                self.options.on = Some(queue.clone());
                self
            }
        }
    )* };
}

options! {
    [J: Job, T] Enqueue<J, T>;
}

/// The first whole millisecond that is not before `at`.
fn whole_millis(at: DateTime<Utc>) -> Millis {
    at.timestamp_millis().saturating_add(Millis::from(at.timestamp_subsec_nanos() % 1_000_000 != 0))
}
