//! Secrets: what is marked is seen by the function alone, and in the file only sealed, where there is a key.

use crate::worker::ground::log_of;
use jobq::{
    EnqueueError, QueueError, Schedule, SecretKeys, Unique, Worker, assert_enqueued,
    job::NewJob,
    prelude::*,
    refute_enqueued,
    store::{Claim, ClaimSet, NewWorker},
    testing::*,
};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::{
    collections::BTreeMap,
    path::Path,
    sync::{Arc, Mutex},
};
use tracing::Level;

mod sealed;
mod shapes;

/// What nobody is to see, in any of its parts.
const HUSH: &str = "hush-hush-0123456789";

/// What the functions were given.
#[derive(Clone, Default)]
struct Told(Arc<Mutex<Vec<String>>>);

impl Told {
    fn tell(&self, text: impl Into<String>) {
        self.0.lock().unwrap().push(text.into());
    }

    fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

#[derive(Serialize, Deserialize, Clone, PartialEq)]
struct Card {
    number: String,
    month: u8,
}

#[job(
    type = "secret:charge",
    aliases = ["secret:pay"],
    label = "Charge of {cents}",
    max_attempts = 2,
    backoff = fixed("1m"),
    serde(rename_all = "camelCase")
)]
async fn charge(
    ctx: &JobContext,
    #[data] told: &Told,
    cents: u64,
    #[secret] card: Card,
    #[secret] access_code: Option<String>,
) -> Result<u64, JobError> {
    tracing::info!(?ctx, "a job that shows its context");
    told.tell(format!("{} {} {}", card.number, card.month, access_code.as_deref().unwrap_or("none")));
    if cents == 0 { Err("no money".into()) } else { Ok(cents) }
}

#[job(type = "secret:counted")]
async fn counted(#[secret] tokens: BTreeMap<String, u32>, #[secret] pin: u64, tries: u32) {
    let _ = (tokens, pin, tries);
}

fn value(json: &str) -> serde_json::Value {
    serde_json::from_str(json).unwrap()
}

fn card() -> Card {
    Card { number: HUSH.into(), month: 7 }
}

fn a_charge(cents: u64) -> Charge {
    Charge { cents, card: card(), access_code: Some(HUSH.into()) }
}

