//! Looking for jobs by a pattern, and the list of what was there instead.

use crate::{
    enqueue::CallJob,
    job::{Job, JobId, JobRow},
    queue::{JobQueue, QueueError, redacted},
    registry::{Known, Registry, decode},
    state::JobState,
    store::JobFilter,
    time::date,
};
use std::fmt::{self, Write};

/// Asserts that a job that matches the pattern waits or runs, and gives the oldest such one as a
/// [`Found`](crate::testing::Found): its payload and its row. For `async` tests: it awaits the queue's answer.
///
/// ```standalone_crate
/// # use jobq::{assert_enqueued, prelude::*, testing::*};
/// # #[job] async fn bill_in_macro_docs(user_id: u64, email: String) { let _ = (user_id, email); }
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// # let queue = TestQueue::new();
/// # bill_in_macro_docs.enqueue((42, "ada@example.org".into())).queue("mail").on(&queue).await.unwrap();
/// assert_enqueued!(queue, BillInMacroDocs { user_id: 42, .. });
/// let found = assert_enqueued!(queue, BillInMacroDocs { email, .. } if email.ends_with("example.org"));
/// assert_eq!(found.row.queue, "mail");
/// # }
/// ```
///
/// The queue is a [`TestQueue`](crate::testing::TestQueue) or a [`JobQueue`].
///
/// # Panics
/// Where there is none; the panic lists the jobs that are there, those of the same type first, each with its state and
/// payload.
#[macro_export]
macro_rules! assert_enqueued {
    ($queue:expr, $pattern:pat $(if $guard:expr)? $(,)?) => {
        match $crate::testing::seek(&$queue, |job| match job {
            $pattern $(if $guard)? => true,
            #[allow(unreachable_patterns)]
            _ => false,
        })
        .await
        {
            $crate::testing::Sought::There(found) => *found,
            $crate::testing::Sought::NotThere(list) => ::std::panic!(
                "no job that waits or runs matches `{}`\n{list}",
                ::std::stringify!($pattern $(if $guard)?),
            ),
        }
    };
}

/// Asserts that no job that matches the pattern waits or runs: the opposite of [`assert_enqueued!`](crate::assert_enqueued),
/// written in the same way.
///
/// # Panics
/// Where there is one; the panic lists the jobs that are there.
#[macro_export]
macro_rules! refute_enqueued {
    ($queue:expr, $pattern:pat $(if $guard:expr)? $(,)?) => {
        if let $crate::testing::Sought::There(found) = $crate::testing::seek(&$queue, |job| match job {
            $pattern $(if $guard)? => true,
            #[allow(unreachable_patterns)]
            _ => false,
        })
        .await
        {
            ::std::panic!(
                "a job matches `{}`: {found}",
                ::std::stringify!($pattern $(if $guard)?),
            )
        }
    };
}

/// A job that was looked for: its row and its payload.
#[derive(Clone)]
pub struct Found<J> {
    /// As it stands in the store.
    pub row: JobRow,
    /// Its payload.
    pub job: J,
}

impl<J> From<&Found<J>> for JobId {
    fn from(found: &Found<J>) -> Self {
        found.row.id
    }
}

impl<J: fmt::Debug> fmt::Debug for Found<J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Found").field("job", &self.job).field("row", &self.row).finish()
    }
}

/// As a line for people.
impl<J: fmt::Debug> fmt::Display for Found<J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        line(f, &self.row, &format_args!("{:?}", self.job))
    }
}

/// What a search came to.
#[doc(hidden)]
pub enum Sought<J> {
    There(Box<Found<J>>),
    /// What was there instead, as a list.
    NotThere(String),
}

