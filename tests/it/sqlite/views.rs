//! The views: every column of the older job tables, their words for the states, text that people can read.

use super::*;
use jobq::job::AttemptOutcome;
use std::collections::HashMap;

/// The columns of the two `jobs` tables that jobq takes the place of.
const JOBS_COLUMNS: &str = "id type status payload result error attempts max_attempts priority run_at started_at \
                            completed_at created_at updated_at job_type run_after";
/// The columns of `a_mod_queue_records`.
const RECORDS_COLUMNS: &str = "label job_type status progress_percent processed_items total_items attempts max_attempts \
                               heartbeat_at error_message output_log";

type Shown = HashMap<String, rusqlite::types::Value>;

fn shown(db: &rusqlite::Connection, view: &str) -> HashMap<String, Shown> {
    let mut rows = db.prepare(&format!("SELECT * FROM {view}")).unwrap();
    let names: Vec<String> = rows.column_names().into_iter().map(str::to_owned).collect();
    let rows = rows.query_map([], |row| {
        names.iter().enumerate().map(|(place, name)| Ok((name.clone(), row.get(place)?))).collect()
    });
    let by_id = |row: rusqlite::Result<Shown>| {
        let row = row.unwrap();
        (text(&row, "id").unwrap(), row)
    };
    rows.unwrap().map(by_id).collect()
}

fn text(row: &Shown, column: &str) -> Option<String> {
    match &row[column] {
        rusqlite::types::Value::Text(text) => Some(text.clone()),
        rusqlite::types::Value::Null => None,
        other => panic!("{column} is {other:?}"),
    }
}

fn number(row: &Shown, column: &str) -> i64 {
    match row[column] {
        rusqlite::types::Value::Integer(number) => number,
        ref other => panic!("{column} is {other:?}"),
    }
}

fn iso(at: Millis) -> String {
    let at = chrono::DateTime::from_timestamp_millis(at).unwrap();
    at.to_rfc3339_opts(chrono::SecondsFormat::Millis, true)
}

#[test]
fn the_older_columns_are_all_there() {
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let site = Site::new().await;
        for (view, columns) in [("jobs_view", JOBS_COLUMNS), ("a_mod_queue_records", RECORDS_COLUMNS)] {
            for column in columns.split_whitespace() {
                let query = format!("SELECT {column} FROM {view}");
                site.raw().prepare(&query).unwrap_or_else(|error| panic!("{view}.{column}: {error}"));
            }
        }
        site.is_well().await;
    });
}

/// One job in each state, and one that is tried again.
async fn one_of_each(site: &Site) -> HashMap<&'static str, JobId> {
    let store = &site.store;
    let worker = sign_in(store).await;
    let mut ids = HashMap::new();
    for (n, word) in ["completed", "dead", "retried", "running"].into_iter().enumerate() {
        let mut new = job("report:generate", n);
        (new.priority, new.max_attempts, new.label) = (n as i16 - 2, 4, Some(format!("the {word} one")));
        ids.insert(word, soon(store.enqueue(vec![new], T0 + n as Millis)).await.unwrap()[0].id);
        let taken = claim(store, worker, &["report:generate"], 1).await;
        let applied = match word {
            "completed" => soon(store.complete(vec![completion(&taken[0])], T0 + 999)).await,
            "dead" => soon(store.fail(vec![failure(&taken[0], Next::Dead)], T0 + 999)).await,
            "retried" => soon(store.fail(vec![failure(&taken[0], Next::At(T0 + HOUR))], T0 + 999)).await,
            _ => Ok(vec![Settled::Applied]),
        };
        assert_eq!(applied.unwrap(), [Settled::Applied]);
    }
    let later = NewJob { run_at: Some(T0 + 7 * HOUR), ..job("cleanup:old-data", 9) };
    let new = soon(store.enqueue(vec![later, job("b", 5), job("c", 6)], T0)).await.unwrap().ids();
    assert_eq!(soon(store.cancel(vec![new[2]], T0 + 4)).await.unwrap(), [Acted::Done]);
    ids.extend([("scheduled", new[0]), ("pending", new[1]), ("cancelled", new[2])]);
    ids
}

/// A schema that an older SQLite can't parse would hide the application's own tables from it too. Asked is whichever
/// the machine has; a distribution's is years older than ours.
#[tokio::test]
async fn the_machines_own_sqlite_reads_the_file() {
    const QUERY: &str = "SELECT ((SELECT count(*) FROM jobs_view) + (SELECT count(*) FROM a_mod_queue_records) - 2 * \
                         (SELECT count(*) FROM jobs)) || (SELECT * FROM pragma_integrity_check)";
    const PYTHON: &str =
        "import sqlite3, sys; print(sqlite3.connect(sys.argv[1]).execute(sys.argv[2]).fetchone()[0])";
    let site = Site::new().await;
    one_of_each(&site).await;
    let (shell, python): (&[&str], &[&str]) = (&["sqlite3"], &["python3", "-c", PYTHON]);
    let mut asked = 0;
    for program in [shell, python] {
        let mut command = std::process::Command::new(program[0]);
        let Ok(told) = command.args(&program[1..]).arg(&site.path).arg(QUERY).output() else { continue };
        assert_eq!(String::from_utf8_lossy(&told.stdout).trim(), "0ok", "{}: {told:?}", program[0]);
        asked += 1;
    }
    if asked == 0 {
        eprintln!("neither sqlite3 nor python3 is here: no other SQLite was asked");
    }
    site.is_well().await;
}

