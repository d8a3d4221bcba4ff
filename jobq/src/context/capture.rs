//! Capturing: what running jobs tell `tracing` becomes lines of their output, by a layer of the application's subscriber.
//!
//! An event is a job's where its handler is polled on this thread, whatever spans the subscriber lets through; elsewhere,
//! as in a task that the job has spawned, where its span comes from the job's.

use super::{JobContext, Running};
use crate::job::LogLevel;
use std::{
    cell::RefCell,
    error::Error,
    fmt::{self, Debug, Write},
    iter, mem,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, Ordering},
    },
};
use tracing::{
    Event, Level, Metadata, Subscriber,
    field::{Field, Visit},
    level_filters::LevelFilter,
    span::{Attributes, Id},
};
use tracing_subscriber::{
    filter::FilterFn,
    layer::{Context, Layer},
    registry::LookupSpan,
};

/// Whether there ever was a layer: without one a poll costs a look at this.
static LISTENED: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// The job whose handler is polled on this thread.
    static POLLED: RefCell<Option<JobContext>> = const { RefCell::new(None) };
}

/// While it is there, what is told on this thread is told by a job; then by whom it was before.
pub(crate) struct Heard(Option<Option<JobContext>>);

impl JobContext {
    pub(crate) fn heard(&self) -> Heard {
        if !LISTENED.load(Ordering::Relaxed) {
            return Heard(None);
        }
        Heard(POLLED.try_with(|polled| polled.replace(Some(self.clone()))).ok())
    }
}

impl Drop for Heard {
    fn drop(&mut self) {
        if let Some(before) = self.0.take() {
            // Where the thread ends there is nothing to be put back.
            let ours = POLLED.try_with(|polled| mem::replace(&mut *polled.borrow_mut(), before));
            drop(ours);
        }
    }
}

fn polled() -> Option<JobContext> {
    POLLED.try_with(|polled| polled.borrow().clone()).ok().flatten()
}

/// A layer for the application's `tracing` subscriber that writes what jobs tell at INFO and above into their output,
/// as [`JobContext::log`] does: in its bounds, with time and level, as `the message key=value`.
///
/// It takes the events that a handler tells while it runs, on a thread of its own too, and those of tasks that it has
/// spawned with a span that comes from the job's: `tokio::spawn(work.instrument(Span::current()))`. Events of jobq itself,
/// and those that come after the attempt's end, are not in the output. It hides nothing from other layers; what a filter
/// of the whole subscriber leaves out, never comes here, so filter the others by `with_filter`.
///
/// ```
/// use tracing_subscriber::{filter::LevelFilter, prelude::*};
///
/// tracing_subscriber::registry()
///     .with(tracing_subscriber::fmt::layer().with_filter(LevelFilter::WARN))
///     .with(jobq::tracing_layer())
///     .init();
/// ```
pub fn tracing_layer<S>() -> impl Layer<S>
where
    S: Subscriber + for<'s> LookupSpan<'s>,
{
    tracing_layer_at(Level::INFO)
}

/// The same, for events of this level and above. A task's own span counts if it is of such a level too.
pub fn tracing_layer_at<S>(level: impl Into<LevelFilter>) -> impl Layer<S>
where
    S: Subscriber + for<'s> LookupSpan<'s>,
{
    LISTENED.store(true, Ordering::Relaxed);
    let level = level.into();
    // The job's own span is always seen.
    let most = level.max(LevelFilter::INFO);
    Capture.with_filter(FilterFn::new(move |told| wanted(told, level)).with_max_level_hint(most))
}

fn wanted(told: &Metadata<'_>, level: LevelFilter) -> bool {
    let ours =
        told.target().strip_prefix("jobq").is_some_and(|rest| rest.is_empty() || rest.starts_with("::"));
    if ours { told.is_span() && *told.level() <= Level::INFO } else { *told.level() <= level }
}

/// The attempt that a span belongs to.
struct Of(Weak<Running>);

struct Capture;

impl<S> Layer<S> for Capture
where
    S: Subscriber + for<'s> LookupSpan<'s>,
{
    fn on_new_span(&self, told: &Attributes<'_>, id: &Id, spans: Context<'_, S>) {
        let Some(span) = spans.span(id) else { return };
        let inherited = || Some(span.parent()?.extensions().get::<Of>()?.0.clone());
        let here = || polled().map(|ctx| Arc::downgrade(&ctx.0));
        let of = if told.is_contextual() { here().or_else(inherited) } else { inherited() };
        if let Some(of) = of {
            span.extensions_mut().insert(Of(of));
        }
    }

    fn on_event(&self, event: &Event<'_>, spans: Context<'_, S>) {
        let inherited = || {
            let span = spans.event_span(event)?;
            let of = span.extensions().get::<Of>()?.0.upgrade();
            of.map(JobContext)
        };
        let ctx = match event.is_contextual() {
            true => polled().or_else(inherited),
            false => inherited(),
        };
        // Nothing is borrowed or locked by now: a value's own Debug may tell something itself.
        if let Some(ctx) = ctx {
            ctx.log_at(LogLevel::from(*event.metadata().level()), Told(event));
        }
    }
}

/// An event as a line: its message, then its fields.
struct Told<'a>(&'a Event<'a>);

impl fmt::Display for Told<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for message in [true, false] {
            let mut line = Fields { to: f, message, said: Ok(()), begun: !message && has_message(self.0) };
            self.0.record(&mut line);
            line.said?;
        }
        Ok(())
    }
}

fn has_message(event: &Event<'_>) -> bool {
    event.fields().any(|field| field.name() == "message")
}

/// Writes the message, or all that is not.
struct Fields<'a, 'f> {
    to: &'a mut fmt::Formatter<'f>,
    message: bool,
    said: fmt::Result,
    begun: bool,
}

impl Fields<'_, '_> {
    fn write(&mut self, field: &Field, value: fmt::Arguments<'_>) {
        // Those are what `tracing-log` knows of a record of the `log` crate.
        if self.said.is_err()
            || field.name().starts_with("log.")
            || (field.name() == "message") != self.message
        {
            return;
        }
        self.said = if self.message { self.to.write_fmt(value) } else { self.write_pair(field, value) };
    }

    fn write_pair(&mut self, field: &Field, value: fmt::Arguments<'_>) -> fmt::Result {
        if mem::replace(&mut self.begun, true) {
            self.to.write_char(' ')?;
        }
        write!(self.to, "{}={value}", field.name())
    }
}

/// An error with its causes.
struct Causes<'a>(&'a (dyn Error + 'static));

impl fmt::Display for Causes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)?;
        // A chain could be a ring.
        let mut causes = iter::successors(self.0.source(), |&cause| cause.source()).take(16);
        causes.try_for_each(|cause| write!(f, ": {cause}"))
    }
}

impl Visit for Fields<'_, '_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.write(field, format_args!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        match self.message {
            true => self.write(field, format_args!("{value}")),
            false => self.write(field, format_args!("{value:?}")),
        }
    }

    fn record_error(&mut self, field: &Field, error: &(dyn Error + 'static)) {
        self.write(field, format_args!("{}", Causes(error)));
    }
}
