//! The attributes of jobq, `#[job]` and `#[jobq::test]`, and its derives. Use them through the crate `jobq`, which
//! re-exports them.

mod args;
mod event;
mod expand;
mod item;
mod test;

use proc_macro2::{Span, TokenStream};
use quote::ToTokens;

/// Makes a function a job: it stays callable, and can be enqueued and run by a worker.
///
/// ```
/// use jobq::prelude::*;
///
/// #[job(queue = "mail", max_attempts = 5, label = "Welcome mail to {email}")]
/// async fn send_welcome_email(user_id: u64, email: String) -> Result<(), std::io::Error> {
///     println!("welcome, {user_id}, at {email}");
///     Ok(())
/// }
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
/// send_welcome_email.enqueue((42, "ada@example.org".into())).await?;
/// SendWelcomeEmail { user_id: 42, email: "ada@example.org".into() }.enqueue().await?;
/// send_welcome_email(42, "ada@example.org".into()).await?; // here and now
/// # Ok(())
/// # }
/// ```
///
/// Three things stand in its place, and no others that can be seen:
///
/// - the **payload**, a struct named as the function in CamelCase, with its visibility and docs; its fields are the
///   parameters. It implements `Job`, `Serialize`, `Deserialize` and `Debug`, which shows it as it is stored.
/// - the **function** under its own name. It returns a `Call`, a future of the written return type. A job may call
///   and enqueue itself.
/// - one hidden entry, by which a worker knows the job. A crate of jobs must be *linked* for that: a program that
///   names nothing of it does not link it. `Worker::expect` makes sure.
///
/// # Parameters
/// All are payload and stored as JSON, at most 16, context and data counted, except
///
/// - `ctx: &JobContext`: the running job seen from inside;
/// - `#[data] mailer: &Mailer`: what `Worker::data(mailer)` provided, found by its type. `#[data] mailer: Mailer`
///   is a clone of it.
///
/// `#[secret] token: String` is payload that nobody but the function sees: not in logs, errors, lists or `Debug`.
///
/// ```
/// # use jobq::prelude::*;
/// # struct Mailer;
/// /// Each parameter's docs and serde attributes go to its field.
/// #[job]
/// async fn remind(
///     ctx: &JobContext,
///     #[data] mailer: &Mailer,
///     /// Whom to remind.
///     user_id: u64,
///     #[serde(default)] urgent: bool,
/// ) -> Result<(), JobError> {
///     # let _ = (mailer, user_id, urgent);
///     if ctx.is_last_attempt() {
///         return Err(JobError::dead("nobody reads this"));
///     }
///     Ok(())
/// }
/// ```
/// A payload type needs `serde::Serialize` and `serde::Deserialize`, and can't borrow. A field that is added later needs
/// `#[serde(default)]` or an `Option`, or the rows written before can't be read.
///
/// # Return type
/// Nothing, or a `Result` (an alias does as well). The output needs `Serialize`. The error is `JobError`, or anything that
/// converts into `Box<dyn Error + Send + Sync>`: every `std::error::Error`, `anyhow::Error`, `eyre::Report`, `String`.
/// An error means: try again after the backoff, while attempts are left. A `JobError` can say otherwise.
///
/// # Options
/// | option | value | where it is not given |
/// |---|---|---|
/// | [`payload`](#payload) | the struct's name | the function's name in CamelCase |
/// | [`type`](#type-aliases) | the stored name, 1 to 64 bytes | the function's name |
/// | [`aliases`](#type-aliases) | names of rows written before a rename | none |
/// | [`queue`](#queue-priority) | the named lane of work, 1 to 64 bytes | `default` |
/// | [`priority`](#queue-priority) | −32768 to 32767, larger runs first | 0 |
/// | [`max_attempts`](#max_attempts) | counted starts, the first included; 1 = no retry | the queue's default |
/// | [`timeout`](#timeout) | a duration for one attempt, or `"none"` | the worker's default |
/// | [`backoff`](#backoff) | the wait between attempts | 10, 20, 40 s … 1 h, each ± 15 % |
/// | [`unique`](#unique) | alone, or with `(key = "{field}", …)`: at most one live job per key | not unique |
/// | [`on_dead`](#on_dead) | the job function that is told of dead jobs | none |
/// | [`label`](#label) | a title for people | none |
/// | [`on`](#on) | an event that enqueues it | none |
/// | [`cron`](#cron-tz-catch_up-overlap) | the times at which it is enqueued | none |
/// | [`tz`](#cron-tz-catch_up-overlap) | the time zone of these | UTC |
/// | [`catch_up`](#cron-tz-catch_up-overlap) | what becomes of missed ones | `once` |
/// | [`overlap`](#cron-tz-catch_up-overlap) | what becomes of one while an earlier job is live | `allow` |
/// | [`version`, `upgrade`](#version-upgrade) | the payload's version, and how older ones become it | 1 |
/// | [`retain`](#retain) | a duration for the finished row, or `"forever"` | the queue's default |
/// | [`serde`](#serde) | serde attributes of the payload | none |
/// | [`blocking`](#blocking) | a thread of its own | the worker's runtime |
/// | [`crate`](#crate) | the path of jobq | `::jobq` |
///
/// `queue`, `priority`, `max_attempts`, `timeout`, `backoff`, `unique`, `label` and `retain` can be set anew at each enqueue.
/// A **duration** is text of whole numbers with units, the larger first: `"250ms"`, `"30s"`, `"5m"`, `"1h30m"`, `"7d"`.
///
/// ### `payload`
/// ```
/// # use jobq::prelude::*;
/// #[job(payload = WelcomeMail)]
/// async fn send_welcome_email(user_id: u64) {
///     # let _ = user_id;
/// }
///
/// let _ = WelcomeMail { user_id: 42 }.enqueue();
/// ```
///
/// ### `type`, `aliases`
/// The stored name is the function's name, never its module path, so that a function can move. `type` sets another. After a
/// rename, `aliases` keeps the rows that carry the old name runnable.
/// ```
/// # use jobq::prelude::*;
/// #[job(type = "exploration:run", aliases = ["run_exploration", "explore"])]
/// async fn run() {}
///
/// assert_eq!(Run::TYPE, "exploration:run");
/// ```
///
/// ### `queue`, `priority`
/// ```
/// # use jobq::prelude::*;
/// #[job(queue = "mail", priority = -10)]
/// async fn send_newsletter(issue: u32) {
///     # let _ = issue;
/// }
/// # assert_eq!(SendNewsletter::DEFAULTS.priority, -10);
/// ```
///
/// ### `max_attempts`
/// An error, a panic, a time-out and a lost worker each count one; then the job is dead, and kept for people.
/// ```
/// # use jobq::prelude::*;
/// #[job(max_attempts = 1)] // runs once, whatever happens
/// async fn charge(cents: u64) -> Result<(), String> {
///     # let _ = cents;
///     Err("declined".into())
/// }
/// ```
///
/// ### `timeout`
/// An attempt that takes longer counts as timed out. `"none"` lets it take as long as it likes, while its worker lives.
/// ```
/// # use jobq::prelude::*;
/// #[job(timeout = "2m30s")]
/// async fn transcode(path: String) {
///     # let _ = path;
/// }
///
/// #[job(timeout = "none")]
/// async fn reindex() {}
/// ```
///
/// ### `backoff`
/// After every kind of failure. One of
/// - `exponential(base = "10s", factor = 2, max = "1h", jitter = 0.15)`: `base · factor^(attempt − 1)`, times a random
///   factor within `1 ± jitter`, at most `max`. Each setting may be left out; these are what it then is.
/// - `fixed("30s")`, or `fixed("30s", jitter = 0.1)`.
/// - `doubling_to_a_minute`: 2, 4, 8 … 60 s, without jitter.
/// - the path of a `fn(attempt: u32, error: &JobError) -> Duration`; attempt 1 is the first.
/// ```
/// # use jobq::prelude::*;
/// use std::time::Duration;
///
/// #[job(backoff = exponential(base = "1s", max = "5m"))]
/// async fn poll_feed() -> Result<(), String> {
///     Err("not there".into())
/// }
///
/// #[job(backoff = patience)]
/// async fn call_partner() -> Result<(), String> {
///     Err("busy".into())
/// }
///
/// fn patience(attempt: u32, error: &JobError) -> Duration {
///     if error.to_string().contains("busy") { mins(attempt.into()) } else { secs(1) }
/// }
/// # let _: fn(u32, &JobError) -> Duration = patience;
/// ```
///
/// ### `unique`
/// A second job of a key is not stored, and its enqueue gives the first one. All settings may be left out:
/// `key = "{tenant}:{user_id}"`, else the whole payload is the key; `until = started`, `finished` (the default),
/// `succeeded` or `deleted`, or `states = [running, dead]` beside the waiting ones: who holds it; `within = "1h"`: it is
/// held at least that long from the enqueue; `scope = queue`, `global` or `job_type` (the default);
/// `on_conflict = keep` (the default), `reject`, `replace`, or `replace(payload, run_at)`: what becomes of the second;
/// `debounce = "5s"`: each enqueue begins the wait anew, and the last payload runs.
/// ```
/// # use jobq::prelude::*;
/// #[job(unique(key = "{user_id}", within = "1h", until = finished, on_conflict = keep))]
/// async fn send_digest(user_id: u64, email: String) {
///     # let _ = (user_id, email);
/// }
///
/// let job = SendDigest { user_id: 42, email: "ada@example.org".into() };
/// assert_eq!(job.unique_key().unwrap(), "42");
/// ```
///
/// ### `on_dead`
/// The path of another job function, whose one payload parameter is a `DeadJob`. It is enqueued as a job of its own, with
/// the options of its own type, in the very commit by which a job of this type becomes dead; once for each death.
/// ```
/// # use jobq::prelude::*;
/// #[job(on_dead = tell_ops)]
/// async fn import_feed(url: String) -> Result<(), JobError> {
///     Err(JobError::dead(format!("{url} is gone")))
/// }
///
/// #[job(queue = "ops", label = "{dead}")]
/// async fn tell_ops(dead: DeadJob) {
///     println!("{} is dead: {}", dead.job_type, dead.error);
/// }
/// ```
///
/// ### `label`
/// `{name}` is a payload parameter, shown by its `Display`; `{{` and `}}` are braces. Cut at 255 characters.
/// ```
/// # use jobq::prelude::*;
/// #[job(label = "Import of {file} in {tenant}")]
/// async fn import(tenant: String, file: String, dry: bool) {
///     # let _ = (tenant, file, dry);
/// }
///
/// let job = Import { tenant: "acme".into(), file: "may.csv".into(), dry: false };
/// assert_eq!(job.label().unwrap(), "Import of may.csv in acme");
/// ```
///
/// ### `on`
/// Each `emit` of the event enqueues the job, in one commit with all others that follow from it. `on = Event` makes the
/// payload by `From`; `on(Event, with = path)` by a `fn(&Event) -> impl IntoIterator<Item = Payload>`, which gives any
/// number of them, an `Option` too. Several may be given.
/// ```
/// # use jobq::prelude::*;
/// #[derive(Event)]
/// struct UserRegistered {
///     user_id: u64,
///     friends: Vec<u64>,
/// }
///
/// impl From<&UserRegistered> for GreetUser {
///     fn from(event: &UserRegistered) -> Self {
///         Self { user_id: event.user_id }
///     }
/// }
///
/// #[job(on = UserRegistered)]
/// async fn greet_user(user_id: u64) {
///     # let _ = user_id;
/// }
///
/// #[job(on(UserRegistered, with = each_friend))]
/// async fn tell_friend(friend: u64) {
///     # let _ = friend;
/// }
///
/// fn each_friend(event: &UserRegistered) -> impl Iterator<Item = TellFriend> {
///     event.friends.iter().map(|friend| TellFriend { friend: *friend })
/// }
/// ```
///
/// ### `cron`, `tz`, `catch_up`, `overlap`
/// For a job without payload parameters. The pattern has five fields, or six with the second first, or is a word such as
/// `@daily`; it and the zone are checked by the compiler. `catch_up` is `once`, `once("6h")`, `all(24)` or `skip`,
/// `overlap` is `allow` or `skip`. The guide's chapter `cron` tells the rules.
/// ```
/// # use jobq::prelude::*;
/// #[job(cron = "30 2 * * MON-FRI", tz = "Europe/Warsaw", catch_up = once("6h"), overlap = skip)]
/// async fn send_digest() {}
/// ```
///
/// ### `version`, `upgrade`
/// A payload that changes so that older rows can't be read gets the next version, and a function that makes the JSON of any
/// older version that of this one. A row keeps the version that it was enqueued with.
/// ```
/// # use jobq::prelude::*;
/// use serde_json::{Value, json};
///
/// /// Version 1 had one field `name`.
/// #[job(version = 2, upgrade = from_older)]
/// async fn invite(first: String, last: String) {
///     # let _ = (first, last);
/// }
///
/// fn from_older(stored: u32, payload: Value) -> Result<Value, String> {
///     let name = payload["name"].as_str().ok_or_else(|| format!("no name in version {stored}"))?;
///     let (first, last) = name.split_once(' ').unwrap_or((name, ""));
///     Ok(json!({ "first": first, "last": last }))
/// }
/// ```
///
/// ### `retain`
/// How long the row stays once the job is completed or cancelled. Dead jobs stay until a person, or the queue's
/// `keep_dead`, takes them away.
/// ```
/// # use jobq::prelude::*;
/// #[job(retain = "30d")]
/// async fn bill(order: u64) {
///     # let _ = order;
/// }
/// ```
///
/// ### `serde`
/// ```
/// # use jobq::prelude::*;
/// #[job(serde(rename_all = "camelCase", deny_unknown_fields))]
/// async fn resize(media_id: u64, #[serde(rename = "w")] width: u32) {
///     # let _ = (media_id, width);
/// }
///
/// let stored = Resize { media_id: 1, width: 2 }; // {"mediaId":1,"w":2}
/// assert_eq!(format!("{stored:?}"), "Resize { mediaId: 1, w: 2 }");
/// ```
///
/// ### `blocking`
/// For a plain `fn`, or an `async fn` that blocks its thread: the worker runs it on a thread of its own. It is told to stop
/// by `ctx.is_cancelled()`, and holds its slot until it returns. A direct call runs in place, when it is awaited.
/// ```
/// # use jobq::prelude::*;
/// #[job(blocking)]
/// fn hash_password(ctx: &JobContext, rounds: u64) -> Result<u64, JobError> {
///     let mut hash = 0_u64;
///     for round in 0..rounds {
///         if ctx.is_cancelled() {
///             return Err(JobError::new("stopped"));
///         }
///         hash = hash.rotate_left(5) ^ round;
///     }
///     Ok(hash)
/// }
/// ```
///
/// ### `crate`
/// Where jobq is known by another name, or through another crate.
/// ```
/// use jobq as queueing;
/// use queueing::prelude::*;
///
/// #[job(crate = queueing)]
/// async fn sweep() {}
/// # let _ = sweep.enqueue(());
/// ```
///
/// # Attributes
/// `cfg`, docs, `deprecated` and lint levels go on everything that is written, all others (such as `tracing::instrument`) on
/// the inner function that holds the body.
///
/// # Errors
/// Each mistake is an error at its place, several at once, and the function is there all the same.
#[proc_macro_attribute]
pub fn job(options: proc_macro::TokenStream, function: proc_macro::TokenStream) -> proc_macro::TokenStream {
    expand_job(options.into(), function.into()).into()
}