#[tokio::test]
async fn both_views_say_what_the_rows_say_in_every_state() {
    let site = Site::new().await;
    let ids = one_of_each(&site).await;
    let db = site.raw();
    db.execute("UPDATE jobs SET processed_items = 1, total_items = 3 WHERE state IN (2, 3)", []).unwrap();
    let running = ids["running"];
    let row = site.store.get(running).await.unwrap().unwrap();
    for (lease, seq, line) in [(row.lease, 2, "two"), (row.lease, 1, "one"), (row.lease + 1, 0, "three")] {
        let insert = "INSERT INTO jobq_output SELECT id, ?1, ?2, 0, 0, ?3 FROM jobs WHERE state = 2";
        db.execute(insert, (lease, seq, line)).unwrap();
    }
    let (jobs, records) = (shown(&db, "jobs_view"), shown(&db, "a_mod_queue_records"));
    let rows = all(&site.store).await;
    assert_eq!((jobs.len(), records.len()), (rows.len(), rows.len()));
    for row in &rows {
        let (job, record) = (&jobs[&row.id.to_string()], &records[&row.id.to_string()]);
        assert_eq!(text(job, "type").unwrap(), row.job_type);
        assert_eq!(text(job, "job_type").unwrap(), row.job_type);
        assert_eq!(text(job, "queue").unwrap(), row.queue);
        assert_eq!(text(job, "status").unwrap(), row.state.as_str());
        assert_eq!(text(job, "payload").unwrap(), row.payload);
        assert_eq!(text(job, "label"), row.label);
        assert_eq!(text(job, "result"), row.result);
        assert_eq!(text(job, "error"), row.error);
        assert_eq!(text(job, "error_message"), row.error);
        assert_eq!(number(job, "attempts"), i64::from(row.attempts));
        assert_eq!(number(job, "max_attempts"), i64::from(row.max_attempts));
        assert_eq!(number(job, "priority"), i64::from(row.priority));
        assert_eq!(number(job, "lease"), row.lease);
        assert_eq!(number(job, "retrying") == 1, row.is_retrying());
        assert_eq!(number(job, "progress_percent"), i64::from(row.progress_percent()));
        assert_eq!(text(job, "run_at").unwrap(), iso(row.run_at));
        assert_eq!(text(job, "run_after").unwrap(), iso(row.run_at));
        assert_eq!(text(job, "created_at").unwrap(), iso(row.created_at));
        assert_eq!(text(job, "updated_at").unwrap(), iso(row.updated_at));
        assert_eq!(text(job, "started_at"), row.started_at.map(iso));
        assert_eq!(text(job, "completed_at"), row.completed_at.map(iso));
        assert_eq!(text(job, "heartbeat_at"), row.heartbeat_at.map(iso));

        let word = match row.state {
            JobState::Scheduled | JobState::Pending => "waiting",
            JobState::Running => "reserved",
            JobState::Completed => "done",
            JobState::Dead => "failed",
            JobState::Cancelled => "cancelled",
        };
        assert_eq!(text(record, "status").unwrap(), word);
        assert_eq!(text(record, "label").unwrap(), row.label.clone().unwrap_or(row.job_type.clone()));
        for column in ["processed_items", "total_items"] {
            let value = if column == "total_items" { row.total_items } else { row.processed_items };
            assert_eq!(number(record, column), value.unwrap_or(0), "{column}");
        }
        for column in ["heartbeat_at", "error_message", "output_log", "job_type"] {
            assert_eq!(text(record, column), text(job, column), "{column}");
        }
    }
    let state = |word: &str| text(&jobs[&ids[word].to_string()], "status").unwrap();
    for word in ["scheduled", "pending", "running", "completed", "dead", "cancelled"] {
        assert_eq!(state(word), word);
    }
    let output = text(&jobs[&running.to_string()], "output_log");
    assert_eq!(output.as_deref(), Some("one\ntwo\nthree"));
    assert_eq!(number(&jobs[&ids["completed"].to_string()], "progress_percent"), 100);
    assert_eq!(number(&jobs[&running.to_string()], "progress_percent"), 33);
    assert!(text(&jobs[&running.to_string()], "worker").unwrap().contains(&std::process::id().to_string()));
    let attempts = site.store.attempts(ids["retried"]).await.unwrap();
    assert_eq!(attempts[0].outcome, AttemptOutcome::Failed);
    assert_eq!(number(&jobs[&ids["retried"].to_string()], "retrying"), 1);
    site.is_well().await;
}

