//! Rows that were damaged by hand, and acts that can't be done: they fail alone.

use super::*;

#[tokio::test]
async fn a_row_that_cannot_be_claimed_does_not_hold_up_the_others() {
    let site = Site::new().await;
    let worker = sign_in(&site.store).await;
    let ids = soon(site.store.enqueue(jobs("a", 6), T0)).await.unwrap().ids();
    site.raw()
        .execute_batch(
            r#"PRAGMA ignore_check_constraints = ON;
             UPDATE jobs SET attempts = max_attempts WHERE payload = '{"n":0}';
             UPDATE jobs SET priority = 70000 WHERE payload = '{"n":1}';"#,
        )
        .unwrap();
    let one = claim(&site.store, worker, &["a"], 1).await;
    assert_eq!(one.iter().map(|job| job.id).collect::<Vec<_>>(), [ids[2]], "at the head of its lane");
    let rest = claim(&site.store, worker, &["a"], 9).await;
    assert_eq!(rest.iter().map(|job| job.id).collect::<Vec<_>>(), ids[3..]);
    let left: Vec<(i64, i64)> = {
        let db = site.raw();
        let mut rows = db.prepare("SELECT state, lease FROM jobs ORDER BY id LIMIT 2 OFFSET 1").unwrap();
        rows.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap().collect::<Result<_, _>>().unwrap()
    };
    assert_eq!(left, [(1, 0), (1, 0)], "untouched, for a person to look at");

    // With nothing else there, a standing claim waits instead of failing, and is answered by sound work.
    let wish = unanswered(wish(&site.store, standing(worker, &["a"], 1))).await;
    let sound = soon(site.store.enqueue(jobs("a", 1), T0)).await.unwrap().ids();
    assert_eq!(soon(wish).await.unwrap().unwrap()[0].id, sound[0]);
    // Mended by hand, they run.
    let mend = "UPDATE jobs SET attempts = 0, priority = 0 WHERE payload IN ('{\"n\":0}', '{\"n\":1}') AND state = 1";
    assert_eq!(site.raw().execute(mend, []).unwrap(), 2);
    let mended = claim(&site.store, worker, &["a"], 9).await;
    assert_eq!(mended.iter().map(|job| job.id).collect::<Vec<_>>(), ids[..2]);
    let bystander = site.store.get(site.bystander.id).await.unwrap();
    assert_eq!(bystander, Some(site.bystander.clone()));
}

/// Two acts share one transaction; the one that can't be done does not take the other with it.
#[tokio::test]
async fn an_act_that_fails_does_not_take_its_batch_mates_with_it() {
    let site = Site::new().await;
    let worker = sign_in(&site.store).await;
    soon(site.store.enqueue(jobs("a", 3), T0)).await.unwrap();
    let taken = claim(&site.store, worker, &["a"], 3).await;
    let db = site.raw();
    db.execute_batch(
        r#"CREATE TRIGGER refuse BEFORE UPDATE ON jobs WHEN old.payload = '{"n":1}'
            BEGIN SELECT raise(ABORT, 'refused by a trigger'); END"#,
    )
    .unwrap();
    db.execute_batch("BEGIN IMMEDIATE").unwrap();
    let store = &site.store;
    let acts = async {
        tokio::join!(
            store.complete(vec![completion(&taken[0])], T0),
            store.complete(vec![completion(&taken[1])], T0),
            store.fail(vec![failure(&taken[2], Next::At(T0 + HOUR))], T0),
            store.enqueue(jobs("b", 1), T0),
            async { db.execute_batch("COMMIT").unwrap() }
        )
    };
    let (first, damaged, third, enqueued, ()) = soon(acts).await;
    assert_eq!(first.unwrap(), [Settled::Applied]);
    let error = damaged.unwrap_err();
    assert!(error.to_string().contains("refused by a trigger") && !error.is_transient(), "{error:?}");
    assert_eq!(third.unwrap(), [Settled::Applied]);
    assert_eq!(state(store, enqueued.unwrap()[0].id).await, Some(JobState::Pending));
    assert_eq!(state(store, taken[0].id).await, Some(JobState::Completed));
    assert_eq!(state(store, taken[1].id).await, Some(JobState::Running));
    assert_eq!(state(store, taken[2].id).await, Some(JobState::Scheduled));
    site.is_well().await;
}

