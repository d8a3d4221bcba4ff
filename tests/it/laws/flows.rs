//! Flows: what follows from each end, what is counted where, and what a person's retry takes back.

use super::{ground::*, on_every_store};
use jobq::{
    FlowId, JobFilter,
    job::{JobId, NewJob},
    state::JobState,
    store::{
        Acted, BatchOutcome, Claimed, Completion, FlowRow, FlowState, Link, NewFlow, Next, Settled, Strand,
    },
};

on_every_store![
    an_output_is_the_next_jobs_payload_and_the_last_end_ends_the_flow,
    a_failed_link_ends_the_chain_and_a_persons_retry_goes_on_with_it,
    a_cancelled_link_ends_the_chain_whether_it_waited_or_ran,
    when_all_have_ended_what_follows_is_told_how,
    a_chain_in_a_batch_counts_once_when_its_last_link_has_ended,
    each_element_of_an_output_has_a_job_and_one_follows_when_all_have_ended,
    an_output_without_elements_goes_on_at_once,
    a_flow_in_a_flow_counts_once_and_by_its_worst,
    a_retry_after_what_follows_was_laid_counts_nothing_twice,
    a_completed_job_that_is_run_again_lays_nothing_twice,
    a_late_result_follows_from_nothing,
    links_keep_what_they_were_given,
    a_flow_without_jobs_has_ended,
    its_jobs_are_found_by_it_and_it_goes_with_the_last_of_them,
    a_flow_that_no_store_takes_is_refused_whole,
];

const FLOW: &str = "flow";

fn link(job_type: &str) -> Link {
    Link {
        job_type: job_type.into(),
        queue: "default".into(),
        priority: 0,
        max_attempts: 3,
        timeout: None,
        backoff: None,
        retain: None,
        label: None,
        version: 1,
        delay: None,
        each: false,
    }
}

fn each(job_type: &str) -> Link {
    Link { each: true, ..link(job_type) }
}

fn first() -> NewJob {
    of_type(FLOW)
}

fn strand(links: &[&str]) -> Strand {
    Strand::Job(Box::new(first()), links.iter().map(|name| link(name)).collect())
}

fn batch(count: usize, follow: Vec<Link>) -> NewFlow {
    NewFlow { strands: (0..count).map(|_| strand(&[])).collect(), follow }
}

async fn lay(g: &Ground, flow: NewFlow) -> (FlowId, Vec<JobId>) {
    let laid = g.store.enqueue_flow(flow, NOW).await.unwrap();
    (laid.id, laid.jobs)
}

async fn row(g: &Ground, id: FlowId) -> FlowRow {
    g.store.flow(id).await.unwrap().unwrap()
}

async fn outcome(g: &Ground, id: FlowId) -> (u64, u64, u64) {
    let BatchOutcome { succeeded, failed, cancelled } = row(g, id).await.outcome;
    (succeeded, failed, cancelled)
}

async fn claim(g: &Ground, job_type: &str) -> Vec<Claimed> {
    g.claim_of(&[job_type], None, 100, NOW + 9).await
}

/// Claims, and that is one job.
async fn take(g: &Ground, job_type: &str) -> Claimed {
    let mut jobs = claim(g, job_type).await;
    assert_eq!(jobs.len(), 1, "{job_type}");
    jobs.remove(0)
}

async fn complete(g: &Ground, job: &Claimed, result: &str) {
    let ended = Completion { id: job.id, lease: job.lease, result: Some(result.into()), ties: job.ties };
    assert_eq!(g.store.complete(vec![ended], NOW + 10).await.unwrap(), [Settled::Applied]);
}

async fn kill(g: &Ground, job: &Claimed) {
    let ended = jobq::store::Failure { ties: job.ties, ..failure(job.id, job.lease, Next::Dead) };
    assert_eq!(g.store.fail(vec![ended], NOW + 10).await.unwrap(), [Settled::Applied]);
}

