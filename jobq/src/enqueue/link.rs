//! Links: jobs to come, which follow from another's output in a flow.

use super::{EnqueueError, JobFn, Options};
use crate::{job::Job, queue::JobQueue, store::Link, time::Millis};
use std::marker::PhantomData;

/// A job to come, with options of its own: `fetch.enqueue(url).then(resize.link().queue("images"))`.
#[must_use = "a link is for `then`"]
pub struct JobLink<J> {
    pub(super) options: Options,
    job: PhantomData<fn() -> J>,
}

impl<J: Job> JobLink<J> {
    /// What is stored of it.
    pub(crate) fn stored(self, queue: &JobQueue, now: Millis, each: bool) -> Result<Link, EnqueueError> {
        let template = self.options.not_unique().template(J::TYPE, &J::DEFAULTS, queue, now)?;
        Ok(Link::of(template.bare(), now, each))
    }
}

/// Gives a job function a link with options.
pub trait LinkExt<Params>: JobFn<Params> {
    /// A link of this job, whose options can be set: see [`JobLink`].
    fn link(self) -> JobLink<Self::Job> {
        JobLink { options: Options::default(), job: PhantomData }
    }
}

impl<Params, F: JobFn<Params>> LinkExt<Params> for F {}

/// What can follow: a job function, or a [`JobLink`] of one. `Params` is always inferred.
#[diagnostic::on_unimplemented(
    message = "this can't follow in a flow",
    label = "a function with `#[job]` on it, or `.link()` of one, is expected here"
)]
pub trait Follows<Params> {
    /// The payload.
    type Job: Job;
    #[doc(hidden)]
    fn into_link(self) -> JobLink<Self::Job>;
}

impl<Params, F: JobFn<Params>> Follows<(Params,)> for F {
    type Job = F::Job;
    fn into_link(self) -> JobLink<F::Job> {
        self.link()
    }
}

impl<J: Job> Follows<()> for JobLink<J> {
    type Job = J;
    fn into_link(self) -> Self {
        self
    }
}
