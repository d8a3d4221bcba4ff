//! A claim that found nothing is answered by the commit that brings work, whoever makes it.

use super::*;
use crate::child::Child;

#[tokio::test]
async fn an_enqueue_of_this_process_answers_a_standing_claim() {
    let site = Site::new().await;
    let worker = sign_in(&site.store).await;
    let wish = unanswered(wish(&site.store, standing(worker, &["a"], 5))).await;
    soon(site.store.enqueue(jobs("unknown to it", 1), T0)).await.unwrap();
    assert!(!wish.is_finished(), "not its type");
    let ids = soon(site.store.enqueue(jobs("a", 2), T0 + 7)).await.unwrap().ids();
    let got = soon(wish).await.unwrap().unwrap();
    assert_eq!(got.iter().map(|job| job.id).collect::<Vec<_>>(), ids, "one commit: both are there");
    let row = site.store.get(ids[0]).await.unwrap().unwrap();
    assert_eq!(row.started_at, Some(T0 + 7), "stamped with the commit's own time");
    site.is_well().await;
}

/// The edges that make a job claimable, one after the other.
#[tokio::test]
async fn every_edge_into_pending_answers_a_standing_claim() {
    let site = Site::new().await;
    let (store, worker) = (&site.store, sign_in(&site.store).await);
    let later = NewJob { run_at: Some(T0 + HOUR), max_attempts: 99, ..job("a", 1) };
    let id = soon(store.enqueue(vec![later], T0)).await.unwrap()[0].id;
    let mut held: Option<Claimed> = None;
    for edge in ["run_now", "fail", "snooze and promote", "release", "rescue", "dead and retry"] {
        let wish = unanswered(wish(store, standing(worker, &["a"], 5))).await;
        let lease = held.as_ref().map_or(0, |job| job.lease);
        match edge {
            "run_now" => drop(soon(store.run_now(vec![id], T0)).await.unwrap()),
            "fail" => drop(soon(store.fail(vec![failure(&held.unwrap(), Next::At(T0))], T0)).await.unwrap()),
            "snooze and promote" => {
                let snooze =
                    jobq::store::Snooze { id, lease, run_at: T0 + HOUR, ties: jobq::store::Ties::ALL };
                soon(store.snooze(vec![snooze], T0)).await.unwrap();
                assert_eq!(soon(store.promote(10, T0 + HOUR - 1)).await.unwrap(), 0);
                assert!(!wish.is_finished());
                assert_eq!(soon(store.promote(10, T0 + HOUR)).await.unwrap(), 1);
            }
            "release" => drop(
                soon(
                    store.release(vec![jobq::store::Release { id, lease, ties: jobq::store::Ties::ALL }], T0),
                )
                .await
                .unwrap(),
            ),
            "rescue" => {
                let error = "worker lost".into();
                let rescue = jobq::store::Rescue {
                    id,
                    lease,
                    error,
                    next: Next::At(T0),
                    ties: jobq::store::Ties::ALL,
                    on_dead: None,
                };
                soon(store.rescue(vec![rescue], T0)).await.unwrap();
            }
            _ => {
                soon(store.fail(vec![failure(&held.unwrap(), Next::Dead)], T0)).await.unwrap();
                assert!(!wish.is_finished());
                assert_eq!(soon(store.retry(vec![id], T0)).await.unwrap(), [Acted::Done]);
            }
        }
        let got = soon(wish).await.unwrap().unwrap();
        assert_eq!((got.len(), got[0].id, got[0].lease), (1, id, lease + 1), "{edge}");
        held = got.into_iter().next();
    }
    site.is_well().await;
}

