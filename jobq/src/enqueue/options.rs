//! What an enqueue may say beyond the job itself, the same on every builder, and whether it can be said.

#[cfg(feature = "cron")]
mod stored;

use super::{Enqueue, EnqueueAll, EnqueueError, EnqueueRaw};
use crate::{
    job::{
        Defaults, Job, MAX_LABEL, MAX_PAYLOAD, NewJob, Timeout, Unique, UniqueKey, UniqueRule,
        unique::{canonical, shortened},
    },
    queue::{JobQueue, NoQueue, check_queue_name},
    registry::{Checked, Known, encode, quiet},
    retry::Backoff,
    time::{Millis, millis, whole_millis},
};
use chrono::{DateTime, Utc};
use std::{borrow::Cow, sync::Arc, time::Duration};

/// What an enqueue says beyond the job itself; `None`: as the job type, then the queue, says.
#[derive(Clone, Debug, Default)]
pub(crate) struct Options {
    priority: Option<i16>,
    max_attempts: Option<u32>,
    queue: Option<Cow<'static, str>>,
    timeout: Option<Timeout>,
    backoff: Option<Backoff>,
    retain: Option<Duration>,
    label: Option<String>,
    due: Option<Due>,
    unique: Wish,
    concurrency_key: Option<String>,
    on: Option<JobQueue>,
}

/// What an enqueue says of a unique key.
#[derive(Clone, Debug, Default)]
enum Wish {
    #[default]
    AsType,
    Key(String),
    This(Unique),
    None,
}

impl Wish {
    fn of(unique: Option<Unique>) -> Self {
        unique.map_or(Self::None, Self::This)
    }

    /// This key, by the rules that were said before, or else by those of the type.
    fn with_key(self, key: String) -> Self {
        match self {
            Self::This(unique) => Self::This(Unique { key: Some(key), ..unique }),
            Self::AsType | Self::Key(_) | Self::None => Self::Key(key),
        }
    }

    /// Where the key comes from, and its rules.
    fn settle(self, of_type: Option<UniqueRule>) -> Option<(KeyFrom, UniqueRule)> {
        match self {
            Self::AsType => of_type.map(|rule| (KeyFrom::Job, rule)),
            Self::Key(key) => Some((KeyFrom::Given(key), of_type.unwrap_or(UniqueRule::DEFAULT))),
            Self::This(Unique { key, rule }) => Some((key.map_or(KeyFrom::Payload, KeyFrom::Given), rule)),
            Self::None => None,
        }
    }
}

/// Where a job's unique key comes from.
#[derive(Clone, Debug)]
enum KeyFrom {
    Given(String),
    /// The attribute's key, or the whole payload where it names none.
    Job,
    Payload,
}

/// What is made of a payload beside its JSON.
pub(super) trait Made {
    fn label(&self) -> Option<String>;
    fn unique_key(&self) -> Option<String>;
    fn concurrency_key(&self) -> Option<String>;
}

impl<J: Job> Made for &J {
    fn label(&self) -> Option<String> {
        J::label(self)
    }
    fn unique_key(&self) -> Option<String> {
        J::unique_key(self)
    }
    fn concurrency_key(&self) -> Option<String> {
        J::concurrency_key(self)
    }
}

impl Made for &Checked {
    fn label(&self) -> Option<String> {
        self.label.clone()
    }
    fn unique_key(&self) -> Option<String> {
        self.unique_key.clone()
    }
    fn concurrency_key(&self) -> Option<String> {
        self.concurrency_key.clone()
    }
}

/// A job with everything but what comes from its payload.
#[derive(Clone, Debug)]
pub(super) struct Template {
    new: NewJob,
    unique: Option<(KeyFrom, UniqueRule)>,
}

impl Template {
    /// The job without what comes from its payload.
    pub(super) fn bare(self) -> NewJob {
        self.new
    }

    /// The job with this payload, and what is made of that. `normal`: the payload as this build writes it, if it differs.
    pub(super) fn filled(
        &self,
        payload: String,
        made: impl Made,
        normal: Option<&str>,
    ) -> Result<NewJob, EnqueueError> {
        let mut new = self.new.clone();
        new.label = new.label.or_else(|| made.label().map(cut_label));
        let turn = new.concurrency_key.or_else(|| made.concurrency_key());
        new.concurrency_key = turn.map(|key| shortened(&key));
        if let Some((from, rule)) = &self.unique {
            let key = match from {
                KeyFrom::Given(key) => key.clone(),
                KeyFrom::Job => made
                    .unique_key()
                    .map_or_else(|| whole_key(&new.job_type, normal.unwrap_or(&payload)), Ok)?,
                KeyFrom::Payload => whole_key(&new.job_type, normal.unwrap_or(&payload))?,
            };
            if key.is_empty() {
                return Err(EnqueueError::BadUnique("it is empty, which all jobs would share".into()));
            }
            new.unique = Some(Box::new(UniqueKey::new(&key, rule, &new.job_type, &new.queue)));
        }
        new.payload = payload;
        Ok(new)
    }
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
            /// Larger runs first; any `i16`.
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