async fn an_output_is_the_next_jobs_payload_and_the_last_end_ends_the_flow(g: &Ground) {
    let flow = NewFlow { strands: vec![strand(&["second", "third"])], follow: Vec::new() };
    let (id, jobs) = lay(g, flow).await;
    assert_eq!((row(g, id).await.total, row(g, id).await.state()), (1, FlowState::Running));
    let job = take(g, FLOW).await;
    assert_eq!(job.id, jobs[0]);
    assert_eq!(claim(g, "second").await, []);
    complete(g, &job, "[1,2]").await;
    let second = take(g, "second").await;
    assert_eq!(second.payload, r#"{"$output":[1,2]}"#);
    assert_eq!(g.row(second.id).await.flow, Some(id));
    let ended = Completion { id: second.id, lease: second.lease, result: None, ties: second.ties };
    g.store.complete(vec![ended], NOW).await.unwrap();
    let third = take(g, "third").await;
    assert_eq!(third.payload, r#"{"$output":null}"#);
    assert_eq!(row(g, id).await.state(), FlowState::Running);
    complete(g, &third, "7").await;
    let row = row(g, id).await;
    assert_eq!((row.outcome.succeeded, row.live, row.state()), (1, 0, FlowState::Succeeded));
    assert_eq!(row.joined_at, Some(NOW + 10));
}

async fn a_failed_link_ends_the_chain_and_a_persons_retry_goes_on_with_it(g: &Ground) {
    let flow = NewFlow { strands: vec![strand(&["second", "third"])], follow: Vec::new() };
    let (id, _) = lay(g, flow).await;
    complete(g, &take(g, FLOW).await, "1").await;
    let second = take(g, "second").await;
    // Another attempt is no end.
    assert_eq!(g.fail(second.id, second.lease, Next::At(NOW), NOW).await, Settled::Applied);
    assert_eq!(outcome(g, id).await, (0, 0, 0));
    let second = take(g, "second").await;
    kill(g, &second).await;
    assert_eq!((outcome(g, id).await, row(g, id).await.state()), ((0, 1, 0), FlowState::Failed));
    assert_eq!(claim(g, "third").await, []);
    assert_eq!(g.retry(second.id, NOW + 20).await, Acted::Done);
    assert_eq!((outcome(g, id).await, row(g, id).await.state()), ((0, 0, 0), FlowState::Running));
    complete(g, &take(g, "second").await, "2").await;
    let third = take(g, "third").await;
    assert_eq!(third.payload, r#"{"$output":2}"#);
    complete(g, &third, "3").await;
    assert_eq!((outcome(g, id).await, row(g, id).await.state()), ((1, 0, 0), FlowState::Succeeded));
}

async fn a_cancelled_link_ends_the_chain_whether_it_waited_or_ran(g: &Ground) {
    let two = NewFlow { strands: vec![strand(&["second"]), strand(&["second"])], follow: Vec::new() };
    let (id, jobs) = lay(g, two).await;
    assert_eq!(g.cancel(jobs[0], NOW).await, Acted::Done);
    assert_eq!(outcome(g, id).await, (0, 0, 1));
    let running = take(g, FLOW).await;
    assert_eq!(g.cancel(running.id, NOW).await, Acted::Asked);
    assert_eq!(outcome(g, id).await, (0, 0, 1));
    assert_eq!(g.release(running.id, running.lease, NOW).await, Settled::Applied);
    assert_eq!(g.state(running.id).await, JobState::Cancelled);
    assert_eq!((outcome(g, id).await, row(g, id).await.state()), ((0, 0, 2), FlowState::Cancelled));
    assert_eq!(claim(g, "second").await, []);
    assert_eq!(g.retry(jobs[0], NOW).await, Acted::Done);
    complete(g, &take(g, FLOW).await, "1").await;
    assert_eq!((outcome(g, id).await, claim(g, "second").await.len()), ((0, 0, 1), 1));
}

async fn when_all_have_ended_what_follows_is_told_how(g: &Ground) {
    let (id, jobs) = lay(g, batch(4, vec![link("told"), link("after")])).await;
    let running = claim(g, FLOW).await;
    complete(g, &running[0], "1").await;
    complete(g, &running[1], "1").await;
    kill(g, &running[2]).await;
    assert_eq!(claim(g, "told").await, []);
    assert_eq!(g.rescue(jobs[3], running[3].lease, Next::Dead, NOW + 5).await, Settled::Applied);
    let told = take(g, "told").await;
    assert_eq!(told.payload, r#"{"$output":{"succeeded":2,"failed":2,"cancelled":0}}"#);
    let shown = row(g, id).await;
    assert_eq!((shown.total, shown.follow.as_deref(), shown.live), (4, Some("told"), 1));
    complete(g, &told, "5").await;
    let after = take(g, "after").await;
    assert_eq!((&*after.payload, g.row(after.id).await.flow), (r#"{"$output":5}"#, Some(id)));
    complete(g, &after, "6").await;
    assert_eq!((outcome(g, id).await, row(g, id).await.state()), ((2, 2, 0), FlowState::Failed));
}

async fn a_chain_in_a_batch_counts_once_when_its_last_link_has_ended(g: &Ground) {
    let flow = NewFlow { strands: vec![strand(&["second"]), strand(&[])], follow: vec![link("told")] };
    let (id, _) = lay(g, flow).await;
    for job in claim(g, FLOW).await {
        complete(g, &job, "1").await;
    }
    assert_eq!((outcome(g, id).await, claim(g, "told").await.len()), ((1, 0, 0), 0));
    complete(g, &take(g, "second").await, "1").await;
    assert_eq!(outcome(g, id).await, (2, 0, 0));
    take(g, "told").await;
}

async fn each_element_of_an_output_has_a_job_and_one_follows_when_all_have_ended(g: &Ground) {
    let split = Strand::Job(Box::new(first()), vec![each("part"), link("joined"), link("after")]);
    let (id, _) = lay(g, NewFlow { strands: vec![split], follow: Vec::new() }).await;
    complete(g, &take(g, FLOW).await, r#"["a", {"b": 1} ,null]"#).await;
    let parts = claim(g, "part").await;
    let payloads: Vec<_> = parts.iter().map(|part| &*part.payload).collect();
    assert_eq!(payloads, [r#"{"$output":"a"}"#, r#"{"$output":{"b": 1}}"#, r#"{"$output":null}"#]);
    let inner = g.row(parts[0].id).await.flow.unwrap();
    assert_eq!((row(g, inner).await.parent, row(g, inner).await.total), (Some(id), 3));
    assert_eq!((outcome(g, id).await, row(g, id).await.live), ((0, 0, 0), 1));
    for part in &parts {
        complete(g, part, "1").await;
    }
    let joined = take(g, "joined").await;
    assert_eq!(joined.payload, r#"{"$output":{"succeeded":3,"failed":0,"cancelled":0}}"#);
    assert_eq!(g.row(joined.id).await.flow, Some(id), "it is the strand of the chain again");
    complete(g, &joined, "2").await;
    complete(g, &take(g, "after").await, "3").await;
    assert_eq!((outcome(g, id).await, row(g, id).await.state()), ((1, 0, 0), FlowState::Succeeded));
}

async fn an_output_without_elements_goes_on_at_once(g: &Ground) {
    let split = |follow: &[&str]| {
        let links = std::iter::once(each("part")).chain(follow.iter().map(|name| link(name)));
        NewFlow { strands: vec![Strand::Job(Box::new(first()), links.collect())], follow: Vec::new() }
    };
    let (told, _) = lay(g, split(&["joined"])).await;
    complete(g, &take(g, FLOW).await, "[]").await;
    let joined = take(g, "joined").await;
    assert_eq!(joined.payload, r#"{"$output":{"succeeded":0,"failed":0,"cancelled":0}}"#);
    complete(g, &joined, "1").await;
    let (untold, _) = lay(g, split(&[])).await;
    complete(g, &take(g, FLOW).await, "[]").await;
    for id in [told, untold] {
        assert_eq!((outcome(g, id).await, row(g, id).await.state()), ((1, 0, 0), FlowState::Succeeded));
    }
}

async fn a_flow_in_a_flow_counts_once_and_by_its_worst(g: &Ground) {
    let flow = NewFlow {
        strands: vec![
            Strand::Flow(batch(2, Vec::new())),
            Strand::Flow(batch(2, vec![link("inner")])),
            strand(&[]),
        ],
        follow: vec![link("told")],
    };
    let (id, jobs) = lay(g, flow).await;
    assert_eq!((jobs.len(), row(g, id).await.total), (5, 3));
    let running = claim(g, FLOW).await;
    complete(g, &running[0], "1").await;
    kill(g, &running[1]).await;
    assert_eq!(outcome(g, id).await, (0, 1, 0), "one of its two is dead");
    kill(g, &running[2]).await;
    complete(g, &running[3], "1").await;
    assert_eq!(outcome(g, id).await, (0, 1, 0), "what follows in it has not ended");
    complete(g, &take(g, "inner").await, "1").await;
    assert_eq!(outcome(g, id).await, (1, 1, 0), "that it was told of failures is its matter");
    complete(g, &running[4], "1").await;
    assert_eq!(take(g, "told").await.payload, r#"{"$output":{"succeeded":2,"failed":1,"cancelled":0}}"#);
}

async fn a_retry_after_what_follows_was_laid_counts_nothing_twice(g: &Ground) {
    let flow = NewFlow { strands: vec![strand(&["second"]), strand(&[])], follow: vec![link("told")] };
    let (id, jobs) = lay(g, flow).await;
    let running = claim(g, FLOW).await;
    kill(g, &running[0]).await;
    complete(g, &running[1], "1").await;
    complete(g, &take(g, "told").await, "1").await;
    assert_eq!(outcome(g, id).await, (1, 1, 0));
    assert_eq!(g.retry(jobs[0], NOW).await, Acted::Done);
    assert_eq!(row(g, id).await.state(), FlowState::Running, "a job of it lives");
    complete(g, &take(g, FLOW).await, "1").await;
    complete(g, &take(g, "second").await, "1").await;
    assert_eq!((outcome(g, id).await, claim(g, "told").await.len()), ((1, 1, 0), 0));
}

async fn a_completed_job_that_is_run_again_lays_nothing_twice(g: &Ground) {
    let flow = NewFlow { strands: vec![strand(&["second"])], follow: Vec::new() };
    let (id, jobs) = lay(g, flow).await;
    complete(g, &take(g, FLOW).await, "1").await;
    let second = take(g, "second").await;
    assert_eq!(g.retry(jobs[0], NOW).await, Acted::Done);
    complete(g, &take(g, FLOW).await, "1").await;
    assert_eq!((outcome(g, id).await, claim(g, "second").await.len()), ((0, 0, 0), 0));
    complete(g, &second, "1").await;
    assert_eq!(outcome(g, id).await, (1, 0, 0));
    // The last one of a chain has counted; run again, it counts again, and once.
    assert_eq!(g.retry(second.id, NOW).await, Acted::Done);
    assert_eq!(outcome(g, id).await, (0, 0, 0));
    complete(g, &take(g, "second").await, "1").await;
    assert_eq!(outcome(g, id).await, (1, 0, 0));
}

async fn a_late_result_follows_from_nothing(g: &Ground) {
    let (id, _) = lay(g, NewFlow { strands: vec![strand(&["second"])], follow: Vec::new() }).await;
    let lost = take(g, FLOW).await;
    assert_eq!(g.rescue(lost.id, lost.lease, Next::At(NOW), NOW).await, Settled::Applied);
    let late = Completion { id: lost.id, lease: lost.lease, result: Some("1".into()), ties: lost.ties };
    assert_eq!(g.store.complete(vec![late], NOW).await.unwrap(), [Settled::LeaseLost]);
    assert_eq!((outcome(g, id).await, claim(g, "second").await.len()), ((0, 0, 0), 0));
}

async fn links_keep_what_they_were_given(g: &Ground) {
    let given = Link {
        queue: "images".into(),
        priority: 7,
        max_attempts: 9,
        timeout: Some(30_000),
        retain: Some(5000),
        label: Some("Resize".into()),
        version: 4,
        delay: Some(60_000),
        ..link("second")
    };
    lay(g, NewFlow { strands: vec![Strand::Job(Box::new(first()), vec![given])], follow: Vec::new() }).await;
    complete(g, &take(g, FLOW).await, "1").await;
    let id = g.listed(JobFilter::default().job_type("second")).await[0];
    let row = g.row(id).await;
    assert_eq!((&*row.queue, row.priority, row.max_attempts, row.version), ("images", 7, 9, 4));
    assert_eq!(
        (row.state, row.run_at, row.label.as_deref()),
        (JobState::Scheduled, NOW + 60_010, Some("Resize"))
    );
    assert_eq!(row.retain, Some(std::time::Duration::from_secs(5)));
    assert_eq!(row.timeout, Some(jobq::Timeout::After(std::time::Duration::from_secs(30))));
}

async fn a_flow_without_jobs_has_ended(g: &Ground) {
    let (id, jobs) = lay(g, batch(0, vec![link("told")])).await;
    assert_eq!((jobs.len(), row(g, id).await.joined_at), (0, Some(NOW)));
    complete(g, &take(g, "told").await, "1").await;
    let (nothing, _) = lay(g, batch(0, Vec::new())).await;
    assert_eq!(row(g, nothing).await.state(), FlowState::Succeeded);
}

async fn its_jobs_are_found_by_it_and_it_goes_with_the_last_of_them(g: &Ground) {
    let (id, jobs) = lay(g, batch(2, Vec::new())).await;
    let (other, _) = lay(g, batch(1, Vec::new())).await;
    assert_eq!(g.listed(JobFilter::default().flow(id)).await, [jobs[1], jobs[0]]);
    for job in claim(g, FLOW).await {
        complete(g, &job, "1").await;
    }
    assert_eq!(g.delete(jobs[0], NOW).await, Acted::Done);
    let keep = jobq::store::Retention { finished: None, dead: None };
    g.store.prune(keep, NOW + 50).await.unwrap();
    assert_eq!(outcome(g, id).await, (2, 0, 0), "what is deleted has counted");
    assert_eq!(g.delete(jobs[1], NOW).await, Acted::Done);
    g.store.prune(keep, NOW + 86_400_009).await.unwrap();
    assert!(g.store.flow(id).await.unwrap().is_some(), "for a day");
    g.store.prune(keep, NOW + 86_400_010).await.unwrap();
    assert_eq!(g.store.flow(id).await.unwrap(), None);
    assert!(g.store.flow(other).await.unwrap().is_some());
    assert_eq!(g.store.flow("00000000-0000-8000-8000-000000000000".parse().unwrap()).await.unwrap(), None);
}

async fn a_flow_that_no_store_takes_is_refused_whole(g: &Ground) {
    let bad = Strand::Job(Box::new(NewJob { max_attempts: 0, ..first() }), Vec::new());
    let flow = NewFlow {
        strands: vec![strand(&[]), Strand::Flow(NewFlow { strands: vec![bad], follow: Vec::new() })],
        follow: Vec::new(),
    };
    assert!(is_invalid(g.store.enqueue_flow(flow, NOW).await));
    assert_eq!(g.listed(JobFilter::default().job_type(FLOW)).await, []);
}
