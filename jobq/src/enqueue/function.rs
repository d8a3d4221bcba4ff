//! What a job function is: the function that returns a Call, and gets its `enqueue` from it.

use super::{Enqueue, EnqueueAll, Options};
use crate::{
    context::JobContext,
    job::{Job, JobError},
    registry::DataMap,
};
use std::{
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll},
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

/// A payload that knows its function: every payload that `#[job]` has written.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not the payload of a job function",
    label = "a payload that `#[job]` has written is expected here"
)]
pub trait CallJob: Job {
    /// The call of the function with this payload and what a worker lends.
    ///
    /// # Errors
    /// A value that a `#[data]` parameter asks for is not there.
    fn call<'a>(self, ctx: &'a JobContext, lent: &'a DataMap) -> Result<Call<'a, Self>, JobError>;
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
    fn enqueue(self, args: <Self::Job as Job>::Args) -> Enqueue<'static, Self::Job> {
        Enqueue::new(Self::Job::from_args(args))
    }

    /// Starts to enqueue many jobs of this function, one for each `args`, in the order given; awaiting the builder
    /// stores them: `thumbnail.enqueue_all([("a.png".into(), 128), ("b.png".into(), 128)]).await?`.
    ///
    /// Payloads with named fields are enqueued by [`JobQueue::enqueue_all`](crate::queue::JobQueue::enqueue_all).
    fn enqueue_all(
        self,
        args: impl IntoIterator<Item = <Self::Job as Job>::Args>,
    ) -> EnqueueAll<'static, Self::Job> {
        EnqueueAll::new(args.into_iter().map(Self::Job::from_args).collect(), Options::default())
    }
}

/// The same for a payload with named fields: `SendWelcomeEmail { user_id, email }.enqueue().await?`.
pub trait EnqueueExt: Job {
    /// Starts to enqueue this job; awaiting the builder stores it.
    fn enqueue(self) -> Enqueue<'static, Self> {
        Enqueue::new(self)
    }
}

impl<J: Job> EnqueueExt for J {}

/// One job function, `send_welcome_email`, or up to 16 as a tuple: `(send_welcome_email, convert_webp)`.
///
/// `Params` are their parameters; it is always inferred.
#[diagnostic::on_unimplemented(
    message = "these are not job functions",
    label = "one job function, or a tuple of up to 16, is expected here",
    note = "write the names of functions with `#[job]` on them: `send_mail`, or `(send_mail, convert_webp)`"
)]
pub trait JobSet<Params> {
    /// Their stored names, in the order given.
    fn job_types(&self) -> Vec<&'static str>;
}

/// `fn(P)` only tells the parameters of one function from those of a tuple.
#[diagnostic::do_not_recommend]
impl<F: JobFn<P>, P> JobSet<fn(P)> for F {
    fn job_types(&self) -> Vec<&'static str> {
        vec![F::Job::TYPE]
    }
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
        #[diagnostic::do_not_recommend]
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
