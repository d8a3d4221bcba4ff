//! Unique keys: what makes two jobs one, which states hold a key and how long, and what becomes of the second job.

use crate::{
    state::{JobState, StateSet},
    time::Millis,
};
use serde::Serialize;
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};
use std::{collections::BTreeMap, fmt::Write, time::Duration};

/// The longest unique key that is stored as it is, in bytes; of a longer one its beginning and its SHA-256 are.
pub const MAX_KEY: usize = 255;

/// What makes a job unique, for one enqueue: `.unique(Unique::key("welcome:42").within(hours(1)))`.
///
/// Without anything said, a key is a job type's own, held until the job has finished, and a second job of it is not
/// stored: the first one is the answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unique {
    pub(crate) key: Option<String>,
    pub(crate) rule: UniqueRule,
}

impl Unique {
    /// Unique by this key.
    pub fn key(key: impl Into<String>) -> Self {
        Self { key: Some(key.into()), rule: UniqueRule::DEFAULT }
    }

    /// Unique by the whole payload: its JSON, whatever the order of an object's members; a member that is `null` is as
    /// if it were not there.
    pub fn payload() -> Self {
        Self { key: None, rule: UniqueRule::DEFAULT }
    }

    /// Holds the key at least this long from the enqueue, also when the job has completed meanwhile; more than zero.
    /// A dead, a cancelled and a deleted job do not hold it: what they were to do was not done, or is not known any more.
    pub fn within(mut self, window: Duration) -> Self {
        self.rule.within = Some(window);
        self
    }

    /// Until when the job holds its key. The last of `until` and [`states`](Self::states) holds.
    pub fn until(mut self, until: Until) -> Self {
        self.rule.states = until.states();
        self
    }

    /// In which states the job holds its key, beside `scheduled` and `pending`, in which every job does.
    pub fn states(mut self, states: impl IntoIterator<Item = JobState>) -> Self {
        let states: Vec<_> = states.into_iter().collect();
        self.rule.states = Until::Started.states().and(StateSet::of(&states));
        self
    }

    /// Among which jobs the key tells jobs apart.
    pub fn scope(mut self, scope: KeyScope) -> Self {
        self.rule.scope = scope;
        self
    }

    /// What becomes of a job whose key another one holds.
    pub fn on_conflict(mut self, on_conflict: OnConflict) -> Self {
        self.rule.on_conflict = on_conflict;
        self
    }

    /// Waits until this long has passed without another enqueue of the key: each one begins the wait anew, and the last
    /// payload is the one that runs. It is `until(Until::Started)`, a delay, and a replace of payload and `run_at`.
    pub fn debounce(mut self, quiet: Duration) -> Self {
        self.rule = UniqueRule { debounce: Some(quiet), ..self.rule }.settled();
        self
    }
}

/// What a job type sets for its unique keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UniqueRule {
    /// The key is held at least this long from the enqueue.
    pub within: Option<Duration>,
    /// The states in which it is held.
    pub states: StateSet,
    /// Among which jobs it tells jobs apart.
    pub scope: KeyScope,
    /// What becomes of a job whose key another one holds.
    pub on_conflict: OnConflict,
    /// The delay that each enqueue of the key begins anew.
    pub debounce: Option<Duration>,
}

impl UniqueRule {
    /// Of a job type, until finished, and the first job stays.
    pub const DEFAULT: Self = Self {
        within: None,
        states: Until::Finished.states(),
        scope: KeyScope::JobType,
        on_conflict: OnConflict::Keep,
        debounce: None,
    };

    /// What a debounce stands for.
    const fn settled(mut self) -> Self {
        if self.debounce.is_some() {
            self.states = Until::Started.states();
            self.on_conflict = OnConflict::Replace(Fields::of(&[JobField::Payload, JobField::RunAt]));
        }
        self
    }

    /// Debounced: see [`Unique::debounce`]. Written by `#[job]`.
    pub const fn debounced(mut self, quiet: Duration) -> Self {
        self.debounce = Some(quiet);
        self.settled()
    }

    /// What is wrong with it, in words.
    pub(crate) fn fault(&self) -> Option<&'static str> {
        let zero = Some(Duration::ZERO);
        if self.within == zero {
            return Some("its window is zero; leave `within` out for a key that is held by states alone");
        }
        if self.debounce == zero {
            return Some("its debounce is zero; `on_conflict` alone replaces without a wait");
        }
        if self.debounce.is_some() && self.within.is_some() {
            return Some(
                "it has a debounce and a window, which would keep out the last payload; leave `within` out",
            );
        }
        match self.on_conflict {
            OnConflict::Replace(fields) if fields == Fields::NONE => {
                Some("it replaces nothing; `OnConflict::Keep` keeps the first job as it is")
            }
            _ => None,
        }
    }
}

