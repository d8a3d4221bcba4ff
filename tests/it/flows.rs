//! Flows as their users write them: chains, batches, fan-out and fan-in, run by workers.

use jobq::{
    BatchOutcome, EnqueueError, FlowHandle, FlowState, JobFilter, JobState, Registry, batch, prelude::*,
    testing::*,
};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::sync::{Arc, Mutex};

/// What the functions were given.
#[derive(Clone, Default)]
struct Told(Arc<Mutex<Vec<String>>>);

impl Told {
    fn tell(&self, text: impl Into<String>) {
        self.0.lock().unwrap().push(text.into());
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Page {
    url: String,
    pictures: Vec<String>,
}

#[job(type = "flows:fetch", max_attempts = 2, backoff = fixed("1s"))]
async fn fetch_page(#[data] told: &Told, url: String) -> Result<Page, JobError> {
    told.tell(format!("fetch {url}"));
    match &*url {
        "bad" => Err("no such host".into()),
        "flaky" if told.0.lock().unwrap().len() < 2 => Err("once more".into()),
        url => Ok(Page { url: url.to_owned(), pictures: vec!["a.png".into(), "b.png".into()] }),
    }
}

/// Its one argument is the output of the one before.
#[job(type = "flows:pictures", queue = "images", serde(rename_all = "camelCase"))]
async fn find_pictures(#[data] told: &Told, found_page: Page) -> Result<Vec<String>, JobError> {
    told.tell(format!("pictures of {}", found_page.url));
    Ok(found_page.pictures)
}

#[job(type = "flows:shrink")]
async fn shrink(#[data] told: &Told, picture: String) -> Result<(String, u32), JobError> {
    told.tell(format!("shrink {picture}"));
    if picture == "b.bad" { Err(JobError::dead("no picture")) } else { Ok((picture, 7)) }
}

/// Two arguments are a tuple.
#[job(type = "flows:store")]
async fn store(#[data] told: &Told, name: String, #[serde(default)] size: u32) -> Result<(), JobError> {
    told.tell(format!("store {name} {size}"));
    Ok(())
}

#[job(type = "flows:finish")]
async fn finish(#[data] told: &Told) -> Result<u8, JobError> {
    told.tell("finish");
    Ok(9)
}

#[job(type = "flows:summarise", label = "Summary")]
async fn summarise(#[data] told: &Told, outcome: BatchOutcome) -> Result<(), JobError> {
    let BatchOutcome { succeeded, failed, cancelled } = outcome;
    told.tell(format!("{succeeded} succeeded, {failed} failed, {cancelled} cancelled"));
    Ok(())
}

#[job(type = "flows:log-in")]
async fn log_in(#[data] told: &Told, user: String, #[secret] password: String) -> Result<String, JobError> {
    told.tell(format!("{user} {password}"));
    Ok(user)
}

/// Runs what is due, until nothing follows any more.
async fn drain(queue: &JobQueue, told: &Told) {
    let worker =
        Worker::new(queue).jobs((fetch_page, find_pictures, shrink, store, finish, summarise, log_in));
    worker.data(told.clone()).drain().await.unwrap();
}

async fn state(flow: &FlowHandle) -> FlowState {
    flow.row().await.unwrap().unwrap().state()
}

async fn a_chain_hands_each_output_on(queue: TestQueue) {
    let told = Told::default();
    let bystander = finish.enqueue(()).delay(days(9)).on(&queue).await.unwrap();
    let flow = shrink.enqueue("a.png".into()).then(store).then(finish).on(&queue).await.unwrap();
    assert_eq!((flow.jobs().len(), state(&flow).await), (1, FlowState::Running));
    drain(&queue, &told).await;
    assert_eq!(told.take()[..3], ["shrink a.png", "store a.png 7", "finish"]);
    assert_eq!(state(&flow).await, FlowState::Succeeded);
    let rows = queue.list(JobFilter::default().flow(flow.id())).await.unwrap();
    assert_eq!(
        rows.iter().map(|row| &*row.job_type).collect::<Vec<_>>(),
        ["flows:finish", "flows:store", "flows:shrink"]
    );
    assert!(rows.iter().all(|row| row.state == JobState::Completed && row.flow == Some(flow.id())));
    assert_eq!(rows[0].result.as_deref(), Some("9"));
    assert!(queue.get(bystander.id()).await.unwrap().unwrap().flow.is_none());
}

async fn a_list_fans_out_and_in(queue: TestQueue) {
    let told = Told::default();
    let flow = fetch_page
        .enqueue("x".into())
        .then(find_pictures.link().priority(5))
        .then_each(shrink)
        .then(summarise)
        .on(&queue)
        .await
        .unwrap();
    drain(&queue, &told).await;
    let mut lines = told.take();
    lines[2..4].sort();
    assert_eq!(
        lines,
        ["fetch x", "pictures of x", "shrink a.png", "shrink b.png", "2 succeeded, 0 failed, 0 cancelled"]
    );
    assert_eq!(state(&flow).await, FlowState::Succeeded);
    let rows = queue.list(JobFilter::default().job_type(FindPictures::TYPE)).await.unwrap();
    assert_eq!((rows[0].priority, &*rows[0].queue), (5, "images"), "of the link, and of the type");
}

async fn a_batch_of_all_kinds_is_summed_up_once(queue: TestQueue) {
    let told = Told::default();
    let shrinks = ["a.png", "b.bad", "c.png"].map(|picture| Shrink { picture: picture.into() });
    let chain = fetch_page.enqueue("x".into()).then(find_pictures);
    let inner = batch([Finish {}, Finish {}]).then(summarise);
    let flow = batch(shrinks)
        .and([Finish {}])
        .and_flow(chain)
        .and_flow(inner)
        .then(summarise)
        .on(&queue)
        .await
        .unwrap();
    assert_eq!(flow.jobs().len(), 7);
    drain(&queue, &told).await;
    let lines = told.take();
    assert_eq!(lines.last().unwrap(), "5 succeeded, 1 failed, 0 cancelled");
    assert_eq!(lines.iter().filter(|line| line.contains("succeeded")).count(), 2);
    assert_eq!(state(&flow).await, FlowState::Failed);
}

async fn a_retry_goes_on_with_the_chain(queue: TestQueue) {
    let told = Told::default();
    let flow = fetch_page.enqueue("bad".into()).then(find_pictures).on(&queue).await.unwrap();
    let after_retry = fetch_page.enqueue("flaky".into()).then(find_pictures).on(&queue).await.unwrap();
    drain(&queue, &told).await;
    queue.advance(secs(2));
    drain(&queue, &told).await;
    assert_eq!((state(&flow).await, state(&after_retry).await), (FlowState::Failed, FlowState::Succeeded));
    assert!(!told.take().contains(&"pictures of bad".to_owned()));
    queue.retry(flow.jobs()[0]).await.unwrap();
    assert_eq!(state(&flow).await, FlowState::Running);
}

async fn secrets_and_unknown_types_are_no_matter(queue: TestQueue) {
    let told = Told::default();
    let flow = log_in.enqueue(("ada".into(), "hush".into())).then(shrink).on(&queue).await.unwrap();
    let row = queue.get(flow.jobs()[0]).await.unwrap().unwrap();
    assert!(!row.payload.contains("hush"), "{}", row.payload);
    // A worker that does not know the next type lays it all the same.
    Worker::new(&queue).jobs((log_in,)).data(told.clone()).drain().await.unwrap();
    assert_eq!(told.take(), ["ada hush"]);
    let next = queue.list(JobFilter::default().job_type(Shrink::TYPE)).await.unwrap();
    assert_eq!((next[0].state, &*next[0].payload), (JobState::Pending, r#"{"$output":"ada"}"#));
    assert!(queue.check().await.unwrap().is_ok());
    drain(&queue, &told).await;
    assert_eq!(told.take(), ["shrink ada"]);
    assert_eq!(state(&flow).await, FlowState::Succeeded);
}

async fn what_cannot_be_a_flow_is_refused_whole(queue: TestQueue) {
    let bad =
        batch([Finish {}]).and_flow(finish.enqueue(()).max_attempts(0).then(finish_more)).on(&queue).await;
    assert!(matches!(bad, Err(EnqueueError::NoAttempts)), "{bad:?}");
    let bad = finish.enqueue(()).then(finish_more.link().queue("")).on(&queue).await;
    assert!(bad.is_err());
    assert!(queue.list(JobFilter::default()).await.unwrap().is_empty());
    // Nothing to do is done, and what follows is told so.
    let told = Told::default();
    let flow = batch(Vec::<Finish>::new()).then(summarise).on(&queue).await.unwrap();
    drain(&queue, &told).await;
    assert_eq!(
        (told.take(), state(&flow).await),
        (vec!["0 succeeded, 0 failed, 0 cancelled".to_owned()], FlowState::Succeeded)
    );
}

#[job(type = "flows:finish-more")]
async fn finish_more(#[data] told: &Told, number: u8) {
    told.tell(number.to_string());
}

macro_rules! on_both {
    ($($name:ident)*) => {
        mod memory { $(#[jobq::test] async fn $name(queue: jobq::testing::TestQueue) { super::$name(queue).await; })* }
        mod sqlite { $(#[jobq::test(sqlite)] async fn $name(queue: jobq::testing::TestQueue) { super::$name(queue).await; })* }
    };
}

on_both! {
    a_chain_hands_each_output_on
    a_list_fans_out_and_in
    a_batch_of_all_kinds_is_summed_up_once
    a_retry_goes_on_with_the_chain
    secrets_and_unknown_types_are_no_matter
    what_cannot_be_a_flow_is_refused_whole
}

/// An output is read by the names that rows have, and one that does not fit says why.
#[test]
fn outputs_are_read_as_arguments() {
    let linked = Registry::linked().unwrap();
    let read = |name: &str, output: serde_json::Value| {
        let payload = json!({ "$output": output }).to_string();
        linked.get(name).unwrap().read(1, &payload).map(|read| read.payload).map_err(|why| why.to_string())
    };
    assert_eq!(read("flows:shrink", json!("a")).unwrap(), r#"{"picture":"a"}"#);
    assert_eq!(read("flows:store", json!(["a", 7])).unwrap(), r#"{"name":"a","size":7}"#);
    assert_eq!(read("flows:finish", json!(null)).unwrap(), "{}");
    let page = json!({ "url": "x", "pictures": [] });
    assert_eq!(read("flows:pictures", page).unwrap(), r#"{"foundPage":{"url":"x","pictures":[]}}"#);
    let error = read("flows:store", json!(["a"])).unwrap_err();
    assert!(error.contains("gave 1 values, and its function takes 2"), "{error}");
    assert!(read("flows:shrink", json!(7)).unwrap_err().contains("expected a string"));
}

#[tokio::test]
async fn a_flow_in_a_transaction_is_there_when_that_commits() {
    let (told, folder) = (Told::default(), tempfile::tempdir().unwrap());
    let path = folder.path().join("app.db");
    let queue = JobQueue::open(path.to_str().unwrap()).await.unwrap();
    let pool = jobq::sqlx::SqlitePool::connect(path.to_str().unwrap()).await.unwrap();
    for commits in [false, true] {
        let mut tx = pool.begin_with("BEGIN IMMEDIATE").await.unwrap();
        let chain = shrink.enqueue("a.png".into()).then(store);
        let inner = batch([Finish {}]).then(summarise);
        let flow = batch([Finish {}, Finish {}]).and_flow(chain).and_flow(inner).then(summarise);
        let flow = flow.on(&queue).in_tx(&mut *tx).await.unwrap();
        let empty = batch(Vec::<Finish>::new()).on(&queue).in_tx(&mut *tx).await.unwrap();
        if commits {
            tx.commit().await.unwrap();
            drain(&queue, &told).await;
            assert_eq!(told.take().last().unwrap(), "4 succeeded, 0 failed, 0 cancelled");
            assert_eq!(
                (state(&flow).await, state(&empty).await),
                (FlowState::Succeeded, FlowState::Succeeded)
            );
        } else {
            tx.rollback().await.unwrap();
            assert!(
                flow.row().await.unwrap().is_none()
                    && queue.list(JobFilter::default()).await.unwrap().is_empty()
            );
        }
    }
}

#[job(type = "flows:optional")]
async fn optional(#[data] told: &Told, note: Option<String>) {
    told.tell(format!("{note:?}"));
}

/// Who enqueues by name gives arguments, whatever they look like.
#[jobq::test]
async fn a_payload_that_looks_like_an_output_is_none(queue: TestQueue) {
    let told = Told::default();
    let payload = json!({ "$output": "no note" });
    let id = queue.enqueue_raw("flows:optional", payload).await.unwrap().id;
    assert_eq!(queue.get(id).await.unwrap().unwrap().payload, r#"{"note":null}"#);
    Worker::new(&queue).jobs((optional,)).data(told.clone()).drain().await.unwrap();
    assert_eq!(told.take(), ["None"]);
}