/// The oldest job of type `J` that waits or runs and fits. Written by `assert_enqueued!`.
#[doc(hidden)]
pub async fn seek<J: CallJob + fmt::Debug>(queue: &JobQueue, fits: impl Fn(&J) -> bool) -> Sought<J> {
    let mut all = match all::<J>(queue).await {
        Ok(all) => all,
        Err(why) => return Sought::NotThere(why),
    };
    let there = |found: &Found<J>| !found.row.state.is_terminal() && fits(&found.job);
    match all.iter().position(there) {
        Some(place) => Sought::There(Box::new(all.swap_remove(place))),
        None => Sought::NotThere(match others::<J>(queue).await {
            Ok(others) => list(&all, &others),
            Err(error) => error.to_string(),
        }),
    }
}

/// All jobs of type `J`, oldest first; or why not, in words.
pub(super) async fn all<J: CallJob>(queue: &JobQueue) -> Result<Vec<Found<J>>, String> {
    let mut found = Vec::new();
    for name in names::<J>() {
        let rows =
            rows(queue, JobFilter::default().job_type(name)).await.map_err(|error| error.to_string())?;
        for row in rows {
            let job = decode(&row.payload).map_err(|why| format!("job {}: {why}", row.id))?;
            found.push(Found { row: redacted(row), job });
        }
    }
    found.sort_by_key(|found| found.row.id);
    Ok(found)
}

/// The names that rows of `J` carry.
fn names<J: Job>() -> Vec<&'static str> {
    let entry = Registry::linked().ok().and_then(|linked| linked.get(J::TYPE));
    entry.map_or_else(|| vec![J::TYPE], |entry| entry.names().collect())
}

async fn rows(queue: &JobQueue, filter: JobFilter) -> Result<Vec<JobRow>, QueueError> {
    let mut pages = queue.revealed_pages(filter.limit(1000));
    let mut rows = Vec::new();
    while let Some(page) = pages.next().await? {
        rows.extend(page);
    }
    Ok(rows)
}

/// Jobs of other types that wait or run, oldest first.
async fn others<J: Job>(queue: &JobQueue) -> Result<Vec<JobRow>, QueueError> {
    let own = names::<J>();
    let mut rows = rows(queue, JobFilter::default()).await?;
    rows.retain(|row| !row.state.is_terminal() && !own.contains(&row.job_type.as_str()));
    rows.reverse();
    Ok(rows)
}

/// Lines of a list at most, for each kind of job.
const MOST_LINES: usize = 20;

fn list<J: Job + fmt::Debug>(same: &[Found<J>], others: &[JobRow]) -> String {
    let mut text = String::new();
    match same.len() {
        0 => text += &format!("there is no job of type `{}`", J::TYPE),
        count => text += &format!("of type `{}` there are {count}:", J::TYPE),
    }
    for found in same.iter().take(MOST_LINES) {
        text += &format!("\n  {found}");
    }
    let cut = |text: &mut String, count: usize| {
        if count > MOST_LINES {
            *text += &format!("\n  … and {} more", count - MOST_LINES);
        }
    };
    cut(&mut text, same.len());
    if others.is_empty() {
        text += if same.is_empty() { ", nor of any other" } else { "" };
        return text;
    }
    text += &format!("\nof other types there are {}:", others.len());
    for row in others.iter().take(MOST_LINES) {
        text += "\n  ";
        let shown =
            format_args!("{} {}", row.job_type, Known::at(&row.job_type, row.version).redacted(&row.payload));
        // Writing into text never fails.
        let _written = line(&mut text, row, &shown);
    }
    cut(&mut text, others.len());
    text
}

/// `pending   SendMail { … }  queue mail  0192…`.
fn line(to: &mut impl Write, row: &JobRow, payload: &fmt::Arguments<'_>) -> fmt::Result {
    write!(to, "{:<9} {payload}", row.state)?;
    if row.state == JobState::Scheduled {
        write!(to, "  due {}", date(row.run_at))?;
    }
    if row.attempts > 0 {
        write!(to, "  attempts {} of {}", row.attempts, row.max_attempts)?;
    }
    if row.queue != "default" {
        write!(to, "  queue {}", row.queue)?;
    }
    if let Some(error) = &row.error {
        write!(to, "  error {error:?}")?;
    }
    write!(to, "  {}", row.id)
}