            /// How long the row is kept once the job is completed or cancelled.
            pub fn retain(mut self, retain: Duration) -> Self {
                self.options.retain = Some(retain);
                self
            }

            /// A title for people; cut at 255 characters.
            pub fn label(mut self, label: impl Into<String>) -> Self {
                self.options.label = Some(label.into());
                self
            }
        }
    )* };
}

/// And what a schedule can't say of the jobs that it will enqueue.
macro_rules! options_of_now {
    ($([$($generics:tt)*] $builder:ty;)*) => { $(
        impl<$($generics)*> $builder {
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

            /// Unique by this key, and else as the job type says: see [`Unique`].
            pub fn unique_key(mut self, key: impl Into<String>) -> Self {
                self.options.unique = self.options.unique.with_key(key.into());
                self
            }

            /// Unique so, whatever the job type says; `None`: not unique.
            pub fn unique(mut self, unique: impl Into<Option<Unique>>) -> Self {
                self.options.unique = Wish::of(unique.into());
                self
            }

            /// Whose turn the job takes, where its type is limited for each key, whatever the attribute says. It is up to
            /// 255 bytes; of a longer one its beginning and its SHA-256 are stored.
            pub fn concurrency_key(mut self, key: impl Into<String>) -> Self {
                self.options.concurrency_key = Some(key.into());
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
    ['t, J: Job] Enqueue<'t, J>;
    ['t, J: Job] EnqueueAll<'t, J>;
    ['t] EnqueueRaw<'t>;
}
options! {
    [J: Job] super::JobLink<J>;
}
#[cfg(feature = "cron")]
options! {
    [] super::Schedule;
}
options_of_now! {
    ['t, J: Job] Enqueue<'t, J>;
    ['t, J: Job] EnqueueAll<'t, J>;
    ['t] EnqueueRaw<'t>;
}

impl Options {
    pub(crate) fn on(queue: &JobQueue) -> Self {
        Self { on: Some(queue.clone()), ..Self::default() }
    }

    /// Not even where the type is.
    pub(super) fn not_unique(self) -> Self {
        Self { unique: Wish::None, ..self }
    }

    /// The queue that was named, which is taken out.
    pub(crate) fn named(&mut self) -> Option<JobQueue> {
        self.on.take()
    }

    /// For builders of rooms above: what all of their jobs have in common.
    pub(crate) fn set_priority(&mut self, priority: i16) {
        self.priority = Some(priority);
    }

    pub(crate) fn set_delay(&mut self, delay: Duration) {
        self.due = Some(Due::After(delay));
    }

    pub(crate) fn set_run_at(&mut self, at: DateTime<Utc>) {
        self.due = Some(Due::At(whole_millis(at)));
    }

    pub(crate) fn set_on(&mut self, queue: &JobQueue) {
        self.on = Some(queue.clone());
    }

    /// The queue that is meant; asked once.
    pub(crate) fn target(&mut self) -> Result<JobQueue, NoQueue> {
        self.on.take().map_or_else(JobQueue::current, Ok)
    }

    /// A job of this type with everything but its own payload and label, checked.
    pub(super) fn template(
        self,
        job_type: &'static str,
        defaults: &Defaults,
        queue: &JobQueue,
        now: Millis,
    ) -> Result<Template, EnqueueError> {
        self.template_of(job_type, defaults, queue.default_max_attempts(), now)
    }

    /// The same, where all that is known of the queue is the `max_attempts` of a type that sets none.
    pub(super) fn template_of(
        self,
        job_type: &'static str,
        defaults: &Defaults,
        default_max_attempts: u32,
        now: Millis,
    ) -> Result<Template, EnqueueError> {
        let name = self.queue.unwrap_or(Cow::Borrowed(defaults.queue));
        check_queue_name(&name)?;
        let max_attempts = self.max_attempts.or(defaults.max_attempts);
        let timeout = self.timeout.or(defaults.timeout);
        if max_attempts == Some(0) {
            return Err(EnqueueError::NoAttempts);
        }
        if timeout == Some(Timeout::After(Duration::ZERO)) {
            return Err(EnqueueError::NoTime);
        }
        self.backoff.map_or(Ok(()), check_backoff)?;
        let unique = self.unique.settle(defaults.unique);
        if let Some(why) = unique.as_ref().and_then(|(_, rule)| rule.fault()) {
            return Err(EnqueueError::BadUnique(why.into()));
        }
        let quiet = unique.as_ref().and_then(|(_, rule)| rule.debounce).map(Due::After);
        let new = NewJob {
            job_type: Cow::Borrowed(job_type),
            queue: name,
            payload: String::new(),
            priority: self.priority.unwrap_or(defaults.priority),
            run_at: self.due.or(quiet).map(|due| due.instant(now)),
            max_attempts: max_attempts.unwrap_or(default_max_attempts),
            timeout,
            backoff: self.backoff,
            label: self.label.map(cut_label),
            retain: self.retain.or(defaults.retain),
            unique: None,
            version: defaults.version,
            concurrency_key: self.concurrency_key,
        };
        Ok(Template { new, unique })
    }
}

impl Due {
    /// Never before what was asked: parts of a millisecond are rounded up, and what is out of range is "never".
    fn instant(self, now: Millis) -> Millis {
        match self {
            Self::At(at) => at,
            Self::After(delay) => {
                now.saturating_add(millis(delay.saturating_add(Duration::from_nanos(999_999))))
            }
        }
    }
}

/// A key of the whole payload.
fn whole_key(job_type: &str, payload: &str) -> Result<String, EnqueueError> {
    match Known::own(job_type).redacted(payload) {
        Cow::Borrowed(payload) => Ok(canonical(payload)),
        Cow::Owned(_) => {
            let why =
                "it would be made of the whole payload, and show its secrets; name one with `Unique::key(…)`";
            Err(EnqueueError::BadUnique(why.into()))
        }
    }
}

/// The template, filled with this payload and, unless the enqueue gave one, its label.
pub(super) fn fill<J: Job>(template: &Template, job: &J) -> Result<NewJob, EnqueueError> {
    let written = encode(job)
        .map_err(|why| EnqueueError::Unwritable { job_type: J::TYPE, why: Arc::new(quiet::<J>(why)) });
    let payload = checked_size(J::TYPE, written?)?;
    check_nulls::<J>(&payload)?;
    template.filled(payload, job, None)
}

/// serde writes a number that JSON does not have, such as NaN, as `null`: no attempt could read that job.
fn check_nulls<J: Job>(payload: &str) -> Result<(), EnqueueError> {
    if !payload.contains("null") {
        return Ok(());
    }
    match serde_json::from_str::<J>(payload) {
        Ok(_) => Ok(()),
        Err(why) => Err(EnqueueError::Unreadable { job_type: J::TYPE, why: Arc::new(quiet::<J>(why)) }),
    }
}

pub(super) fn checked_size(job_type: &'static str, payload: String) -> Result<String, EnqueueError> {
    match payload.len() {
        bytes if bytes > MAX_PAYLOAD => Err(EnqueueError::TooLarge { job_type, bytes }),
        _ => Ok(payload),
    }
}

/// At most [`MAX_LABEL`] characters; a cut is marked.
fn cut_label(label: String) -> String {
    let whole = if label.contains('\0') { label.replace('\0', "\u{fffd}") } else { label };
    match whole.char_indices().nth(MAX_LABEL) {
        None => whole,
        Some(_) => whole.chars().take(MAX_LABEL - 1).chain(['…']).collect(),
    }
}

/// Numbers that JSON can't hold, or that mean nothing, would make a row that can't be read back.
fn check_backoff(backoff: Backoff) -> Result<(), EnqueueError> {
    let (factor, jitter) = match backoff {
        Backoff::Exponential { factor, jitter, .. } => (factor, jitter),
        Backoff::Fixed { jitter, .. } => (1.0, jitter),
    };
    if !(factor.is_finite() && factor >= 1.0) {
        return Err(EnqueueError::BadBackoff(format!("its factor is {factor}; it must be at least 1")));
    }
    if !(0.0..=1.0).contains(&jitter) {
        return Err(EnqueueError::BadBackoff(format!("its jitter is {jitter}; it must be from 0 to 1")));
    }
    Ok(())
}
