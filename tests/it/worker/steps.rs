//! Steps of a running job: each runs once, its result is the same for all attempts, and whoever has lost the job
//! records nothing.

use super::ground::*;
use jobq::{
    JobState, StepError, StoreError,
    job::{MAX_NAME, MAX_RESULT, MAX_STEPS},
    prelude::*,
    store::Next,
};
use std::sync::{Arc, Mutex};

/// What the steps of a test did.
#[derive(Clone, Default)]
struct Did(Arc<Mutex<Vec<String>>>);

impl Did {
    fn say(&self, what: impl Into<String>) {
        self.0.lock().unwrap().push(what.into());
    }

    fn ran(&self) -> u32 {
        self.say("ran");
        0
    }

    fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

/// Charges, fails once, ships.
#[job(type = "steps:fulfils", max_attempts = 5, backoff = fixed("1s"))]
async fn fulfils(ctx: &JobContext, #[data] did: &Did, order: u64) -> Result<(u64, u64), JobError> {
    let charge = ctx
        .step("charge", || async {
            did.say("charge");
            Ok(order * 10)
        })
        .await?;
    if ctx.attempt() == 1 {
        return Err(JobError::new("not yet"));
    }
    let ship = ctx
        .step("ship", || async {
            did.say("ship");
            Ok(charge + 1)
        })
        .await?;
    Ok((charge, ship))
}

#[tokio::test]
async fn a_step_runs_once_and_later_attempts_are_given_its_result() {
    let g = ground();
    let (bystander, did) = (g.bystander().await, Did::default());
    let worker = g.worker().data(did.clone()).jobs((fulfils,)).start().await.unwrap();
    let id = fulfils.enqueue(7).on(&g.queue).await.unwrap().id();
    g.pass(secs(3)).await;
    assert_eq!(g.row(id).await.result.as_deref(), Some("[70,71]"));
    assert_eq!(did.all(), ["charge", "ship"]);
    let steps = g.queue.steps(id).await.unwrap();
    let seen: Vec<_> = steps.iter().map(|step| (&*step.name, step.lease)).collect();
    assert_eq!(seen, [("charge", 1), ("ship", 2)]);
    // A completed job that is run again begins anew.
    g.queue.retry(id).await.unwrap();
    g.pass(secs(3)).await;
    assert_eq!((g.state(id).await, did.all().len()), (JobState::Completed, 4));
    worker.stop().await.unwrap();
    g.untouched(bystander).await;
}

/// The same on a thread of its own.
#[job(type = "steps:blocks", max_attempts = 5, backoff = fixed("1s"), blocking)]
fn blocks(ctx: &JobContext, #[data] did: &Did, order: u64) -> Result<u64, JobError> {
    let charge = ctx.blocking_step("charge", || {
        did.say("charge");
        Ok(order * 10)
    })?;
    if ctx.attempt() == 1 { Err(JobError::new("not yet")) } else { Ok(charge) }
}

#[tokio::test]
async fn a_blocking_job_takes_steps_as_well() {
    let (g, did) = (ground(), Did::default());
    let worker = g.worker().data(did.clone()).jobs((blocks,)).start().await.unwrap();
    let id = blocks.enqueue(7).on(&g.queue).await.unwrap().id();
    g.pass_until("it is done", async || g.state(id).await == JobState::Completed).await;
    assert_eq!((g.row(id).await.result.as_deref(), did.all()), (Some("70"), vec!["charge".into()]));
    worker.stop().await.unwrap();
}

/// What a job is to do with its steps, by a word; what it says is what it saw.
#[job(type = "steps:tries", max_attempts = 5, backoff = fixed("1s"))]
async fn tries(
    ctx: &JobContext,
    #[data] did: &Did,
    #[data] stage: &Stage,
    what: String,
) -> Result<(), JobError> {
    let say = |result: Result<u32, StepError>| match result {
        Ok(number) => did.say(number.to_string()),
        Err(error) => did.say(JobError::new(error).to_string()),
    };
    match &*what {
        "twice" => {
            say(ctx.step("a", || async { Ok(1) }).await);
            say(ctx.step("a", || async { Ok(2) }).await);
        }
        "at once" => {
            let slow = ctx.step("a", || async {
                stage.enter(1);
                stage.passes(1).await;
                Ok(1)
            });
            let quick = async {
                let quick = ctx.step("a", || async { Ok(2) }).await;
                stage.open(1);
                quick
            };
            let (slow, quick) = tokio::join!(slow, quick);
            say(slow);
            say(quick);
        }
        "inside" => say(ctx.step("a", || async { Ok(ctx.step("a", || async { Ok(2) }).await?) }).await),
        "again after a failure" => {
            say(ctx.step("a", || async { Err::<u32, _>(JobError::new("no luck")) }).await);
            say(ctx.step("a", || async { Ok(2) }).await);
        }
        "again after it was dropped" => {
            let dropped = ctx.step("a", std::future::pending::<Result<u32, JobError>>);
            tokio::select! {
                biased;
                _ = dropped => {}
                () = std::future::ready(()) => {}
            }
            say(ctx.step("a", || async { Ok(2) }).await);
        }
        "bad names" => {
            for name in ["", "a\0b", &"é".repeat(MAX_NAME / 2 + 1)] {
                say(ctx.step(name, || async { Ok(did.ran()) }).await);
            }
        }
        "too large" => {
            let result = ctx.step("a", || async { Ok("x".repeat(MAX_RESULT)) }).await;
            did.say(result.unwrap_err().to_string());
        }
        "unstorable" => {
            let result = ctx.step("a", || async { Ok(f64::NAN) }).await;
            did.say(JobError::new(result.unwrap_err()).to_string());
        }
        "too many" => {
            for n in 0..MAX_STEPS {
                ctx.step(&format!("step {n}"), || async { Ok(()) }).await?;
            }
            say(ctx.step("one more", || async { Ok(did.ran()) }).await);
        }
        "dead" => {
            ctx.step("a", || async { Err::<(), _>(JobError::dead("never again")) }).await?;
        }
        "snooze" => {
            ctx.step("a", || async { Err::<(), _>(JobError::snooze(hours(1))) }).await?;
        }
        "panic" if ctx.attempt() == 1 => {
            ctx.step("a", || async { if true { panic!("out of luck") } else { Ok(()) } }).await?;
        }
        "changed" if ctx.attempt() == 1 => {
            ctx.step("a", || async { Ok("text".to_owned()) }).await?;
            return Err(JobError::new("once more"));
        }
        "changed" => say(ctx.step("a", || async { Ok(did.ran()) }).await),
        _ => say(ctx.step("a", || async { Ok(1) }).await),
    }
    Ok(())
}

async fn tried(what: &str) -> (Ground, jobq::JobId, Vec<String>) {
    let (g, did) = (ground(), Did::default());
    let worker = g.worker().data(did.clone()).jobs((tries,)).start().await.unwrap();
    let id = tries.enqueue(what.into()).on(&g.queue).await.unwrap().id();
    g.pass(secs(5)).await;
    at_once("the stop", worker.stop()).await.unwrap();
    (g, id, did.all())
}

const TAKEN: &str = "there was a step \"a\" in this attempt already, and a step runs once for a job: put what differs \
                     into the name, such as \"a 17\"";

#[tokio::test]
async fn a_name_is_used_once_in_an_attempt() {
    assert_eq!(tried("twice").await.2, ["1", TAKEN]);
    assert_eq!(tried("at once").await.2, ["1", TAKEN]);
    assert_eq!(tried("inside").await.2, [format!("step \"a\" failed: {TAKEN}")]);
}

#[tokio::test]
async fn a_step_that_came_to_nothing_may_run_again() {
    assert_eq!(tried("again after a failure").await.2, ["step \"a\" failed: no luck", "2"]);
    assert_eq!(tried("again after it was dropped").await.2, ["2"]);
    let (g, id, _) = tried("panic").await;
    assert_eq!((g.state(id).await, g.row(id).await.attempts), (JobState::Completed, 2));
}

#[tokio::test]
async fn a_step_that_can_not_be_is_an_error_that_says_what_to_write() {
    let named = "a name is 1 to 64 bytes of text";
    let long = "é".repeat(33);
    assert_eq!(
        tried("bad names").await.2,
        [
            format!("a step can't be named \"\": {named}"),
            format!("a step can't be named \"a\\0b\": {named}"),
            format!("a step can't be named {long:?}: {named}"),
        ]
    );
    let large = "the result of step \"a\" is 1048578 bytes of JSON, at most 1048576 are stored: return less, or a \
                 reference to it";
    assert_eq!(tried("too large").await.2, [large]);
    let unstorable = tried("unstorable").await.2;
    assert!(unstorable[0].starts_with("the result of step \"a\" can't be stored as JSON and read back: "));
    let (g, id, said) = tried("too many").await;
    assert_eq!(
        said,
        ["step \"one more\" is one too many, a job has at most 1000: do more in each, or make jobs of them"]
    );
    assert_eq!(g.queue.steps(id).await.unwrap().len(), MAX_STEPS);
}

#[tokio::test]
async fn a_steps_error_says_what_becomes_of_the_job() {
    let (g, id, _) = tried("dead").await;
    let row = g.row(id).await;
    assert_eq!((row.state, row.error.as_deref()), (JobState::Dead, Some("step \"a\" failed: never again")));
    assert_eq!(row.attempts, 1);
    let (g, id, _) = tried("snooze").await;
    assert_eq!((g.state(id).await, g.row(id).await.attempts), (JobState::Scheduled, 0));
}

#[tokio::test]
async fn a_result_that_no_longer_decodes_is_an_error_and_the_step_does_not_run() {
    let (_, _, said) = tried("changed").await;
    assert_eq!(said.len(), 1);
    let why = "what step \"a\" gave in an earlier attempt can't be read by this build: read both forms, or give the \
               step another name, such as \"a v2\", and it runs again: invalid type: string \"text\", expected u32";
    assert!(said[0].starts_with(why), "{}", said[0]);
}

/// Waits at its gate inside of a step.
#[job(type = "steps:waits", max_attempts = 3)]
async fn waits(ctx: &JobContext, #[data] did: &Did, #[data] stage: &Stage, n: u32) -> Result<(), JobError> {
    let step = ctx.step("a", || async {
        stage.enter(n);
        stage.passes(n).await;
        Ok(())
    });
    let result = step.await;
    did.say(format!("{result:?}"));
    Ok(result?)
}

#[tokio::test]
async fn who_has_lost_the_job_records_nothing_and_is_told() {
    let (g, did) = (ground(), Did::default());
    let bystander = g.bystander().await;
    let worker = g.worker().data(did.clone()).jobs((waits,)).start().await.unwrap();
    let id = waits.enqueue(1).on(&g.queue).await.unwrap().id();
    g.stage.until_entered(1).await;
    g.rob(id, Next::Dead).await;
    g.stage.open(1);
    until("its end is refused", async || worker.stats().late == 1).await;
    assert_eq!(did.all(), ["Err(LeaseLost { name: \"a\" })"]);
    assert_eq!(g.queue.steps(id).await.unwrap(), []);
    worker.stop().await.unwrap();
    g.untouched(bystander).await;
}

#[tokio::test]
async fn trouble_of_the_store_is_waited_out_and_the_step_does_not_run_again() {
    let (g, did) = (ground(), Did::default());
    let worker = g.worker().data(did.clone()).jobs((fulfils, waits)).start().await.unwrap();
    g.rig.fail("record_step", StoreError::Backend(Arc::new(std::io::Error::other("disk full"))));
    g.rig.fail("step", busy());
    let id = fulfils.enqueue(7).on(&g.queue).await.unwrap().id();
    g.pass(mins(1)).await;
    assert_eq!((g.state(id).await, did.all()), (JobState::Running, vec!["charge".into()]));
    g.rig.heal_one("record_step");
    g.pass(mins(1)).await;
    assert_eq!((g.row(id).await.attempts, did.all().len()), (2, 1), "it waits to be told what it did before");
    g.rig.heal();
    g.pass(mins(1)).await;
    assert_eq!((g.state(id).await, did.all()), (JobState::Completed, vec!["charge".into(), "ship".into()]));
    worker.stop().await.unwrap();
}
