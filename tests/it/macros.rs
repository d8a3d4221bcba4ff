//! What `#[job]` writes: payload, defaults, label, call, enqueue, and the entry that runs it.

use jobq::{
    context::CancelSwitch,
    enqueue::Call,
    job::{Defaults, ErrorClass, JobId, Timeout},
    prelude::*,
    registry::{BackoffPolicy, DataMap, JobEntry},
    retry::Backoff,
    store::Claimed,
};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

// ---- the jobs ---------------------------------------------------------------------------------------------------

/// Writes a mail of welcome.
#[job(
    type = "mail:welcome",
    aliases = ["welcome", "send_welcome"],
    queue = "mail",
    priority = -3,
    max_attempts = 4,
    timeout = "1m30s",
    retain = "7d",
    backoff = exponential(base = "5s", factor = 1.5, max = "10m", jitter = 0.2),
    label = "Welcome {email} (#{user_id}) {{sic}}",
    serde(rename_all = "camelCase"),
)]
async fn send_welcome_email(user_id: u64, email: String) -> Result<Receipt, SmtpError> {
    match email.contains('@') {
        true => Ok(Receipt { number: user_id * 2, to: email }),
        false => Err(SmtpError(email)),
    }
}

/// Needs nothing but serde, although it is printed.
#[derive(Serialize, Deserialize, PartialEq, Clone)]
struct Receipt {
    number: u64,
    to: String,
}

#[derive(Debug)]
struct SmtpError(String);

impl fmt::Display for SmtpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "bad address {:?}", self.0)
    }
}

impl std::error::Error for SmtpError {}

#[job]
async fn sweep() {}

/// Context and both kinds of data, in no particular order.
#[job]
async fn count(
    times: usize,
    ctx: &JobContext,
    #[data] log: &Log,
    name: String,
    #[data] step: Arc<AtomicUsize>,
) -> Result<usize, JobError> {
    log.0.fetch_add(times, Ordering::Relaxed);
    Ok(step.load(Ordering::Relaxed) * times + name.len() + ctx.attempt() as usize * 1000)
}

#[derive(Default)]
struct Log(AtomicUsize);

#[job(payload = Picture, timeout = "none", retain = "forever", backoff = fixed("30s"))]
async fn convert_webp(
    /// Where it lies.
    path: std::path::PathBuf,
    #[serde(default = "full")] quality: u8,
    #[serde(rename = "type")] kind: Option<Vec<Option<Receipt>>>,
) -> Result<(), String> {
    let _ = (path, kind);
    if quality > 100 { Err(format!("quality {quality}")) } else { Ok(()) }
}

fn full() -> u8 {
    100
}

#[job(backoff = doubling_to_a_minute)]
async fn r#match(r#type: String, r#fn: i32) -> Result<(String, i32), std::io::Error> {
    if r#fn < 0 { Err(std::io::Error::other("below zero")) } else { Ok((r#type, r#fn)) }
}

#[job(backoff = slower_each_time)]
async fn by_own_wait(n: u32) -> Result<Option<u32>, anyhow::Error> {
    anyhow::ensure!(n < 10, "{n} is too large");
    Ok((n > 0).then_some(n))
}

fn slower_each_time(attempt: u32, error: &JobError) -> Duration {
    Duration::from_secs(u64::from(attempt) * error.to_string().len() as u64)
}

#[job]
async fn by_eyre(n: u32) -> eyre::Result<u32> {
    use eyre::WrapErr;
    "x".parse::<u32>().wrap_err_with(|| format!("step {n}"))
}

type Boxed = Box<dyn std::error::Error + Send + Sync>;

#[job]
async fn by_box(n: u32) -> Result<u32, Boxed> {
    Err(format!("boxed {n}").into())
}

#[job]
async fn by_str(n: u32) -> Result<u32, &'static str> {
    if n == 0 { Err("zero") } else { Ok(n) }
}

type Answer<T> = Result<T, JobError>;

#[job]
async fn by_class(class: String) -> Answer<()> {
    let second = Duration::from_secs(1);
    match class.as_str() {
        "dead" => Err(JobError::dead("gone for good")),
        "retry_in" => Err(JobError::retry_in(second, "soon")),
        "snooze" => Err(JobError::snooze(second)),
        "cancel" => Err(JobError::cancel("not wanted")),
        "question" => Err(SmtpError("?".into()))?,
        _ => Ok(()),
    }
}

#[job(blocking)]
fn grind(#[data] log: &Log, rounds: usize) -> Result<usize, JobError> {
    (0..rounds).for_each(|_| std::thread::yield_now());
    Ok(rounds + log.0.load(Ordering::Relaxed))
}

