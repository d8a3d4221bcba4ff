//! SQL: every statement prepares, every filter finds what it says, the hot plans name their index.

use super::*;
use jobq::job::{OnConflict, UniqueKey, Until};
use std::{collections::BTreeMap, fs};

fn statements() -> BTreeMap<String, String> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../jobq/src/store/sqlite/sql");
    let files = fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    files
        .map(|path| {
            let name = path.file_stem().unwrap().to_string_lossy().into_owned();
            (name, fs::read_to_string(&path).unwrap())
        })
        .collect()
}

#[tokio::test]
async fn every_statement_prepares_on_a_migrated_file() {
    let site = Site::new().await;
    let db = site.raw();
    let statements = statements();
    assert!(statements.len() > 25, "{} statements found", statements.len());
    for (name, text) in statements {
        assert!(text.starts_with("-- "), "{name}.sql says first what it does");
        db.prepare(&text).unwrap_or_else(|error| panic!("{name}.sql: {error}"));
    }
    site.is_well().await;
}

/// The statements of the hot path: they find their rows by one index each, and sort nothing.
const HOT: &[(&str, &str)] = &[
    ("heads", "USING COVERING INDEX jobs_ready (lane=?)"),
    ("waiting", "USING COVERING INDEX jobs_ready (lane=?)"),
    ("due", "USING COVERING INDEX jobs_due (run_at<?)"),
    ("promote", "USING INTEGER PRIMARY KEY (rowid=?)"),
    ("next_run_at", "USING COVERING INDEX jobs_due"),
    ("running", "USING INDEX jobs_held (worker=?)"),
    ("taken", "USING INTEGER PRIMARY KEY (rowid=?)"),
    ("claim", "USING INTEGER PRIMARY KEY (rowid=?)"),
    ("complete", "USING INTEGER PRIMARY KEY (rowid=?)"),
    ("archive", "USING INTEGER PRIMARY KEY (rowid=?)"),
    ("leave", "USING INTEGER PRIMARY KEY (rowid=?)"),
    ("cancel", "USING INTEGER PRIMARY KEY (rowid=?)"),
    ("promise", "USING INTEGER PRIMARY KEY (rowid=?)"),
    ("promised", "USING INTEGER PRIMARY KEY (rowid=?)"),
    ("ask_cancel", "USING INTEGER PRIMARY KEY (rowid=?)"),
    ("outcome", "USING INTEGER PRIMARY KEY (rowid=?)"),
    ("holder", "USING INDEX jobs_unique (unique_key=? AND unique_scope=?)"),
    ("holders_in", "USING INDEX jobs_unique (unique_key=? AND unique_scope=?)"),
    ("own_key", "USING INTEGER PRIMARY KEY (rowid=?)"),
    ("replace", "USING INTEGER PRIMARY KEY (rowid=?)"),
    ("late", "USING PRIMARY KEY (job=? AND lease=?)"),
    ("progress", "USING INTEGER PRIMARY KEY (rowid=?)"),
    ("holds", "USING INTEGER PRIMARY KEY (rowid=?)"),
    ("record_step", "SEARCH jobq_steps USING PRIMARY KEY (job=?)"),
    ("step", "SEARCH jobq_steps USING PRIMARY KEY (job=? AND name=?)"),
    ("forget_steps", "USING PRIMARY KEY (job=?)"),
    ("forget_output", "USING PRIMARY KEY (job=? AND lease<?)"),
    ("prune_output", "SEARCH jobq_output USING PRIMARY KEY (job=? AND lease=?)"),
    ("output", "SEARCH jobq_output USING PRIMARY KEY (job=? AND (lease,seq)>(?,?))"),
    ("beat", "USING INTEGER PRIMARY KEY (rowid=?)"),
    ("due_schedules", "USING INDEX scheduled_jobs_next (next_run<?)"),
    ("next_tick", "USING COVERING INDEX scheduled_jobs_next (next_run>?)"),
    ("tick", "USING INDEX sqlite_autoindex_scheduled_jobs_1 (id=?)"),
    ("last_job", "USING INDEX sqlite_autoindex_scheduled_jobs_1 (id=?)"),
    ("forget_ticks", "USING PRIMARY KEY (schedule=? AND tick<?)"),
    ("key", "USING INTEGER PRIMARY KEY (rowid=?)"),
    ("hold", "USING INTEGER PRIMARY KEY (rowid=?)"),
    ("key_running", "USING COVERING INDEX jobs_keyed (concurrency_key=? AND state=?)"),
    ("key_ready", "USING COVERING INDEX jobs_keyed (concurrency_key=? AND state=? AND held=?)"),
    ("key_heads", "USING COVERING INDEX jobs_keyed (concurrency_key=? AND state=? AND held=? AND lane=?)"),
    ("key_parked", "USING COVERING INDEX jobs_keyed (concurrency_key=? AND state=? AND held=? AND lane=?)"),
    ("next_key", "USING COVERING INDEX jobs_keyed (concurrency_key>?)"),
    ("bucket", "USING PRIMARY KEY (kind=? AND name=?)"),
];

