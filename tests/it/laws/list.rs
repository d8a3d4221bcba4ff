//! Lists, their filters and pages, and counts.

use super::{ground::*, on_every_store};
use jobq::{
    job::{JobId, JobRow, NewJob},
    state::JobState,
    store::{Count, JobFilter, Next},
};
use std::collections::BTreeMap;

on_every_store![
    a_list_shows_the_same_rows_as_get_newest_first,
    each_filter_and_each_pair_shows_what_it_says,
    a_label_filter_takes_its_text_literally,
    a_label_filter_knows_ascii_case_only,
    pages_have_a_default_and_a_largest_size,
    pages_show_each_job_once,
    pages_miss_nothing_while_rows_come_and_go,
    a_page_goes_on_after_a_job_that_is_gone,
    counts_sum_to_the_rows,
];

/// Jobs in every state, in two queues, of two types, with and without labels, enqueued one after the other.
async fn field(g: &Ground) -> Vec<JobRow> {
    let mut enqueued = Vec::new();
    for n in 0..48_i64 {
        let job = NewJob {
            queue: ["default", "mail"][(n % 2) as usize].into(),
            label: [None, Some("Welcome mail"), Some("invoice 50% off_")][(n % 3) as usize]
                .map(str::to_owned),
            run_at: (n % 4 == 0).then_some(NOW + 10_000),
            ..of_type([WORK, "report"][(n / 2 % 2) as usize])
        };
        enqueued.push(g.enqueue(job, NOW + n).await);
    }
    for (n, job) in g.claim_of(&[WORK, "report"], None, 24, NOW + 100).await.into_iter().enumerate() {
        match n % 4 {
            0 => g.complete(job.id, job.lease, NOW + 101).await,
            1 => g.fail(job.id, job.lease, Next::Dead, NOW + 101).await,
            2 => g.fail(job.id, job.lease, Next::Cancelled, NOW + 101).await,
            _ => continue,
        };
    }
    let rows = g.rows(&enqueued).await;
    for state in JobState::ALL {
        assert!(rows.iter().any(|row| row.state == state), "the field has a {state} job");
    }
    rows
}

async fn a_list_shows_the_same_rows_as_get_newest_first(g: &Ground) {
    let expected: Vec<_> = field(g).await.into_iter().rev().collect();
    let rows = g.store.list(JobFilter { limit: 1000, ..JobFilter::default() }).await.unwrap();
    let rows: Vec<_> = rows.into_iter().filter(|row| !g.is_bystander(row.id)).collect();
    assert_eq!(rows, expected);
}

