//! Texts: what goes in comes out, byte for byte, and what has no bound is cut with a mark.

use super::{ground::*, on_every_store};
use jobq::{
    job::{JobId, MAX_ERROR, MAX_LABEL, MAX_NAME, MAX_PAYLOAD, NewJob},
    state::JobState,
    store::{Acted, Completion, Failure, JobFilter, Next, Rescue, Retention},
};

on_every_store![
    payloads_are_kept_byte_for_byte,
    results_are_kept_byte_for_byte,
    a_payload_that_is_no_json_hurts_nobody,
    dead_jobs_that_nobody_can_decode_are_shown_retried_deleted_and_pruned,
    labels_and_names_keep_hostile_text,
    errors_keep_hostile_text,
    a_nul_never_ends_an_error,
    a_long_error_is_cut_on_a_character_with_a_mark,
    what_no_store_takes_is_refused_whole,
    the_longest_that_is_taken_is_taken,
];

/// Numbers that no `f64` holds, escapes of all kinds, white space, order and repetition of keys.
fn json() -> Vec<String> {
    let mut texts: Vec<String> = [
        "null",
        "0",
        "-0.0",
        r#""""#,
        "9007199254740993",
        "18446744073709551615",
        "123456789012345678901234567890",
        "1e400",
        "1E+2",
        "0.10",
        r#"{"b":1,"a":2,"b":3}"#,
        "{ \"spaced\" :\t[ 1 ,\n 2 ] }",
        r#""\u0041\/\b\f\n\r\t\"\\""#,
        r#""\ud83d\ude00 😀""#,
        r#""\ud800""#,
        r#"{"\udc00\ud800":1}"#,
        r#""\u0000 and \u0000""#,
        "\"Łódź ﷽ 𝒳 e\u{301} \u{202e}abc\u{feff}\"",
        r#""'; DROP TABLE jobs; --""#,
        r#"{"?1":":a","@b":"$c"}"#,
    ]
    .map(str::to_owned)
    .into();
    texts.push(format!("{}{}", "[".repeat(100), "]".repeat(100)));
    texts.push(format!("{}1{}", r#"{"a":"#.repeat(100), "}".repeat(100)));
    texts.push(format!("\"{}\"", "é".repeat(100_000)));
    texts
}

async fn payloads_are_kept_byte_for_byte(g: &Ground) {
    let payloads = json();
    let enqueued =
        g.enqueue_all(payloads.iter().map(|text| NewJob::new(WORK, text.as_str())).collect(), NOW).await;
    for (row, payload) in g.rows(&enqueued).await.iter().zip(&payloads) {
        assert_eq!(&row.payload, payload);
    }
    for (job, payload) in g.claim(1000, NOW).await.iter().zip(&payloads) {
        assert_eq!(&job.payload, payload, "as claimed");
    }
    let rows =
        g.store.list(JobFilter { states: vec![JobState::Running], ..JobFilter::default() }).await.unwrap();
    let listed: Vec<_> =
        rows.iter().rev().filter(|row| !g.is_bystander(row.id)).map(|row| &row.payload).collect();
    assert_eq!(listed, payloads.iter().collect::<Vec<_>>(), "as listed");
}

async fn results_are_kept_byte_for_byte(g: &Ground) {
    for result in json() {
        let job = g.running().await;
        let ended = Completion {
            id: job.id,
            lease: job.lease,
            result: Some(result.clone()),
            ties: jobq::store::Ties::ALL,
        };
        g.store.complete(vec![ended], NOW).await.unwrap();
        assert_eq!(g.row(job.id).await.result, Some(result));
    }
}

/// Case 092: a broken row is there for people like any other.
async fn a_payload_that_is_no_json_hurts_nobody(g: &Ground) {
    let broken = ["", "{", "not json", "\u{1}\u{7f}", "[1,]"];
    let good = g.pending().await;
    let enqueued = g.enqueue_all(broken.map(|text| NewJob::new(WORK, text)).into(), NOW).await;
    let claimed = g.claim(10, NOW).await;
    assert_eq!(ids(&claimed), [&[good], &enqueued[..]].concat());
    for (job, text) in claimed[1..].iter().zip(broken) {
        assert_eq!(job.payload, text);
        g.fail(job.id, job.lease, Next::Dead, NOW).await;
        g.retry(job.id, NOW).await;
        g.cancel(job.id, NOW).await;
        assert_eq!(g.row(job.id).await.payload, text);
        g.delete(job.id, NOW).await;
    }
    g.complete(good, 1, NOW).await;
}

/// Case 092: of a kind that no program knows any more, with payloads that are no JSON.
async fn dead_jobs_that_nobody_can_decode_are_shown_retried_deleted_and_pruned(g: &Ground) {
    let unknown = "of a program long gone";
    let broken = ["", "{", "not json", "\u{1}\u{7f}", "[1,]", "{\"a\":"];
    let jobs = broken.map(|text| NewJob { max_attempts: 1, ..NewJob::new(unknown, text) });
    let dead = g.enqueue_all(jobs.into(), NOW).await;
    for job in g.claim_of(&[unknown], None, 10, NOW).await {
        g.fail(job.id, job.lease, Next::Dead, NOW).await;
    }
    let filter = || JobFilter { job_type: Some(unknown.into()), ..JobFilter::default() };
    let newest_first: Vec<JobId> = dead.iter().rev().copied().collect();
    assert_eq!(g.listed(filter()).await, newest_first);
    for (row, text) in g.rows(&dead).await.iter().zip(broken) {
        assert_eq!((row.state, row.payload.as_str()), (JobState::Dead, text));
    }
    assert_eq!(g.attempts(dead[0]).await.len(), 1);
    assert_eq!(g.store.retry(dead[..1].to_vec(), NOW).await.unwrap(), [Acted::Done]);
    assert_eq!(g.store.cancel(dead[..1].to_vec(), NOW).await.unwrap(), [Acted::Done]);
    assert_eq!(g.store.delete(dead[..4].to_vec(), NOW).await.unwrap(), [Acted::Done; 4]);
    assert_eq!(g.listed(filter()).await, newest_first[..2]);
    // The rows of the bystanders keep them longer.
    let keep = Retention { finished: None, dead: Some(std::time::Duration::ZERO) };
    g.store.prune(keep, NOW).await.unwrap();
    assert_eq!(g.listed(filter()).await, []);
}

const HOSTILE: [&str; 9] = [
    "'; DROP TABLE jobs; --",
    "\"quoted\" `back` [brackets]",
    "%s {0} $1 ?1 :a @b",
    "<script>alert(1)</script>",
    "\u{1b}[31mred\r\n\ttab",
    "👩‍👩‍👧‍👦 \u{202e}right to left",
    "Łódź e\u{301} ﷽",
    "{\"json\":\"\\u0000\"}",
    " ",
];

async fn labels_and_names_keep_hostile_text(g: &Ground) {
    for text in HOSTILE {
        let job = NewJob { job_type: text.into(), queue: text.into(), label: Some(text.repeat(3)), ..work() };
        let id = g.enqueue(job, NOW).await;
        let row = g.row(id).await;
        assert_eq!((row.job_type.as_str(), row.queue.as_str()), (text, text));
        assert_eq!(row.label, Some(text.repeat(3)));
        assert_eq!(ids(&g.claim_of(&[text], Some(&[text]), 10, NOW).await), [id]);
        let filter = JobFilter {
            job_type: Some(text.into()),
            queue: Some(text.into()),
            label: Some(text.into()),
            ..JobFilter::default()
        };
        assert_eq!(g.listed(filter).await, [id]);
    }
}

/// Fails a fresh job with this error, and another one by a rescue; the two texts that are stored must agree.
async fn stored(g: &Ground, error: &str) -> String {
    let job = g.running().await;
    let ended = Failure { error: error.into(), ..failure(job.id, job.lease, Next::Dead) };
    g.store.fail(vec![ended], NOW).await.unwrap();
    let lost = g.running().await;
    let rescue = Rescue {
        id: lost.id,
        lease: lost.lease,
        error: error.into(),
        next: Next::Dead,
        ties: jobq::store::Ties::ALL,
        on_dead: None,
    };
    g.store.rescue(vec![rescue], NOW).await.unwrap();
    let texts = async |id: JobId| {
        let (row, attempts) = (g.row(id).await, g.attempts(id).await);
        assert_eq!(row.error, attempts[0].error, "the row and its history agree");
        row.error.unwrap()
    };
    let (failed, rescued) = (texts(job.id).await, texts(lost.id).await);
    assert_eq!(failed, rescued, "a failure and a rescue are cut alike");
    failed
}

async fn errors_keep_hostile_text(g: &Ground) {
    for text in HOSTILE {
        assert_eq!(stored(g, text).await, text);
    }
    assert_eq!(stored(g, "").await, "");
}

async fn a_nul_never_ends_an_error(g: &Ground) {
    assert_eq!(stored(g, "before\0after").await, "before\u{fffd}after");
}

/// Case 093.
async fn a_long_error_is_cut_on_a_character_with_a_mark(g: &Ground) {
    let exact = "x".repeat(MAX_ERROR);
    assert_eq!(stored(g, &exact).await, exact);
    for character in ["x", "é", "€", "😀"] {
        for shift in 0..4 {
            let error = format!("{}{}", "-".repeat(shift), character.repeat(MAX_ERROR + 1));
            let stored = stored(g, &error).await;
            assert!(stored.len() <= MAX_ERROR, "{} bytes", stored.len());
            assert!(stored.len() > MAX_ERROR - 60, "no more is cut than the mark needs");
            let (kept, mark) = stored.rsplit_once(" … [").expect("a mark");
            assert!(error.starts_with(kept));
            assert_eq!(mark, format!("{} bytes cut]", error.len() - kept.len()));
        }
    }
}

async fn what_no_store_takes_is_refused_whole(g: &Ground) {
    let long = "n".repeat(MAX_NAME + 1);
    let unfit = [
        of_type(""),
        of_type(&long),
        of_type("nul\0"),
        in_queue(""),
        in_queue(&long),
        in_queue("nul\0"),
        NewJob { max_attempts: 0, ..work() },
        NewJob { version: 0, ..work() },
        NewJob { label: Some("é".repeat(MAX_LABEL + 1)), ..work() },
        NewJob::new(WORK, "x".repeat(MAX_PAYLOAD + 1)),
    ];
    for job in unfit {
        let what = format!("{} {} {}", job.job_type, job.queue, job.max_attempts);
        let answer = g.store.enqueue(vec![work(), job, work()], NOW).await;
        assert!(is_invalid(answer), "{what}");
    }
    assert_eq!(g.listed(JobFilter::default()).await, [], "all or none");
}

async fn the_longest_that_is_taken_is_taken(g: &Ground) {
    let name = "é".repeat(MAX_NAME / 2);
    let job = NewJob {
        queue: name.clone().into(),
        label: Some("é".repeat(MAX_LABEL)),
        payload: format!("\"{}\"", "x".repeat(MAX_PAYLOAD - 2)),
        ..of_type(&name)
    };
    let row = g.row(g.enqueue(job.clone(), NOW).await).await;
    assert_eq!((row.job_type, row.queue, row.label), (name.clone(), name, job.label));
    assert!(row.payload == job.payload);
}