fn assert_hot_plans(db: &rusqlite::Connection, when: &str) {
    let statements = statements();
    for (name, index) in HOT {
        let mut explain = db.prepare(&format!("EXPLAIN QUERY PLAN {}", statements[*name])).unwrap();
        let mut rows = explain.raw_query();
        let mut plan = Vec::new();
        while let Some(row) = rows.next().unwrap() {
            plan.push(row.get::<_, String>(3).unwrap());
        }
        let plan = plan.join("; ");
        assert!(plan.contains(index), "{name}.sql {when}: {plan}");
        assert!(!plan.contains("TEMP B-TREE"), "{name}.sql {when}: {plan}");
        // The first entry of an index is called a scan of it, and is one step; a scan of the lanes is one of a table
        // that the statistics call tiny, one of a virtual table reads what the statement was given, and one of a subquery
        // what a LIMIT has left of it.
        let fine = |step: &str| step == "SCAN l" || step.contains("VIRTUAL") || step.contains("(subquery");
        let is_scan = |step: &str| step.starts_with("SCAN") && !fine(step);
        let scans = plan.split("; ").any(is_scan);
        assert!(*name == "next_run_at" || !scans, "{name}.sql {when}: {plan}");
    }
}

#[tokio::test]
async fn hot_plans_do_not_depend_on_rows_or_statistics() {
    let site = Site::new().await;
    let db = site.raw();
    assert_hot_plans(&db, "on an empty table");
    db.execute_batch("ANALYZE").unwrap();
    assert_hot_plans(&db, "on an empty table, analyzed");

    soon(site.store.enqueue(jobs("a", 3000), T0)).await.unwrap();
    let future = jobs("b", 300).into_iter().map(|job| NewJob { run_at: Some(T0 + HOUR), ..job }).collect();
    soon(site.store.enqueue(future, T0)).await.unwrap();
    let worker = sign_in(&site.store).await;
    let taken = claim(&site.store, worker, &["a"], 600).await;
    soon(site.store.complete(taken[..300].iter().map(completion).collect(), T0)).await.unwrap();
    let db = site.raw();
    assert_hot_plans(&db, "with old statistics");
    db.execute_batch("ANALYZE").unwrap();
    assert_hot_plans(&site.raw(), "analyzed");
    db.execute_batch("DELETE FROM sqlite_stat1").unwrap();
    assert_hot_plans(&site.raw(), "without statistics");
    // The worst that statistics can say: every index is useless.
    db.execute_batch(
        "DELETE FROM sqlite_stat1;
         INSERT INTO sqlite_stat1 VALUES ('jobs', 'jobs_ready', '1000000 1000000 1000000 1000000'),
            ('jobs', 'jobs_due', '1000000 1000000'), ('jobs', 'jobs_held', '1000000 1000000'),
            ('jobs', 'jobs_unique', '1000000 1000000 1000000'),
            ('jobs', 'jobs_keyed', '1000000 1000000 1000000 1000000 1000000 1000000 1000000')",
    )
    .unwrap();
    assert_hot_plans(&site.raw(), "with hostile statistics");
    site.is_well().await;
}