/// The text of an id is put together by SQL as it is by Rust, for small and for the largest row numbers and times.
#[tokio::test]
async fn ids_and_dates_are_the_same_text_in_sql_and_in_rust() {
    let site = Site::new().await;
    let db = site.raw();
    let insert =
        "INSERT INTO jobs (id, lane, state, priority, run_at, max_attempts, payload, created_at, updated_at)
                  VALUES (?1, 1, 1, 0, ?2, 1, ?3, ?2, ?2)";
    let rows: [i64; 6] = [2, 4_194_303, 4_194_304, 68_719_476_735, 68_719_476_736, 281_474_976_710_654];
    let times = [0, 1, 999, 1001, T0, 1_700_000_000_999, 4_102_444_799_995, 32_503_680_000_001];
    for (n, row) in rows.into_iter().enumerate() {
        db.execute(insert, (row, times[n], n.to_string())).unwrap();
    }
    for (n, at) in times.into_iter().enumerate() {
        db.execute(insert, (1000 + n as i64, at, format!("time {n}"))).unwrap();
    }
    let jobs = shown(&db, "jobs_view");
    let listed = all(&site.store).await;
    assert_eq!(listed.len(), 1 + rows.len() + times.len());
    for row in listed {
        let job = &jobs[&row.id.to_string()];
        assert_eq!(text(job, "payload").unwrap(), row.payload);
        assert_eq!(text(job, "created_at").unwrap(), iso(row.created_at));
        assert_eq!(row.id.as_uuid().get_version_num(), 7);
        assert_eq!(site.store.get(row.id).await.unwrap(), Some(row.clone()));
        assert_eq!(row.id.created_at(), row.created_at);
    }
    site.is_well().await;
}

/// A program of the application may read the same file with the SQLite of its system. One word that this does not know
/// keeps it from the whole file, from its own tables too; a check that it can't compute keeps it from writing.
#[test]
fn the_schema_is_one_that_an_older_sqlite_can_read() {
    const IN_SQLITE_3_38: &str =
        "coalesce char group_concat json_valid length max min printf random strftime substr";
    let schema = [
        include_str!("../../../jobq/migrations/sqlite/0001_jobs.sql"),
        include_str!("../../../jobq/migrations/sqlite/0002_views.sql"),
        include_str!("../../../jobq/migrations/sqlite/0012_views.sql"),
    ];
    let lines = schema.iter().flat_map(|text| text.lines()).map(|line| line.split("--").next().unwrap());
    let text = lines.collect::<Vec<_>>().join(" ");
    let mut calls = 0;
    for (open, _) in text.match_indices('(') {
        let name =
            text[..open].rsplit(|letter: char| !letter.is_alphanumeric() && letter != '_').next().unwrap();
        if name.chars().all(|letter| letter.is_uppercase()) {
            continue; // no call: a word of the language, or nothing
        }
        calls += 1;
        assert!(IN_SQLITE_3_38.split(' ').any(|known| known == name), "{name} may be younger than 3.38");
        // Of the syntax, only the order within an aggregate is younger.
        let mut depth = 0;
        let own: String = text[open..]
            .chars()
            .scan((), |(), letter| {
                depth += i32::from(letter == '(') - i32::from(letter == ')');
                (depth > 0).then_some(if depth == 1 { letter } else { ' ' })
            })
            .collect();
        assert!(!own.contains("ORDER BY"), "{name}{own}");
    }
    assert!(calls > 20, "{calls}");
}

/// What has come since the first views: keys, flows, versions, the wish to cancel.
#[tokio::test]
async fn keys_flows_versions_and_wishes_are_shown_as_in_rust() {
    let site = Site::new().await;
    let strand = |n| {
        let keyed = NewJob { concurrency_key: Some("acme".into()), version: 3, ..job("a", n) };
        jobq::store::Strand::Job(Box::new(keyed), Vec::new())
    };
    let flow = jobq::store::NewFlow { strands: vec![strand(1)], follow: Vec::new() };
    let laid = site.store.enqueue_flow(flow, T0).await.unwrap();
    let plain = soon(site.store.enqueue(jobs("a", 1), T0)).await.unwrap().ids()[0];
    let worker = sign_in(&site.store).await;
    assert_eq!(claim(&site.store, worker, &["a"], 9).await.len(), 2);
    site.store.cancel(vec![laid.jobs[0]], T0 + 7).await.unwrap();
    let shown = shown(&site.raw(), "jobs_view");
    let (of_flow, other) = (&shown[&laid.jobs[0].to_string()], &shown[&plain.to_string()]);
    let columns = ["concurrency_key", "flow", "cancel_asked_at", "unique_key"];
    assert_eq!(
        columns.map(|column| text(of_flow, column)),
        [Some("acme".into()), Some(laid.id.to_string()), Some(iso(T0 + 7)), None]
    );
    assert_eq!(columns.map(|column| text(other, column)), [const { None }; 4]);
    assert_eq!((number(of_flow, "version"), number(other, "version")), (3, 1));
}