#[jobq::test]
async fn the_function_is_given_what_nobody_is_shown(queue: TestQueue) {
    let log = log_of(Level::TRACE);
    let told = Told::default();
    let queue = queue.data(told.clone());
    let id = a_charge(0).enqueue().await.unwrap().id();

    let stored = queue.store().get(id).await.unwrap().unwrap();
    assert_eq!(
        value(&stored.payload),
        json!({"cents":0,"card":{"$secret":card()},"accessCode":{"$secret":HUSH}}),
        "the store keeps them, marked"
    );
    let drained = queue.drain_until_idle().await;
    assert_eq!(told.all(), [format!("{HUSH} 7 {HUSH}"), format!("{HUSH} 7 {HUSH}")]);

    let row = queue.get(id).await.unwrap().unwrap();
    assert_eq!(row.payload, r#"{"cents":0,"card":"[redacted]","accessCode":"[redacted]"}"#);
    assert_eq!(format!("{:?}", a_charge(1)), "Charge { cents: 1, card: [redacted], accessCode: [redacted] }");
    let new = NewJob::new("secret:charge", stored.payload.clone());
    let mut pages = queue.pages(JobFilter::default());
    let shown = [
        format!("{stored:?}"),
        serde_json::to_string(&stored).unwrap(),
        format!("{row:?}"),
        format!("{new:?}"),
        format!("{:?}", queue.list(JobFilter::default()).await.unwrap()),
        format!("{:?}", pages.next().await.unwrap()),
        format!("{:?}", queue.attempts(id).await.unwrap()),
        format!("{drained} {drained:?}"),
        format!("{:?}", queue.all::<Charge>().await),
        log.text(),
    ];
    for text in shown {
        assert!(text.contains("secret:charge") || text.contains("no money"), "{text}");
        assert!(!text.contains("hush"), "{text}");
    }
    assert!(log.text().contains("a job that shows its context"));

    let revealed = queue.reveal(id).await.unwrap().unwrap();
    assert_eq!(value(&revealed), json!({"cents":0,"card":card(),"accessCode":HUSH}));
}

#[jobq::test]
async fn a_claim_shows_no_payload(queue: TestQueue) {
    a_charge(1).enqueue().await.unwrap();
    let store = queue.store();
    let sign = NewWorker { beat: secs(5), queues: "all".into() };
    let worker = store.register(sign, 0).await.unwrap();
    let set = Arc::new(ClaimSet { job_types: vec!["secret:charge".into()], queues: None });
    let claim = Claim { worker, set, limit: 1, standing: false };
    let claimed = store.claim(claim, i64::MAX / 2).await.unwrap();
    assert!(claimed[0].payload.contains(HUSH));
    assert!(!format!("{claimed:?}").contains("hush"), "{claimed:?}");
}

#[jobq::test]
async fn jobs_by_name_are_marked_and_rows_without_marks_are_read(queue: TestQueue) {
    let plain = json!({"cents":1,"card":card()});
    let id = queue.enqueue_raw("secret:pay", plain.clone()).label("own").await.unwrap().id;
    let stored = queue.store().get(id).await.unwrap().unwrap();
    assert_eq!(
        value(&stored.payload),
        json!({"cents":1,"card":{"$secret":card()},"accessCode":{"$secret":null}})
    );
    assert_eq!(
        queue.reveal(id).await.unwrap().unwrap(),
        r#"{"cents":1,"card":{"number":"hush-hush-0123456789","month":7},"accessCode":null}"#
    );

    // As it was written before the parameters were secrets, and what was revealed is taken again.
    let old = NewJob::new("secret:charge", plain.to_string());
    queue.store().enqueue(vec![old], 0).await.unwrap();
    let revealed = serde_json::from_str(&queue.reveal(id).await.unwrap().unwrap()).unwrap();
    queue.enqueue_raw("secret:charge", revealed).await.unwrap();
    let told = Told::default();
    queue.drain().data(told.clone()).await.assert_ok();
    assert_eq!(told.all(), [format!("{HUSH} 7 none"), format!("{HUSH} 7 none"), format!("{HUSH} 7 none")]);
    assert_eq!(queue.reveal(jobq::JobId::from(uuid::Uuid::nil())).await.unwrap(), None);
}

#[jobq::test]
async fn no_error_of_ours_quotes_a_secret(queue: TestQueue) {
    let wrong = [
        json!(HUSH),
        json!([HUSH]),
        json!({"tokens":HUSH,"pin":1,"tries":1}),
        json!({"tokens":{"a":HUSH},"pin":1,"tries":1}),
        json!({"tokens":{"$secret":{"a":HUSH}},"pin":1,"tries":1}),
        json!({"tokens":{},"pin":HUSH,"tries":1}),
        json!({"tokens":{},"pin":-123_456_789,"tries":1}),
        json!({"tokens":{},"pin":1,"tries":HUSH}),
        json!({"tokens":{},"pin":{"$sealed":HUSH},"tries":1}),
    ];
    for payload in wrong {
        let error = queue.enqueue_raw("secret:counted", payload.clone()).await.unwrap_err();
        let mut text = format!("{error} {error:?}");
        let mut source = std::error::Error::source(&error);
        while let Some(cause) = source {
            text += &format!(" {cause} {cause:?}");
            source = cause.source();
        }
        assert!(matches!(error, EnqueueError::Unfit(_)));
        assert!(!text.contains("hush") && !text.contains("123456789"), "{text}");
        // The same for a row that another build has written.
        queue.store().enqueue(vec![NewJob::new("secret:counted", payload.to_string())], 0).await.unwrap();
    }
    let error = queue.enqueue_raw("secret:counted", json!({"pin":1,"tries":1})).await.unwrap_err();
    assert!(error.to_string().contains("missing field `tokens`"), "{error}");
    let error =
        queue.enqueue_raw("secret:counted", json!({"tokens":{},"pin":"x","tries":1})).await.unwrap_err();
    assert!(error.to_string().contains("a secret that is no `u64`"), "{error}");

    let log = log_of(Level::TRACE);
    let drained = queue.drain_until_idle().await;
    assert_eq!(drained.failed().len(), 27, "{drained}");
    let rows = queue.list(JobFilter::default()).await.unwrap();
    for text in [
        drained.to_string(),
        format!("{:?}", rows.iter().map(|row| &row.error).collect::<Vec<_>>()),
        log.text(),
    ] {
        assert!(!text.contains("hush") && !text.contains("123456789"), "{text}");
    }
}

#[jobq::test]
async fn the_testing_kit_knows_secrets_and_shows_none(queue: TestQueue) {
    a_charge(1).enqueue().await.unwrap();
    let found = assert_enqueued!(queue, Charge { card, .. } if card.number == HUSH);
    refute_enqueued!(queue, Charge { access_code: None, .. });
    assert!(!format!("{found:?} {found}").contains("hush"));
    let told = Told::default();
    assert_eq!(perform(a_charge(3)).data(told.clone()).await.unwrap(), 3);
    assert_eq!(told.all(), [format!("{HUSH} 7 {HUSH}")]);
}

#[jobq::test]
async fn a_key_of_the_whole_payload_would_show_its_secrets_and_is_refused(queue: TestQueue) {
    let error = a_charge(1).enqueue().unique(Unique::payload()).await.unwrap_err();
    assert!(
        error.to_string().contains("would be made of the whole payload, and show its secrets"),
        "{error}"
    );
    assert!(queue.all::<Charge>().await.is_empty());
    a_charge(1).enqueue().unique(Unique::key("charge of 1")).await.unwrap();
}