#[job(blocking)]
async fn grind_async(rounds: usize) -> Result<usize, JobError> {
    Ok(rounds)
}

/// The name of a local of the expansion, of the std macros it uses, and of a field of its own.
#[job(payload = JobOfJob, label = "{job} {text} {f}")]
async fn job(job: u8, text: u8, ctx: &JobContext, lent: u8, f: u8) -> Result<u32, JobError> {
    Ok(u32::from(job) + u32::from(text) + u32::from(lent) + u32::from(f) + ctx.attempt())
}

#[allow(clippy::too_many_arguments)]
#[job]
async fn twelve(
    mut a: u8,
    b: i16,
    c: bool,
    d: char,
    e: f64,
    f: String,
    g: (u8, u8),
    h: [u8; 2],
    i: Option<()>,
    j: Vec<u8>,
    k: Box<u8>,
    l: std::collections::BTreeMap<String, u8>,
) -> Result<u8, JobError> {
    a += 1;
    let _ = (b, c, d, e, f, g, h, i, j, k, l);
    Ok(a)
}

/// Calls itself, and could enqueue itself.
#[job]
async fn countdown(n: u32) -> Result<u32, JobError> {
    let _again = countdown.enqueue(n);
    if n == 0 { Ok(0) } else { Ok(countdown(n - 1).await? + 1) }
}

mod nested {
    use jobq::prelude::*;

    #[job]
    pub(super) async fn deep(n: u8) -> Result<u8, JobError> {
        Ok(n)
    }
}

#[cfg(any())]
#[job]
async fn not_in_this_build() {}

#[job]
#[cfg_attr(any(), deny(warnings), inline)]
#[inline(never)]
#[expect(unused_variables, reason = "the test of the attribute")]
async fn with_attributes(#[allow(unused_mut)] mut unused: u8) {}

macro_rules! job_of {
    ($name:ident, $param:ident: $ty:ty) => {
        #[job(label = "by macro")]
        async fn $name($param: $ty) -> Result<$ty, JobError> {
            Ok($param)
        }
    };
}
job_of!(from_a_macro, value: Vec<u8>);

#[job]
async fn unstorable() -> Result<std::collections::HashMap<(u8, u8), u8>, JobError> {
    Ok([((1, 2), 3)].into())
}

// ---- what they became -------------------------------------------------------------------------------------------

fn entry(job_type: &str) -> &'static JobEntry {
    let mut found = jobq::private::inventory::iter::<JobEntry>().filter(|entry| entry.job_type == job_type);
    let entry = found.next().unwrap_or_else(|| panic!("{job_type} is not registered"));
    assert!(found.next().is_none(), "{job_type} is registered twice");
    entry
}

/// Keeps the switch, without which the context could never be cancelled.
fn context(attempt: u32) -> (JobContext, CancelSwitch) {
    let claimed = Claimed {
        id: JobId::from(uuid::Uuid::nil()),
        lease: 1,
        job_type: "any".into(),
        queue: "default".into(),
        payload: String::new(),
        version: 1,
        attempt,
        max_attempts: 3,
        priority: 0,
        run_at: 0,
        timeout: None,
        backoff: None,
        ties: jobq::store::Ties::NONE,
    };
    JobContext::new(claimed)
}

/// Runs the entry as a worker does: JSON in, JSON out.
async fn run(job_type: &str, payload: serde_json::Value, data: &DataMap) -> Result<Option<String>, JobError> {
    let (ctx, _switch) = context(2);
    let payload = payload.to_string();
    (entry(job_type).run)(&payload, &ctx, data).expect("decodes").await
}

async fn output(job_type: &str, payload: serde_json::Value) -> Option<String> {
    run(job_type, payload, &DataMap::default()).await.expect("succeeds")
}

async fn failure(job_type: &str, payload: serde_json::Value) -> (ErrorClass, String) {
    let error = run(job_type, payload, &DataMap::default()).await.expect_err("fails");
    (error.class(), error.to_string())
}

#[test]
fn options_become_the_defaults_of_the_type() {
    let Defaults { queue, priority, max_attempts, timeout, retain, .. } = SendWelcomeEmail::DEFAULTS;
    assert_eq!((queue, priority, max_attempts), ("mail", -3, Some(4)));
    assert_eq!(timeout, Some(Timeout::After(Duration::from_secs(90))));
    assert_eq!(retain, Some(Duration::from_secs(7 * 24 * 3600)));
    assert_eq!(SendWelcomeEmail::TYPE, "mail:welcome");
}