/// Until when a job holds its unique key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Until {
    /// While it waits: a running job does not hold it. A job that waits for another attempt holds it again, unless
    /// somebody else has taken it meanwhile.
    Started,
    /// While it waits or runs, also between attempts: completed, dead and cancelled jobs do not hold it.
    Finished,
    /// As `Finished`, and a dead job holds it too, until a person retries or deletes it.
    Succeeded,
    /// As long as its row is there.
    Deleted,
}

impl Until {
    /// The states in which the key is held.
    pub const fn states(self) -> StateSet {
        use JobState::{Dead, Pending, Running, Scheduled};
        match self {
            Self::Started => StateSet::of(&[Scheduled, Pending]),
            Self::Finished => StateSet::of(&[Scheduled, Pending, Running]),
            Self::Succeeded => StateSet::of(&[Scheduled, Pending, Running, Dead]),
            Self::Deleted => StateSet::of(&JobState::ALL),
        }
    }
}

/// Among which jobs a unique key tells jobs apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KeyScope {
    /// Those of one type, in whatever queue.
    JobType,
    /// Those of one type in one queue.
    Queue,
    /// All of a store.
    Global,
}

impl KeyScope {
    /// As it is stored: no name has a line break in it.
    pub(crate) fn stored(self, job_type: &str, queue: &str) -> String {
        match self {
            Self::JobType => job_type.to_owned(),
            Self::Queue => format!("{job_type}\n{queue}"),
            Self::Global => String::new(),
        }
    }
}

/// What becomes of a job whose unique key another one holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OnConflict {
    /// It is not stored; the one that is there is the answer.
    Keep,
    /// It is not stored; where the one that is there waits to run, it takes these fields over. One that runs or has
    /// ended, or is of another type, stays as it is.
    Replace(Fields),
    /// The enqueue is an error, which names the one that is there; nothing is stored.
    Reject,
}

impl OnConflict {
    /// Replaces all that can be replaced of a job that waits.
    pub const fn replace_all() -> Self {
        Self::Replace(Fields::ALL)
    }

    /// Replaces these fields of a job that waits.
    pub const fn replace(fields: &[JobField]) -> Self {
        Self::Replace(Fields::of(fields))
    }
}

/// What one job can take over from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum JobField {
    /// The payload, and with it the label, which tells of it.
    Payload,
    /// When it is due.
    RunAt,
    /// The priority.
    Priority,
    /// The queue.
    Queue,
    /// Attempts at most; never fewer than let it run once more.
    MaxAttempts,
    /// The label alone.
    Label,
    /// The time-out of an attempt.
    Timeout,
    /// The wait between attempts.
    Backoff,
    /// How long it is kept.
    Retain,
}

/// Some of the fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fields(u16);

impl Fields {
    /// None of them.
    pub(crate) const NONE: Self = Self(0);
    /// All of them.
    pub const ALL: Self = Self((1 << 9) - 1);

    /// These.
    pub const fn of(fields: &[JobField]) -> Self {
        let (mut bits, mut at) = (0, 0);
        while at < fields.len() {
            bits |= 1 << fields[at] as u16;
            at += 1;
        }
        Self(bits)
    }

    /// As `replace.sql` reads them: bit n is the n-th of [`JobField`].
    pub(crate) fn bits(self) -> i64 {
        self.0.into()
    }

    /// Whether this one is among them; the payload brings its label.
    pub fn contains(self, field: JobField) -> bool {
        let has = |field: JobField| self.0 & (1 << field as u16) != 0;
        has(field) || (matches!(field, JobField::Label) && has(JobField::Payload))
    }
}

/// The unique key of a job on its way into a store; everything but the time is settled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UniqueKey {
    /// The key, at most [`MAX_KEY`] bytes.
    pub key: String,
    /// Among which jobs it tells jobs apart: jobs of another scope never meet it.
    pub scope: String,
    /// In which states it is held; `scheduled` and `pending` are always among them.
    pub states: StateSet,
    /// It is held at least this long from the enqueue, also by a completed job.
    pub within: Option<Duration>,
    /// What becomes of the job if another one holds the key.
    pub on_conflict: OnConflict,
}

impl UniqueKey {
    /// This key by this rule, for a job of this type in this queue.
    pub(crate) fn new(key: &str, rule: &UniqueRule, job_type: &str, queue: &str) -> Self {
        let UniqueRule { within, states, scope, on_conflict, .. } = *rule;
        Self { key: shortened(key), scope: scope.stored(job_type, queue), states, within, on_conflict }
    }
}

