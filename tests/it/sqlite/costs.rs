//! What acts cost, counted in statements, commits and bytes and never in time: the table of ARCHITECTURE.md is true.

use crate::child::Child;
use std::{fmt::Write, fs, path::Path, time::Duration};

/// A child that does one act, and what came of it: its transactions, and the pages that each commit wrote.
struct Told {
    transactions: Vec<Vec<String>>,
    pages: Vec<usize>,
}

/// What the child's writing thread runs for `act`, beside the commits that its -wal file shows.
fn told(act: &str) -> Told {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("app.db");
    let wal = dir.path().join("app.db-wal");
    let mut child = Child::start("cost", &[path.as_os_str(), act.as_ref()]);
    child.expect("ready");
    let before = commits(&wal).len();
    child.say("go");
    let did = child.expect("did");
    let transactions: Vec<Vec<String>> = serde_json::from_str(&did).unwrap();
    let pages = commits(&wal).into_iter().skip(before).collect();
    child.say("end");
    child.expect("well");
    assert!(child.wait(Duration::from_secs(10)).success());
    for transaction in &transactions {
        assert_eq!((&*transaction[0], &**transaction.last().unwrap()), ("BEGIN IMMEDIATE", "COMMIT"));
    }
    assert!(!did.contains("lovelace") && !did.contains("welcome"), "no value is told: {did}");
    Told { transactions, pages }
}

/// The pages of each commit in a -wal file, as far as it was written since it was last begun anew.
fn commits(wal: &Path) -> Vec<usize> {
    const HEADER: usize = 32;
    let wal = fs::read(wal).unwrap();
    let number = |at: usize| u32::from_be_bytes(wal[at..at + 4].try_into().unwrap()) as usize;
    let frame = PAGE_HEADER + number(8);
    assert_eq!((number(8), (wal.len() - HEADER) % frame), (PAGE, 0));
    let (mut commits, mut pages) = (Vec::new(), 0);
    let is_new = |at: &usize| wal[at + 8..at + 16] == wal[16..24];
    for at in (HEADER..wal.len()).step_by(frame).take_while(is_new) {
        pages += 1;
        // The frame that ends a commit says how large the database is.
        if number(at + 4) > 0 {
            commits.push(std::mem::take(&mut pages));
        }
    }
    commits
}

const PAGE: usize = 4096;
const PAGE_HEADER: usize = 24;

/// The rows of the table: their names, the child's act, its jobs, and how many transactions before it are another's.
const ACTS: [(&str, &str, usize, usize); 5] = [
    ("one enqueue", "one", 1, 0),
    ("`enqueue_all`", "all", 100, 0),
    ("enqueues of 64 tasks at once", "together", 64, 1),
    ("enqueue, claim, run, complete: idle worker", "idle", 1, 0),
    ("claim, run, complete: backlog", "backlog", 100, 1),
];

/// What one row is to say: jobs, statements, commits, bytes a job.
fn counted(act: &str, jobs: usize, before: usize) -> [usize; 4] {
    let told = told(act);
    assert_eq!(told.transactions.len(), told.pages.len(), "each writes: {:?}", told.transactions);
    let statements = told.transactions[before..].iter().map(Vec::len).sum();
    let pages: usize = told.pages[before..].iter().sum();
    [jobs, statements, told.pages.len() - before, pages * (PAGE + PAGE_HEADER) / jobs]
}

#[test]
fn the_table_of_costs_in_architecture_is_true() {
    let architecture = concat!(env!("CARGO_MANIFEST_DIR"), "/../ARCHITECTURE.md");
    let architecture = fs::read_to_string(architecture).unwrap();
    let (mut right, mut wrong) = (String::new(), false);
    for (name, act, jobs, before) in ACTS {
        let row = architecture.lines().find(|line| line.starts_with(&format!("| {name} |")));
        let cells: Vec<&str> = row.unwrap_or_default().split('|').skip(2).map(str::trim).collect();
        let counted = counted(act, jobs, before).map(grouped);
        wrong |= cells.get(..4).is_none_or(|cells| cells != counted);
        // What is measured by `benches/src/bin/cost.rs` stays as it is.
        let measured = cells.get(4..6).unwrap_or(&["?", "?"]).join(" | ");
        writeln!(right, "| {name} | {} | {measured} |", counted.join(" | ")).unwrap();
    }
    assert!(!wrong, "ARCHITECTURE.md is to say what acts cost:\n{right}");
}

/// 16480 is 16,480.
fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let comma = |(at, digit): (usize, char)| {
        let after = digits.len() - at;
        [(at > 0 && after.is_multiple_of(3)).then_some(','), Some(digit)]
    };
    digits.chars().enumerate().flat_map(comma).flatten().collect()
}

// ---- how transactions are cut ----------------------------------------------------------------------------

#[test]
fn who_waits_alone_is_committed_alone_and_who_comes_meanwhile_shares_the_next_commit() {
    let alone = told("alone");
    assert_eq!((alone.transactions.len(), alone.pages.len()), (20, 20));
    // 64 while the transaction of another one is under way: they wait for nobody else.
    let together = told("together");
    assert_eq!((together.transactions.len(), together.pages.len()), (2, 2));
}

#[test]
fn a_sign_of_life_that_falls_due_during_a_commit_comes_with_the_next() {
    let transactions = told("beats").transactions;
    let beats = |transaction: &Vec<String>| transaction.iter().any(|sql| sql.contains("beats = beats + 1"));
    let beaten = transactions.iter().filter(|transaction| beats(transaction)).count();
    assert!(beaten >= 20 && beaten == transactions.len(), "{beaten} of {}", transactions.len());
}

#[test]
fn a_transaction_takes_up_no_act_after_its_time_however_many_wait() {
    // Each act takes longer than that: the first of a batch is made all the same, the others come one by one.
    assert_eq!(told("slow").transactions.len(), 1 + 4);
}

#[test]
fn a_transaction_takes_up_no_more_rows_than_it_may() {
    // 25 acts with 1,000 rows each, at most 10,000 of them in one.
    assert!(told("large").transactions.len() > 3);
}