type Condition = (&'static str, fn(&mut JobFilter, &[JobRow]), fn(&JobFilter, &JobRow) -> bool);

const CONDITIONS: &[Condition] = &[
    (
        "states",
        |filter, _| filter.states = vec![JobState::Pending, JobState::Running],
        |filter, row| filter.states.contains(&row.state),
    ),
    (
        "job_type",
        |filter, _| filter.job_type = Some("b".into()),
        |filter, row| filter.job_type.as_deref() == Some(&*row.job_type),
    ),
    (
        "queue",
        |filter, _| filter.queue = Some("mail".into()),
        |filter, row| filter.queue.as_deref() == Some(&*row.queue),
    ),
    (
        "unique_key",
        |filter, _| filter.unique_key = Some("2".into()),
        |filter, row| row.unique.as_ref().map(|unique| &unique.key) == filter.unique_key.as_ref(),
    ),
    (
        "label",
        |filter, _| filter.label = Some("100%_ÄB".into()),
        |_, row| row.label.as_ref().is_some_and(|label| label.to_ascii_lowercase().contains("100%_Äb")),
    ),
    (
        "created_from",
        |filter, rows| filter.created_from = Some(rows[rows.len() / 2].created_at),
        |filter, row| filter.created_from.is_some_and(|from| row.created_at >= from),
    ),
    (
        "created_before",
        |filter, rows| filter.created_before = Some(rows[rows.len() / 4].created_at),
        |filter, row| filter.created_before.is_some_and(|before| row.created_at < before),
    ),
    (
        "after",
        |filter, rows| filter.after = Some(rows[rows.len() / 3].id),
        |filter, row| filter.after.is_some_and(|after| row.created_at < after.created_at() || row.id < after),
    ),
];

/// One of four keys, that meets no other.
fn key(n: usize) -> UniqueKey {
    UniqueKey {
        key: (n % 4).to_string(),
        scope: n.to_string(),
        states: Until::Finished.states(),
        within: None,
        on_conflict: OnConflict::Keep,
    }
}

#[tokio::test]
async fn every_filter_and_every_pair_finds_exactly_what_it_says() {
    let site = Site::new().await;
    let labels = [None, Some("Mail 100%_Äb!"), Some("mail 100x_äb"), Some("100%_ÄB")];
    for n in 0..48usize {
        let mut job = job(if n % 3 == 0 { "a" } else { "b" }, n);
        job.queue = if n % 5 < 2 { "mail".into() } else { "default".into() };
        job.label = labels[n % 4].map(str::to_owned);
        job.run_at = (n % 7 == 0).then_some(T0 + HOUR);
        job.unique = (n % 4 > 0).then(|| Box::new(key(n)));
        soon(site.store.enqueue(vec![job], T0 + (n / 2) as Millis)).await.unwrap();
    }
    let worker = sign_in(&site.store).await;
    let taken = claim(&site.store, worker, &["a", "b"], 20).await;
    soon(site.store.complete(taken[..5].iter().map(completion).collect(), T0)).await.unwrap();
    soon(site.store.fail(taken[5..10].iter().map(|job| failure(job, Next::Dead)).collect(), T0))
        .await
        .unwrap();

    let rows = all(&site.store).await;
    assert_eq!(rows.len(), 49);
    assert!(
        rows.is_sorted_by(|one, next| one.id > next.id || one.created_at > next.created_at),
        "newest first"
    );
    for (first, set_first, holds_first) in CONDITIONS {
        for (second, set_second, holds_second) in CONDITIONS {
            let mut filter = JobFilter { limit: 1000, ..JobFilter::default() };
            set_first(&mut filter, &rows);
            set_second(&mut filter, &rows);
            let wanted: Vec<&JobRow> =
                rows.iter().filter(|row| holds_first(&filter, row) && holds_second(&filter, row)).collect();
            let found = site.store.list(filter.clone()).await.unwrap();
            assert_eq!(found.iter().collect::<Vec<_>>(), wanted, "{first} and {second}: {filter:?}");
            assert!(
                first != second || (!wanted.is_empty() && wanted.len() < rows.len()),
                "{first} tells apart"
            );
        }
    }
    let mut everything = JobFilter { limit: 1000, ..JobFilter::default() };
    CONDITIONS.iter().for_each(|(_, set, _)| set(&mut everything, &rows));
    site.store.list(everything).await.unwrap();
    site.is_well().await;
}

/// Pages of any size, joined, are the whole list: nothing twice, nothing missed, also where the cursor's row is gone.
#[tokio::test]
async fn keyset_pages_miss_nothing() {
    let site = Site::new().await;
    soon(site.store.enqueue(jobs("a", 25), T0)).await.unwrap();
    let whole: Vec<JobId> = all(&site.store).await.iter().map(|row| row.id).collect();
    let mut joined: Vec<JobId> = Vec::new();
    loop {
        let after = joined.last().copied();
        let page = site.store.list(JobFilter { after, limit: 7, ..JobFilter::default() }).await.unwrap();
        if page.is_empty() {
            break;
        }
        joined.extend(page.iter().map(|row| row.id));
        let seen = page.last().unwrap().id;
        if seen != site.bystander.id {
            soon(site.store.cancel(vec![seen], T0)).await.unwrap();
            soon(site.store.delete(vec![seen], T0)).await.unwrap();
        }
    }
    assert_eq!(joined, whole);
    site.is_well().await;
}

#[tokio::test]
async fn settings_are_per_connection_and_durability_is_as_chosen() {
    use jobq::store::sqlite::Durability;
    let site = Site::new().await;
    assert!(site.store.describe().ends_with("synchronous=FULL"), "{}", site.store.describe());
    let fast = SqliteOptions::new(&site.path).durability(Durability::Process);
    let fast = SqliteStore::open(fast).await.unwrap();
    assert!(fast.describe().ends_with("synchronous=NORMAL"), "{}", fast.describe());
    let journal: Vec<String> = column(&site.raw(), "PRAGMA journal_mode");
    assert_eq!(journal, ["wal"]);
    // Foreign keys hold on our own connection: history and output go with their row.
    let worker = sign_in(&fast).await;
    let ids = soon(fast.enqueue(jobs("a", 1), T0)).await.unwrap().ids();
    let taken = claim(&fast, worker, &["a"], 1).await;
    soon(fast.fail(vec![failure(&taken[0], Next::Dead)], T0)).await.unwrap();
    assert_eq!(soon(fast.delete(ids, T0)).await.unwrap(), [Acted::Done]);
    assert_eq!(column::<i64>(&site.raw(), "SELECT count(*) FROM jobq_attempts"), [0]);
    site.is_well().await;
}