/// The unique key of a stored job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UniqueRow {
    /// The key.
    pub key: String,
    /// Among which jobs it tells jobs apart: the job type, the type and the queue on two lines, or nothing for all jobs.
    pub scope: String,
    /// In which states the job holds it; none where another job had taken it when this one was to hold it again.
    pub states: StateSet,
    /// Until when a completed job holds it too; `None` where it has no such window, or somebody has taken the key since.
    #[serde(serialize_with = "super::rfc3339_option")]
    pub window_ends_at: Option<Millis>,
}

impl UniqueRow {
    /// Whether a job in this state holds the key: nobody else can have it.
    pub(crate) fn is_held(&self, state: JobState) -> bool {
        self.states.contains(state) || (self.window_ends_at.is_some() && self.in_window(state))
    }

    /// Whether a job in this state holds the key by its window alone, and the window is over: the next one takes it.
    pub(crate) fn has_lapsed(&self, state: JobState, now: Millis) -> bool {
        !self.states.contains(state) && self.window_ends_at.is_some_and(|end| end <= now)
    }

    fn in_window(&self, state: JobState) -> bool {
        !matches!(state, JobState::Dead | JobState::Cancelled)
    }
}

/// The key as it is stored: whole up to [`MAX_KEY`] bytes; of a longer one the beginning, for people, and its hash.
pub(crate) fn shortened(key: &str) -> String {
    if key.len() <= MAX_KEY && !key.contains('\0') {
        return key.to_owned();
    }
    let mut hash = String::from("…sha256:");
    for byte in Sha256::digest(key) {
        write!(hash, "{byte:02x}").ok();
    }
    let beginning = &key[..key.floor_char_boundary(MAX_KEY - hash.len())];
    beginning.replace('\0', " ") + &hash
}

/// A payload's JSON as a key: members in the order of their names, those that are `null` left out, numbers and texts
/// digit by digit as they are.
pub(crate) fn canonical(json: &str) -> String {
    let mut key = String::with_capacity(json.len());
    write_canonical(json, &mut key);
    key
}

fn write_canonical(json: &str, to: &mut String) {
    if let Ok(members) = serde_json::from_str::<BTreeMap<String, &RawValue>>(json) {
        to.push('{');
        for (name, value) in members.into_iter().filter(|(_, value)| value.get() != "null") {
            if !to.ends_with('{') {
                to.push(',');
            }
            to.push_str(&serde_json::Value::from(name).to_string());
            to.push(':');
            write_canonical(value.get(), to);
        }
        to.push('}');
    } else if let Ok(items) = serde_json::from_str::<Vec<&RawValue>>(json) {
        to.push('[');
        for (place, item) in items.into_iter().enumerate() {
            to.push_str(if place > 0 { "," } else { "" });
            write_canonical(item.get(), to);
        }
        to.push(']');
    } else {
        to.push_str(json.trim());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_as_a_key_knows_no_order_and_no_null() {
        let same = [r#"{"a":1}"#, r#"{"a":1,"b":null}"#, r#"{ "b": null, "a": 1 }"#];
        assert!(same.iter().all(|json| canonical(json) == r#"{"a":1}"#));
        assert_eq!(canonical("{}"), "{}");
        assert_eq!(canonical(r#"{"b":{"d":[1,null,{"f":2,"e":1}],"c":"{x"},"a":""}"#), {
            r#"{"a":"","b":{"c":"{x","d":[1,null,{"e":1,"f":2}]}}"#
        });
        assert_eq!(canonical("null"), "null");
        for exact in ["9007199254740993", "18446744073709551616", "1e400", "1.0", r#""\n{""#, "[{},[]]"] {
            assert_eq!(canonical(exact), exact);
        }
    }

    #[test]
    fn a_long_key_is_its_beginning_and_its_hash() {
        assert_eq!(shortened(&"x".repeat(MAX_KEY)), "x".repeat(MAX_KEY));
        let (one, two) = ("é".repeat(200), "é".repeat(199) + "e");
        for long in [&one, &two] {
            let short = shortened(long);
            assert!(short.len() <= MAX_KEY && short.starts_with("ééé"), "{short}");
        }
        assert_ne!(shortened(&one), shortened(&two));
        assert!(!shortened("a\0b").contains('\0'));
        assert_ne!(shortened("a\0b"), shortened("a b"));
    }

    #[test]
    fn fields_are_a_set() {
        use JobField::*;
        let all = [Payload, RunAt, Priority, Queue, MaxAttempts, Label, Timeout, Backoff, Retain];
        assert_eq!(Fields::of(&all), Fields::ALL);
        let some = Fields::of(&[RunAt, Queue]);
        assert!(some.contains(Queue) && some.contains(RunAt) && !some.contains(Payload));
        assert!(Fields::of(&[Payload]).contains(Label), "the label tells of the payload");
    }
}