#[tokio::test]
async fn another_process_answers_a_standing_claim() {
    let site = Site::new().await;
    let worker = sign_in(&site.store).await;
    let mut child = Child::start("enqueue", &[site.path.to_str().unwrap(), "a"]);
    child.expect("ready");
    let mut best = Duration::MAX;
    for n in 1..=5 {
        let wish = unanswered(wish(&site.store, standing(worker, &["a"], 50))).await;
        child.say("3");
        let ids = child.expect("enqueued");
        let committed = std::time::Instant::now();
        let got = soon(wish).await.unwrap().unwrap();
        best = best.min(committed.elapsed());
        let claimed: Vec<String> = got.iter().map(|job| job.id.to_string()).collect();
        assert_eq!(claimed.join(" "), ids, "round {n}");
    }
    println!("the quickest answer came {best:?} after the child had said so");
    assert!(best < Duration::from_millis(400), "{best:?}: only the safety poll woke the claims");
    site.is_well().await;
}

/// The counter that tells others to look again.
#[tokio::test]
async fn the_change_counter_rises_with_own_and_foreign_commits() {
    let site = Site::new().await;
    let (other, worker) = (site.another().await, sign_in(&site.store).await);
    let mut changed = site.store.changed();
    changed.mark_unchanged();
    soon(site.store.enqueue(jobs("b", 1), T0)).await.unwrap();
    soon(changed.changed()).await.unwrap();
    let _wish = unanswered(wish(&site.store, standing(worker, &["a"], 1))).await;
    changed.mark_unchanged();
    soon(other.enqueue(jobs("b", 1), T0)).await.unwrap();
    soon(changed.changed()).await.unwrap();
    site.is_well().await;
}

#[tokio::test]
async fn a_dropped_claim_gives_back_what_it_was_given() {
    let site = Site::new().await;
    let worker = sign_in(&site.store).await;
    for round in 0..20i64 {
        let wish = wish(&site.store, standing(worker, &["a"], 5));
        let mut wish = Box::pin(wish);
        tokio::select! {
            biased;
            _ = &mut wish => panic!("nothing was there"),
            _ = tokio::task::yield_now() => {}
        }
        let id = soon(site.store.enqueue(jobs("a", 1), T0)).await.unwrap()[0].id;
        if round % 2 == 0 {
            // The claim was answered in the enqueue's own commit; nobody has looked at the answer yet.
            drop(wish);
        } else {
            drop(soon(wish).await);
            let row = site.store.get(id).await.unwrap().unwrap();
            let taken = jobq::store::Release { id, lease: row.lease, ties: jobq::store::Ties::ALL };
            soon(site.store.release(vec![taken], T0)).await.unwrap();
        }
        let again = soon(site.store.claim(standing(worker, &["a"], 5), T0)).await.unwrap();
        assert_eq!((again.len(), again[0].id, again[0].attempt), (1, id, 1), "round {round}");
        assert_eq!(again[0].lease, 2);
        soon(site.store.complete(vec![completion(&again[0])], T0)).await.unwrap();
    }
    site.is_well().await;
}

#[tokio::test]
async fn a_withdrawn_claim_is_answered_with_nothing() {
    let site = Site::new().await;
    let workers = [sign_in(&site.store).await, sign_in(&site.store).await];
    let gone = unanswered(wish(&site.store, standing(workers[0], &["a"], 5))).await;
    let stays = unanswered(wish(&site.store, standing(workers[1], &["a"], 5))).await;
    site.store.withdraw(workers[0]);
    assert_eq!(soon(gone).await.unwrap().unwrap(), []);
    assert!(!stays.is_finished());
    soon(site.store.enqueue(jobs("a", 1), T0)).await.unwrap();
    assert_eq!(soon(stays).await.unwrap().unwrap().len(), 1);
    site.is_well().await;
}

#[tokio::test]
async fn commits_of_another_connection_are_heard_of_by_who_attends_and_has_no_claim() {
    let site = Site::new().await;
    let (mut changed, attention) = (site.store.changed(), site.store.attend());
    let other = site.raw();
    other.execute("CREATE TABLE theirs (round INTEGER)", []).unwrap();
    for round in 0..5 {
        changed.mark_unchanged();
        other.execute("INSERT INTO theirs VALUES (?1)", [round]).unwrap();
        let rose = tokio::time::timeout(Duration::from_secs(30), changed.changed()).await;
        rose.unwrap_or_else(|_| panic!("no cue within 30 s in round {round}")).unwrap();
    }
    drop(attention);
    site.is_well().await;
}