/// A lease that was set back by hand meets its own row in the history: the attempt is told anew, and nothing stands still.
#[tokio::test]
async fn a_lease_that_was_set_back_does_not_keep_its_job_running() {
    let site = Site::new().await;
    let worker = sign_in(&site.store).await;
    let id = soon(site.store.enqueue(jobs("a", 1), T0)).await.unwrap()[0].id;
    for at in [T0, T0 + 5] {
        let taken = claim(&site.store, worker, &["a"], 1).await;
        assert_eq!((taken[0].id, taken[0].lease), (id, 1));
        assert_eq!(
            soon(site.store.fail(vec![failure(&taken[0], Next::At(at))], at)).await.unwrap(),
            [Settled::Applied]
        );
        site.raw().execute("UPDATE jobs SET lease = 0 WHERE lease = 1", []).unwrap();
    }
    let history = site.store.attempts(id).await.unwrap();
    assert_eq!(history.iter().map(|one| (one.lease, one.ended_at)).collect::<Vec<_>>(), [(1, Some(T0 + 5))]);
    site.is_well().await;
}

/// Workers that have been gone for a day are forgotten by a prune, also where there is nothing else to prune.
#[tokio::test]
async fn a_prune_forgets_workers_that_are_long_gone() {
    let site = Site::new().await;
    let (gone, here) = (sign_in(&site.store).await, sign_in(&site.store).await);
    soon(site.store.bury(vec![gone], T0)).await.unwrap();
    let keep = jobq::store::Retention { finished: None, dead: None };
    let left = || column::<i64>(&site.raw(), "SELECT id FROM jobq_workers ORDER BY id");
    assert_eq!(soon(site.store.prune(keep, T0 + 86_399_999)).await.unwrap(), 0);
    assert_eq!(left(), [gone.0, here.0]);
    assert_eq!(soon(site.store.prune(keep, T0 + 86_400_000)).await.unwrap(), 0);
    assert_eq!(left(), [here.0]);
    site.is_well().await;
}