#[test]
fn no_options_are_the_defaults_of_all() {
    let Defaults { queue, priority, max_attempts, timeout, retain, .. } = Sweep::DEFAULTS;
    assert_eq!((queue, priority, max_attempts, timeout, retain), ("default", 0, None, None, None));
    assert_eq!(Sweep::TYPE, "sweep");
    assert!(matches!(entry("sweep").backoff, BackoffPolicy::Unset));
}

#[test]
fn a_timeout_of_none_is_never_and_forever_is_centuries() {
    assert_eq!(Picture::DEFAULTS.timeout, Some(Timeout::Never));
    let kept = Picture::DEFAULTS.retain.expect("is set");
    assert!(kept > Duration::from_secs(500 * 365 * 24 * 3600) && kept.as_millis() < i64::MAX as u128 / 2);
}

#[test]
fn backoffs_are_what_was_written() {
    let second = Duration::from_secs(1);
    let set = |job_type| match entry(job_type).backoff {
        BackoffPolicy::Set(backoff) => backoff,
        other => panic!("{other:?}"),
    };
    let grows = Backoff::Exponential { base: second * 5, factor: 1.5, max: second * 600, jitter: 0.2 };
    assert_eq!(set("mail:welcome"), grows);
    assert_eq!(set("convert_webp"), Backoff::fixed(second * 30));
    assert_eq!(set("match"), Backoff::DOUBLING_TO_A_MINUTE);
    let BackoffPolicy::Own(own) = entry("by_own_wait").backoff else { panic!("is the user's own") };
    assert_eq!(own(3, &JobError::new("four")), second * 12);
}

#[test]
fn the_entry_knows_its_place_names_and_needs() {
    let welcome = entry("mail:welcome");
    assert_eq!(welcome.aliases, ["welcome", "send_welcome"]);
    assert_eq!(welcome.module, module_path!());
    assert!(welcome.file.ends_with("macros.rs"), "{}", welcome.file);
    let line = include_str!("macros.rs").lines().nth(welcome.line as usize - 1).expect("is in the file");
    assert_eq!(line, "#[job(", "line {}", welcome.line);
    assert_eq!(entry("deep").module, concat!(module_path!(), "::nested"));
    let needs: Vec<_> = entry("count").data.iter().map(|need| (need.name)()).collect();
    assert_eq!(needs, [std::any::type_name::<Log>(), std::any::type_name::<Arc<AtomicUsize>>()]);
    assert!(!welcome.blocking && entry("grind").blocking && entry("grind_async").blocking);
}

#[test]
fn a_job_behind_a_false_cfg_leaves_nothing() {
    let mut all = jobq::private::inventory::iter::<JobEntry>();
    assert!(all.all(|entry| entry.job_type != "not_in_this_build"));
}

