//! The limit: the same rows in bare SQLite, on one thread.

use crate::{payload, rate};
use jobq::Durability;
use rusqlite::{Connection, params};
use std::{error::Error, path::Path, time::Instant};

const BATCH: u64 = 1_000;

const SCHEMA: &str = "
    CREATE TABLE job (id INTEGER PRIMARY KEY, state INTEGER NOT NULL DEFAULT 0, run_at INTEGER NOT NULL,
        payload TEXT NOT NULL, attempts INTEGER NOT NULL DEFAULT 0, finished_at INTEGER) STRICT;
    CREATE INDEX ready ON job (run_at) WHERE state = 0;";
const INSERT: &str = "INSERT INTO job (run_at, payload) VALUES (?1, ?2)";
const HEADS: &str = "SELECT id FROM job WHERE state = 0 AND run_at <= ?1 ORDER BY run_at, id LIMIT ?2";
const CLAIM: &str = "UPDATE job SET state = 1, attempts = attempts + 1 WHERE id = ?1 RETURNING payload";
const FINISH: &str = "UPDATE job SET state = 2, finished_at = ?2 WHERE id = ?1 AND state = 1";

/// Single commits from one thread, nothing for 64 tasks, inserts of 1,000, claim and finish of 1,000.
pub fn rates(
    file: &Path,
    durability: Durability,
    jobs: u64,
    singles: u64,
) -> Result<[f64; 4], Box<dyn Error>> {
    let synchronous = if durability == Durability::Power { "FULL" } else { "NORMAL" };
    let db = Connection::open(file)?;
    db.execute_batch(&format!("PRAGMA journal_mode = WAL; PRAGMA synchronous = {synchronous}; {SCHEMA}"))?;

    let began = Instant::now();
    for batch in 0..jobs / BATCH {
        db.execute_batch("BEGIN IMMEDIATE")?;
        insert(&db, batch * BATCH..(batch + 1) * BATCH)?;
        db.execute_batch("COMMIT")?;
    }
    let bulk = rate(jobs, began.elapsed());

    let began = Instant::now();
    let mut held: Vec<i64> = Vec::new();
    loop {
        db.execute_batch("BEGIN IMMEDIATE")?;
        for id in held.drain(..) {
            db.prepare_cached(FINISH)?.execute(params![id, 2])?;
        }
        held = claim(&db)?;
        db.execute_batch("COMMIT")?;
        if held.is_empty() {
            break;
        }
    }
    let drain = rate(jobs, began.elapsed());

    let began = Instant::now();
    for number in 0..singles {
        insert(&db, number..number + 1)?;
    }
    Ok([rate(singles, began.elapsed()), f64::NAN, bulk, drain])
}

fn insert(db: &Connection, numbers: std::ops::Range<u64>) -> Result<(), Box<dyn Error>> {
    let mut insert = db.prepare_cached(INSERT)?;
    for number in numbers {
        insert.execute(params![1, serde_json::to_string(&payload(number))?])?;
    }
    Ok(())
}

fn claim(db: &Connection) -> Result<Vec<i64>, Box<dyn Error>> {
    let heads: Vec<i64> = db
        .prepare_cached(HEADS)?
        .query_map(params![1, BATCH as i64], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    let mut claim = db.prepare_cached(CLAIM)?;
    for id in &heads {
        let text: String = claim.query_row([id], |row| row.get(0))?;
        std::hint::black_box(serde_json::from_str::<serde_json::Value>(&text)?);
    }
    Ok(heads)
}