/// Something in the file refuses the workers' beats: that is told, and fails neither enqueues nor claims.
#[tokio::test]
async fn a_beat_that_is_refused_fails_nobody_else() {
    let site = Site::new().await;
    let db = site.raw();
    db.execute_batch(
        "CREATE TRIGGER refuse BEFORE UPDATE ON jobq_workers BEGIN SELECT raise(ABORT, 'no beats'); END",
    )
    .unwrap();
    let new = NewWorker { beat: Duration::from_millis(1), queues: "all".into() };
    let worker = soon(site.store.register(new, T0)).await.unwrap();
    for _ in 0..20 {
        let id = soon(site.store.enqueue(jobs("a", 1), T0)).await.unwrap()[0].id;
        assert_eq!(claim(&site.store, worker, &["a"], 1).await[0].id, id);
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let beats = || column::<i64>(&site.raw(), "SELECT beats FROM jobq_workers")[0];
    assert_eq!(beats(), 0);
    db.execute_batch("DROP TRIGGER refuse").unwrap();
    soon(async {
        while beats() == 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    site.is_well().await;
}

/// Text that is not UTF-8, as other programs may write it: shown with marks, never a reason to fail a whole page.
#[tokio::test]
async fn text_that_is_not_utf8_is_shown_listed_and_claimed() {
    let site = Site::new().await;
    let worker = sign_in(&site.store).await;
    let ids = soon(site.store.enqueue(jobs("a", 2), T0)).await.unwrap().ids();
    site.raw()
        .execute_batch(
            r#"UPDATE jobs SET payload = CAST(x'22ff22' AS TEXT), label = CAST(x'41ff' AS TEXT),
                error = CAST(x'c328' AS TEXT) WHERE payload = '{"n":0}'"#,
        )
        .unwrap();
    let rows = of_type(&site.store, "a").await;
    assert_eq!(rows.len(), 2);
    assert_eq!(rows[1].label.as_deref(), Some("A\u{fffd}"));
    assert_eq!(rows[1].payload, "\"\u{fffd}\"");
    let taken = claim(&site.store, worker, &["a"], 9).await;
    assert_eq!(taken.iter().map(|job| job.id).collect::<Vec<_>>(), ids);
    soon(site.store.fail(vec![failure(&taken[0], Next::Dead)], T0)).await.unwrap();
    assert_eq!(soon(site.store.retry(vec![ids[0]], T0)).await.unwrap(), [Acted::Done]);
    assert_eq!(soon(site.store.cancel(vec![ids[0]], T0)).await.unwrap(), [Acted::Done]);
    assert_eq!(soon(site.store.delete(vec![ids[0]], T0)).await.unwrap(), [Acted::Done]);
    site.is_well().await;
}

/// The row of a worker was deleted by hand: what it holds is not forgotten, and while it lives it is not robbed.
#[tokio::test]
async fn a_worker_without_a_row_is_known_by_the_jobs_that_it_holds() {
    use jobq::store::Life;
    let site = Site::new().await;
    let (living, elsewhere) = (sign_in(&site.store).await, WorkerId(4711));
    soon(site.store.enqueue(jobs("a", 3), T0)).await.unwrap();
    let held = claim(&site.store, living, &["a"], 2).await;
    assert_eq!(claim(&site.store, elsewhere, &["a"], 9).await.len(), 1);
    site.raw().execute("DELETE FROM jobq_workers", []).unwrap();
    let lives = async || -> Vec<_> {
        let workers = soon(site.store.workers()).await.unwrap();
        workers.into_iter().map(|row| (row.id, row.life, row.beats)).collect()
    };
    assert_eq!(lives().await, [(living, Life::Alive, 0), (elsewhere, Life::Unknown, 0)]);
    let other = site.another().await;
    assert_eq!(soon(other.workers()).await.unwrap().len(), 2);
    let done = held.iter().map(completion).collect();
    assert_eq!(soon(site.store.complete(done, T0)).await.unwrap(), [Settled::Applied; 2]);
    assert_eq!(lives().await, [(elsewhere, Life::Unknown, 0)], "who holds nothing is not missed");
    site.is_well().await;
}

#[tokio::test]
async fn the_tables_refuse_most_damage_by_hand() {
    let site = Site::new().await;
    soon(site.store.enqueue(jobs("a", 1), T0)).await.unwrap();
    let db = site.raw();
    for damage in [
        "state = 6",
        "state = -1",
        "state = 'running'",
        "state = 2",
        "state = 3",
        "completed_at = 5",
        "attempts = max_attempts",
        "attempts = -1",
        "max_attempts = 0",
        "lease = -1",
        "run_at = NULL",
        "run_at = 'tomorrow'",
        "created_at = -1",
        "priority = 40000",
        "payload = NULL",
        "payload = x'00'",
        "backoff = 'not json'",
        "timeout = -1",
        "lane = 4711",
    ] {
        let changed = db.execute(&format!("UPDATE jobs SET {damage} WHERE payload = '{{\"n\":0}}'"), []);
        assert!(changed.is_err(), "{damage} was let in");
    }
    site.is_well().await;
}

/// One row that another hand has laid beside the jobs, in any of the tables, stops nobody.
#[tokio::test]
async fn a_hostile_row_in_any_other_table_stops_nobody() {
    const WORKERS: &str = "INSERT INTO jobq_workers";
    let bad = "CAST(x'ff41' AS TEXT)";
    let most = i64::MAX;
    for hostile in [
        format!("INSERT INTO jobq_lanes (queue, job_type) VALUES ({bad}, {bad})"),
        format!("INSERT INTO jobq_pauses (kind, name, paused_at) VALUES (0, {bad}, 1)"),
        format!(
            "INSERT INTO jobq_limits (kind, name, source, concurrency, set_at) VALUES (1, {bad}, 1, 1, 1)"
        ),
        format!(
            "INSERT INTO jobq_limits (kind, name, source, concurrency, rate_starts, rate_per, set_at) VALUES (1, 'z', 1, {most}, {most}, {most}, 1)"
        ),
        format!("INSERT INTO jobq_subscriptions VALUES ({bad}, {bad}, {bad}, 1)"),
        WORKERS.to_owned(),
    ] {
        let site = Site::new().await;
        let db = site.raw();
        let hostile = if hostile == WORKERS {
            let mut columns = db.prepare("SELECT name, type FROM pragma_table_info('jobq_workers')").unwrap();
            let column = |row: &rusqlite::Row<'_>| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?));
            let columns = columns.query_map([], column).unwrap().map(Result::unwrap);
            let columns = columns.filter(|(name, _)| name != "id" && name != "gone_at");
            let (names, values): (Vec<_>, Vec<_>) = columns
                .map(|(name, kind)| (name, if kind == "TEXT" { bad.to_owned() } else { most.to_string() }))
                .unzip();
            format!("{WORKERS} ({}) VALUES ({})", names.join(", "), values.join(", "))
        } else {
            hostile
        };
        db.execute_batch(&format!("PRAGMA ignore_check_constraints = ON; {hostile}")).expect(&hostile);
        drop(db);
        let store = site.another().await;
        let worker = sign_in(&store).await;
        let ids = soon(store.enqueue(jobs("a", 2), T0)).await.expect(&hostile).ids();
        let got = claim(&store, worker, &["a"], 9).await;
        assert_eq!(got.iter().map(|job| job.id).collect::<Vec<_>>(), ids, "{hostile}");
        assert!(store.workers().await.expect(&hostile).iter().any(|row| row.id == worker));
        assert_eq!(store.running(vec![worker]).await.expect(&hostile).len(), 2);
        store.limits(T0).await.expect(&hostile);
        store.pauses().await.expect(&hostile);
        store.subscriptions().await.expect(&hostile);
        store.counts().await.expect(&hostile);
        store.promote(10, T0).await.expect(&hostile);
        let keep = jobq::store::Retention { finished: None, dead: None };
        store.prune(keep, T0).await.expect(&hostile);
        assert_eq!(soon(store.complete(vec![completion(&got[0])], T0)).await.unwrap(), [Settled::Applied]);
    }
}