/// Makes a type an event, which jobs follow from with `#[job(on = …)]`.
///
/// ```
/// use jobq::prelude::*;
///
/// #[derive(Event)]
/// struct UserRegistered {
///     user_id: u64,
/// }
///
/// /// An enum is one event, whatever its variant.
/// #[derive(Event)]
/// #[event(name = "blog:changed")]
/// enum BlogChanged {
///     PostCreated(u64),
///     PostDeleted(u64),
/// }
/// # let _ = (BlogChanged::PostCreated(1), BlogChanged::PostDeleted(UserRegistered { user_id: 1 }.user_id));
///
/// assert_eq!(UserRegistered::NAME, "UserRegistered");
/// assert_eq!(BlogChanged::NAME, "blog:changed");
/// ```
///
/// # Options
/// `#[event(name = "…")]`: the name by which programs that share a queue know it, 1 to 64 bytes; the type's name where it
/// is not given. `#[event(crate = path)]`: where jobq is known by another name.
///
/// # Errors
/// Each mistake is an error at its place. An event is not generic: jobs are subscribed to one type.
#[proc_macro_derive(Event, attributes(event))]
pub fn event(item: proc_macro::TokenStream) -> proc_macro::TokenStream {
    let mut mistakes = Mistakes::default();
    let tokens = event::expand(item.into(), &mut mistakes);
    let mistakes = mistakes.into_tokens();
    quote::quote!(#tokens #mistakes).into()
}

/// Makes an async function a test with a queue of its own, which is its scope: what the test and its jobs enqueue without
/// `.on(&queue)` goes there, and parallel tests never share one.
///
/// ```
/// # use jobq::{assert_enqueued, prelude::*, testing::TestQueue};
/// #[job]
/// async fn greet(name: String) {
///     println!("Hello, {name}!");
/// }
///
/// #[jobq::test]
/// async fn ada_is_greeted(queue: TestQueue) {
///     greet.enqueue("Ada".into()).await.unwrap();
///     assert_enqueued!(queue, Greet { name } if name == "Ada");
///     queue.drain().await.assert_ok();
/// }
/// ```
///
/// The parameter, a `TestQueue`, may be left out, and the test may return whatever a `#[test]` may. It runs on a tokio
/// runtime of its own, one thread, timers and sockets included; the crate under test needs no tokio of its own for it.
/// Attributes such as `#[ignore]` and `#[should_panic]` hold as ever.
///
/// # Options
/// - `#[jobq::test(sqlite)]`: the queue is in a SQLite file in a directory of its own, which is removed after the test.
///   Without it, it is in memory.
/// - `crate = my_jobq`: where jobq is known by another name.
#[proc_macro_attribute]
pub fn test(options: proc_macro::TokenStream, function: proc_macro::TokenStream) -> proc_macro::TokenStream {
    test::expand(options.into(), function.into()).into()
}

/// Parse → check → expand. Whatever is wrong, the user's function is in the answer, so that its callers still find it.
fn expand_job(options: TokenStream, function: TokenStream) -> TokenStream {
    let mut mistakes = Mistakes::default();
    let options = args::Options::read(options, &mut mistakes);
    let tokens = match syn::parse2::<item::Function>(function.clone()) {
        Err(mistake) => {
            mistakes.add(mistake);
            function
        }
        Ok(function) => {
            let as_written = function.plain();
            item::Item::check(function, options.blocking, &mut mistakes)
                .and_then(|item| expand::expand(&options, &item, &mut mistakes))
                .unwrap_or(as_written)
        }
    };
    let mistakes = mistakes.into_tokens();
    quote::quote!(#tokens #mistakes)
}

/// What is wrong, all of it.
#[derive(Default)]
struct Mistakes(Vec<syn::Error>);

impl Mistakes {
    fn add(&mut self, mistake: syn::Error) {
        self.0.push(mistake);
    }

    fn say(&mut self, at: Span, text: impl std::fmt::Display) {
        self.add(syn::Error::new(at, text));
    }

    fn at(&mut self, tokens: impl ToTokens, text: impl std::fmt::Display) {
        self.add(syn::Error::new_spanned(tokens, text));
    }

    fn count(&self) -> usize {
        self.0.len()
    }

    fn into_tokens(self) -> Option<TokenStream> {
        let all = self.0.into_iter().reduce(|mut all, next| {
            all.combine(next);
            all
        });
        all.map(|all| all.into_compile_error())
    }
}

/// `; did you mean …?` where one of the known words is near.
fn did_you_mean<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let near = known.into_iter().map(|known| (strsim::jaro_winkler(word, known), known));
    match near.max_by(|a, b| a.0.total_cmp(&b.0)) {
        Some((likeness, known)) if likeness > 0.8 => format!("; did you mean `{known}`?"),
        _ => String::new(),
    }
}

/// The words as a list.
fn words<'a>(known: impl IntoIterator<Item = &'a str>) -> String {
    let quoted: Vec<_> = known.into_iter().map(|word| format!("`{word}`")).collect();
    quoted.join(", ")
}