/// One condition of a filter: how it is set, and what it means.
type Condition = (&'static str, fn(&mut JobFilter, &[JobRow]), fn(&JobRow, &[JobRow]) -> bool);

const CONDITIONS: [Condition; 10] = [
    ("one state", |f, _| f.states = vec![JobState::Dead], |row, _| row.state == JobState::Dead),
    (
        "three states",
        |f, _| f.states = vec![JobState::Running, JobState::Scheduled, JobState::Cancelled],
        |row, _| matches!(row.state, JobState::Running | JobState::Scheduled | JobState::Cancelled),
    ),
    ("job type", |f, _| f.job_type = Some("report".into()), |row, _| row.job_type == "report"),
    ("no such type", |f, _| f.job_type = Some("repor".into()), |_, _| false),
    ("queue", |f, _| f.queue = Some("mail".into()), |row, _| row.queue == "mail"),
    (
        "label",
        |f, _| f.label = Some("welcome".into()),
        |row, _| row.label.as_ref().is_some_and(|label| label == "Welcome mail"),
    ),
    ("created from", |f, _| f.created_from = Some(NOW + 11), |row, _| row.created_at >= NOW + 11),
    ("created before", |f, _| f.created_before = Some(NOW + 40), |row, _| row.created_at < NOW + 40),
    ("after", |f, rows| f.after = Some(rows[30].id), |row, rows| row.id < rows[30].id),
    ("after the first", |f, rows| f.after = Some(rows[0].id), |_, _| false),
];

async fn each_filter_and_each_pair_shows_what_it_says(g: &Ground) {
    let rows = field(g).await;
    let mut seen = 0;
    for (one, set_one, means_one) in CONDITIONS {
        for (other, set_other, means_other) in CONDITIONS {
            let mut filter = JobFilter { limit: 1000, ..JobFilter::default() };
            set_one(&mut filter, &rows);
            set_other(&mut filter, &rows);
            // Two settings of one condition: the latter holds.
            let same =
                [["one state", "three states"], ["job type", "no such type"], ["after", "after the first"]];
            let overwritten = same.iter().any(|pair| pair.contains(&one) && pair.contains(&other));
            let meant = |row: &&JobRow| means_other(row, &rows) && (overwritten || means_one(row, &rows));
            let expected: Vec<_> = rows.iter().rev().filter(meant).map(|row| row.id).collect();
            seen += expected.len();
            assert_eq!(g.listed(filter).await, expected, "{one} and {other}");
        }
    }
    assert!(seen > 500, "the conditions show something");
}

async fn a_label_filter_takes_its_text_literally(g: &Ground) {
    let labels = ["50%", "50 of 100", "a_b", "axb", r"back\slash", "quote ' quote", "50%%", "[a-z]*?"];
    for label in labels {
        g.enqueue(NewJob { label: Some(label.into()), ..work() }, NOW).await;
    }
    for (text, matches) in [
        ("%", vec!["50%%", "50%"]),
        ("0%", vec!["50%%", "50%"]),
        ("_", vec!["a_b"]),
        (r"\", vec![r"back\slash"]),
        ("'", vec!["quote ' quote"]),
        ("*", vec!["[a-z]*?"]),
        ("[a", vec!["[a-z]*?"]),
        ("50 of 100 ", vec![]),
    ] {
        let filter = JobFilter { label: Some(text.into()), ..JobFilter::default() };
        let shown = g.rows(&g.listed(filter).await).await;
        let shown: Vec<_> = shown.iter().map(|row| row.label.as_deref().unwrap()).collect();
        assert_eq!(shown, matches, "{text:?}");
    }
}

async fn a_label_filter_knows_ascii_case_only(g: &Ground) {
    let label = "Grüße an Ärzte";
    g.enqueue(NewJob { label: Some(label.into()), ..work() }, NOW).await;
    for (text, shown) in [("grüße AN", true), ("GRÜßE", false), ("ärzte", false), ("ÄRZTE", true)] {
        let filter = JobFilter { label: Some(text.into()), ..JobFilter::default() };
        assert_eq!(g.listed(filter).await.len(), usize::from(shown), "{text:?} in {label:?}");
    }
}

async fn pages_have_a_default_and_a_largest_size(g: &Ground) {
    g.enqueue_all(vec![work(); 1100], NOW).await;
    for (limit, size) in [(0, 100), (1, 1), (7, 7), (1000, 1000), (1001, 1000), (usize::MAX, 1000)] {
        let filter = JobFilter { limit, ..JobFilter::default() };
        assert_eq!(g.store.list(filter).await.unwrap().len(), size, "limit {limit}");
    }
}

/// All pages of a list; between two of them `meanwhile` is called with the page's number.
async fn walk(g: &Ground, filter: JobFilter, mut meanwhile: impl AsyncFnMut(usize)) -> Vec<JobId> {
    let mut seen = Vec::new();
    let mut after = None;
    for page in 0.. {
        let rows = g.store.list(JobFilter { after, ..filter.clone() }).await.unwrap();
        let Some(last) = rows.last() else { break };
        after = Some(last.id);
        seen.extend(rows.into_iter().map(|row| row.id).filter(|id| !g.is_bystander(*id)));
        meanwhile(page).await;
    }
    seen
}

async fn pages_show_each_job_once(g: &Ground) {
    let mut enqueued = g.enqueue_all(vec![work(); 57], NOW).await;
    enqueued.extend(g.enqueue_all(vec![work(); 57], NOW).await);
    enqueued.reverse();
    for limit in [1, 10, 57, 1000] {
        let filter = JobFilter { limit, ..JobFilter::default() };
        assert_eq!(walk(g, filter, async |_| ()).await, enqueued, "limit {limit}");
    }
}

async fn pages_miss_nothing_while_rows_come_and_go(g: &Ground) {
    let stay = g.enqueue_all(vec![work(); 60], NOW).await;
    let mut go = Vec::new();
    for _ in 0..5 {
        go.push(g.job_in(JobState::Cancelled, of_type("goes")).await.0);
    }
    let stay_too = g.enqueue_all(vec![work(); 60], NOW + 1).await;
    let filter = JobFilter { limit: 9, ..JobFilter::default() };
    let seen = walk(g, filter, async |page| {
        g.enqueue_all(vec![work(); 3], NOW + 2).await;
        if let Some(&id) = go.get(page) {
            g.delete(id, NOW + 2).await;
        }
    })
    .await;
    let expected: Vec<_> = stay.iter().chain(&stay_too).rev().copied().collect();
    let seen: Vec<_> = seen.into_iter().filter(|id| expected.contains(id)).collect();
    assert_eq!(seen, expected);
}

async fn a_page_goes_on_after_a_job_that_is_gone(g: &Ground) {
    let older = g.pending().await;
    let (gone, _) = g.job_in(JobState::Cancelled, of_type("goes")).await;
    g.delete(gone, NOW).await;
    g.pending().await;
    let filter = JobFilter { after: Some(gone), ..JobFilter::default() };
    assert_eq!(g.listed(filter).await, [older]);
}

async fn counts_sum_to_the_rows(g: &Ground) {
    field(g).await;
    let mut expected = BTreeMap::<_, u64>::new();
    let rows = g.store.list(JobFilter { limit: 1000, ..JobFilter::default() }).await.unwrap();
    assert_eq!(rows.len(), 48 + g.strangers());
    for row in rows {
        *expected.entry((row.queue, row.job_type, row.state)).or_default() += 1;
    }
    let expected =
        expected.into_iter().map(|((queue, job_type, state), count)| Count { queue, job_type, state, count });
    let mut counts = g.store.counts().await.unwrap();
    counts.sort();
    assert_eq!(counts, expected.collect::<Vec<_>>());
}