#[test]
fn the_payload_is_json_under_the_names_that_serde_was_told() {
    let welcome = SendWelcomeEmail { user_id: u64::MAX, email: "ada@example.org".into() };
    let text = serde_json::to_string(&welcome).unwrap();
    assert_eq!(text, r#"{"userId":18446744073709551615,"email":"ada@example.org"}"#);
    let again: SendWelcomeEmail = serde_json::from_str(&text).unwrap();
    assert_eq!((again.user_id, again.email), (u64::MAX, "ada@example.org".into()));
    let picture: Picture = serde_json::from_value(json!({"path": "a.png", "type": [null]})).unwrap();
    assert_eq!((picture.quality, picture.kind.map(|kinds| kinds.len())), (100, Some(1)));
    assert_eq!(
        serde_json::to_value(Match { r#type: "a".into(), r#fn: 1 }).unwrap(),
        json!({"type": "a", "fn": 1})
    );
    assert_eq!(serde_json::to_string(&Sweep {}).unwrap(), "{}");
}

#[test]
fn debug_shows_the_payload_and_asks_nothing_of_its_types() {
    let welcome = SendWelcomeEmail { user_id: 1, email: "a\"b".into() };
    assert_eq!(format!("{welcome:?}"), r#"SendWelcomeEmail { userId: 1, email: "a\"b" }"#);
    let kind = Some(vec![None, Some(Receipt { number: 1, to: "x".into() })]);
    let picture = Picture { path: "a".into(), quality: 9, kind };
    assert_eq!(
        format!("{picture:?}"),
        r#"Picture { path: "a", quality: 9, type: [null,{"number":1,"to":"x"}] }"#
    );
    assert_eq!(format!("{:?}", Sweep {}), "Sweep");
}

#[test]
fn args_are_nothing_the_bare_type_or_a_tuple_and_infer() {
    let Sweep {} = Sweep::from_args(());
    assert_eq!(Countdown::from_args(7).n, 7);
    let welcome = SendWelcomeEmail::from_args((42, "x".into()));
    assert_eq!((welcome.user_id, welcome.email.as_str()), (42, "x"));
    let counted = Count::from_args(("5".parse().unwrap(), "x".into()));
    assert_eq!(counted.times, 5, "context and data are no arguments of an enqueue");
    let _ =
        (sweep.enqueue(()), countdown.enqueue(3), send_welcome_email.enqueue((42, "x".into())).priority(9));
    let _ = (count.enqueue((1, "x".into())), Sweep {}.enqueue(), nested::deep.enqueue(1));
}

#[test]
fn a_label_shows_fields_and_braces() {
    let welcome = SendWelcomeEmail { user_id: 7, email: "ada@example.org".into() };
    assert_eq!(welcome.label().as_deref(), Some("Welcome ada@example.org (#7) {sic}"));
    assert_eq!(Sweep {}.label(), None);
    assert_eq!(FromAMacro { value: vec![] }.label().as_deref(), Some("by macro"));
    let check = entry("mail:welcome").check;
    assert_eq!(check(r#"{"userId":1,"email":"e"}"#).unwrap().label.as_deref(), Some("Welcome e (#1) {sic}"));
}

#[tokio::test]
async fn a_job_function_is_called_like_any_other() {
    let receipt = send_welcome_email(21, "ada@example.org".into()).await.unwrap();
    assert_eq!(receipt.number, 42);
    let (ctx, _switch) = context(1);
    let (log, step) = (Log::default(), Arc::new(AtomicUsize::new(10)));
    assert_eq!(count(2, &ctx, &log, "abc".into(), step).await.unwrap(), 1023);
    assert_eq!(log.0.into_inner(), 2);
    assert_eq!(countdown(3).await.unwrap(), 3);
    let countdown = countdown(2).await.unwrap(); // a variable may take the function's name
    assert_eq!(countdown, 2);
    sweep().await;
    let spawned: Call<'static, SendWelcomeEmail> = send_welcome_email(1, "no address".into());
    assert_eq!(
        tokio::spawn(spawned).await.unwrap().err().map(|error| error.0).as_deref(),
        Some("no address")
    );
    assert_eq!(
        twelve(1, 2, true, 'd', 0.5, String::new(), (1, 2), [1, 2], None, vec![], Box::new(1), [].into())
            .await
            .unwrap(),
        2
    );
    with_attributes(1).await;
}

#[tokio::test]
async fn a_direct_call_of_a_blocking_job_runs_in_place_when_awaited() {
    let log = Log::default();
    let here = std::thread::current().id();
    let call = grind(&log, 5);
    log.0.store(1, Ordering::Relaxed);
    assert_eq!(call.await.unwrap(), 6, "nothing ran before the await");
    assert_eq!(std::thread::current().id(), here);
    assert_eq!(grind_async(4).await.unwrap(), 4);
}

#[tokio::test]
async fn an_entry_runs_with_payload_context_and_data() {
    let mut data = DataMap::default();
    data.insert(Log::default());
    data.insert(Arc::new(AtomicUsize::new(10)));
    let result = run("count", json!({"times": 3, "name": "abcd"}), &data).await.unwrap();
    assert_eq!(result.as_deref(), Some("2034"));
    assert_eq!(data.get::<Log>().unwrap().0.load(Ordering::Relaxed), 3, "the worker's own value was lent");
    assert_eq!(run("grind", json!({"rounds": 4}), &data).await.unwrap().as_deref(), Some("7"));
}

#[tokio::test]
async fn an_entry_without_its_data_fails_naming_the_type() {
    let (class, text) = failure("count", json!({"times": 3, "name": "abcd"})).await;
    assert_eq!(class, ErrorClass::Retry);
    assert_eq!(text, format!("no `{}` was provided with `Worker::data`", std::any::type_name::<Log>()));
}

#[tokio::test]
async fn the_output_is_json_and_none_only_for_the_unit() {
    assert_eq!(
        output("mail:welcome", json!({"userId": 2, "email": "@"})).await.as_deref(),
        Some(r#"{"number":4,"to":"@"}"#)
    );
    assert_eq!(output("sweep", json!({})).await, None);
    assert_eq!(output("convert_webp", json!({"path": ""})).await, None);
    assert_eq!(output("by_own_wait", json!({"n": 0})).await.as_deref(), Some("null"), "None is an output");
    assert_eq!(output("by_own_wait", json!({"n": 3})).await.as_deref(), Some("3"));
    assert_eq!(output("match", json!({"type": "a", "fn": 1})).await.as_deref(), Some(r#"["a",1]"#));
    assert_eq!(output("job", json!({"job": 1, "text": 2, "lent": 3, "f": 4})).await.as_deref(), Some("12"));
    assert_eq!(output("from_a_macro", json!({"value": [1]})).await.as_deref(), Some("[1]"));
}

#[tokio::test]
async fn each_kind_of_error_keeps_its_text_and_its_causes() {
    let again = |text: &str| (ErrorClass::Retry, text.to_owned());
    assert_eq!(failure("mail:welcome", json!({"userId": 2, "email": "x"})).await, again("bad address \"x\""));
    assert_eq!(failure("convert_webp", json!({"path": "", "quality": 101})).await, again("quality 101"));
    assert_eq!(failure("match", json!({"type": "", "fn": -1})).await, again("below zero"));
    assert_eq!(failure("by_own_wait", json!({"n": 11})).await, again("11 is too large"));
    assert_eq!(failure("by_eyre", json!({"n": 2})).await, again("step 2: invalid digit found in string"));
    assert_eq!(failure("by_box", json!({"n": 2})).await, again("boxed 2"));
    assert_eq!(failure("by_str", json!({"n": 0})).await, again("zero"));
    assert_eq!(failure("by_class", json!({"class": "question"})).await, again("bad address \"?\""));
}

#[tokio::test]
async fn a_job_error_keeps_its_class() {
    let second = Duration::from_secs(1);
    let class = |class: &'static str| async move { failure("by_class", json!({ "class": class })).await };
    assert_eq!(class("dead").await, (ErrorClass::Dead, "gone for good".into()));
    assert_eq!(class("retry_in").await, (ErrorClass::RetryIn(second), "soon".into()));
    assert_eq!(class("snooze").await.0, ErrorClass::Snooze(second));
    assert_eq!(class("cancel").await, (ErrorClass::Cancel, "not wanted".into()));
}

/// Errors of every library become a job's error by `?`, and a job's error comes back whole from inside of theirs.
#[test]
fn a_job_error_passes_through_other_libraries_and_keeps_its_class() {
    fn by_question_mark(which: u8) -> Result<(), JobError> {
        match which {
            0 => Err("a text")?,
            1 => Err(anyhow::anyhow!("inner").context("outer"))?,
            2 => Err(eyre::eyre!("inner").wrap_err("outer"))?,
            3 => Err(JobError::dead("never"))?,
            _ => Err(std::io::Error::other("no disk"))?,
        }
        Ok(())
    }
    let told = |which| {
        let error = by_question_mark(which).unwrap_err();
        (error.class(), error.to_string(), format!("{error:?}"))
    };
    let retried = |text: &str| (ErrorClass::Retry, text.to_owned(), text.to_owned());
    assert_eq!(told(0), retried("a text"));
    assert_eq!((told(1), told(2)), (retried("outer: inner"), retried("outer: inner")));
    assert_eq!(told(3), (ErrorClass::Dead, "never".into(), "never (Dead)".into()));
    assert_eq!(told(4), retried("no disk"));

    let wait = Duration::from_secs(7);
    let soon = || JobError::retry_in(wait, std::io::Error::other("no disk"));
    let through_anyhow = JobError::from(anyhow::Error::new(soon().into_error()).context("outer"));
    let through_eyre = JobError::from(eyre::Report::new(soon().into_error()).wrap_err("outer"));
    for error in [through_anyhow, through_eyre] {
        assert_eq!((error.class(), error.to_string()), (ErrorClass::RetryIn(wait), "outer: no disk".into()));
    }
    assert_eq!(JobError::new(soon().into_error()).to_string(), "no disk");
}

#[tokio::test]
async fn an_output_that_is_no_json_is_dead_with_a_reason() {
    let (class, text) = failure("unstorable", json!({})).await;
    assert_eq!(class, ErrorClass::Dead);
    assert_eq!(text, "the output can't be stored as JSON: key must be a string");
}

#[test]
fn a_payload_that_does_not_fit_is_refused_by_name() {
    let (ctx, _switch) = context(1);
    let data = DataMap::default();
    let refused = (entry("mail:welcome").run)(r#"{"userId": -1, "email": ""}"#, &ctx, &data)
        .err()
        .expect("does not fit");
    let text = refused.to_string();
    assert!(
        text.starts_with(
            "the payload does not fit `mail:welcome` of this build: invalid value: integer `-1`"
        ),
        "{text}"
    );
    assert!((entry("mail:welcome").check)("{").is_err());
}

#[test]
fn every_job_of_these_tests_has_a_name_of_its_own() {
    jobq::Registry::linked().map(drop).unwrap_or_else(|error| panic!("{error}"));
}
