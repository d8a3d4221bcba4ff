//! Somebody else holds the write lock: who waits, how long, and what is said.

use super::*;
use crate::child::Child;

#[tokio::test]
async fn an_enqueue_beside_the_programs_own_write_transaction_names_in_tx() {
    let site = Site::with(|options| options.deadline(Duration::from_millis(150))).await;
    let app = site.raw();
    app.execute_batch("BEGIN IMMEDIATE").unwrap();
    let refusal = soon(site.store.enqueue(jobs("a", 1), T0)).await.unwrap_err();
    let StoreError::Busy { waited, holder } = &refusal else { panic!("{refusal:?}") };
    assert!(*waited >= Duration::from_millis(150), "{waited:?}");
    assert!(holder.contains("in_tx") && holder.contains("this very program"), "{holder}");
    app.execute_batch("COMMIT").unwrap();
    assert_eq!(of_type(&site.store, "a").await, [], "nothing was stored");
    assert_eq!(soon(site.store.enqueue(jobs("a", 1), T0)).await.unwrap().len(), 1);
    site.is_well().await;
}

#[tokio::test]
async fn a_foreign_holder_is_named_by_its_pid() {
    let site = Site::with(|options| options.deadline(Duration::from_millis(150))).await;
    let mut locker = Child::start("lock", &[&site.path]);
    locker.expect("locked");
    let refusal = soon(site.store.enqueue(jobs("a", 1), T0)).await.unwrap_err().to_string();
    assert!(refusal.contains(&format!("process {}", locker.pid())), "{refusal}");
    locker.say("unlock");
    locker.expect("unlocked");
    assert_eq!(of_type(&site.store, "a").await, []);
    assert_eq!(soon(site.store.enqueue(jobs("a", 1), T0)).await.unwrap().len(), 1);
    site.is_well().await;
}

#[tokio::test]
async fn whoever_waits_within_its_deadline_is_served_when_the_lock_is_free() {
    let site = Site::with(|options| options.deadline(DAY)).await;
    let worker = sign_in(&site.store).await;
    let ids = soon(site.store.enqueue(jobs("a", 4), T0)).await.unwrap().ids();
    let taken = claim(&site.store, worker, &["a"], 2).await;
    let foreign = site.raw();
    foreign.execute_batch("BEGIN IMMEDIATE").unwrap();
    let store = &site.store;
    let waiting = async {
        tokio::join!(
            store.enqueue(jobs("b", 2), T0),
            store.complete(vec![completion(&taken[0])], T0),
            store.fail(vec![failure(&taken[1], Next::Dead)], T0),
            store.cancel(vec![ids[2]], T0),
            store.claim(standing(worker, &["b"], 1), T0),
            async {
                // Readers are not held up, so this is an answer while the others wait.
                assert_eq!(all(store).await.len(), 5);
                foreign.execute_batch("COMMIT").unwrap();
            }
        )
    };
    let (enqueued, completed, failed, cancelled, claimed, ()) = soon(waiting).await;
    assert_eq!(enqueued.unwrap().len(), 2);
    assert_eq!((completed.unwrap(), failed.unwrap()), (vec![Settled::Applied], vec![Settled::Applied]));
    assert_eq!(cancelled.unwrap(), [Acted::Done]);
    assert_eq!(claimed.unwrap().len(), 1);
    site.is_well().await;
}

#[tokio::test]
async fn a_deadline_and_a_beat_may_be_as_long_as_a_duration_can_be() {
    let site = Site::with(|options| options.deadline(Duration::MAX)).await;
    let worker = NewWorker { beat: Duration::MAX, queues: "all".into() };
    soon(site.store.register(worker, T0)).await.unwrap();
    soon(site.store.enqueue(jobs("a", 1), T0)).await.unwrap();
    site.is_well().await;
}

/// People's lists may take as long as they like: what a worker lives by is read beside them.
#[tokio::test]
async fn long_lists_hold_up_no_worker() {
    let site = Site::new().await;
    let worker = sign_in(&site.store).await;
    soon(site.store.enqueue(jobs("a", 10_000), T0)).await.unwrap();
    let lists: Vec<_> = (0..300).map(|_| site.store.counts()).collect();
    let mut lists = std::pin::pin!(async {
        for list in lists {
            list.await.unwrap();
        }
    });
    let looks = async {
        assert!(site.store.due(set(&["a"]), T0).await.unwrap().pending);
        assert_eq!(site.store.workers().await.unwrap()[0].id, worker);
        assert_eq!(site.store.running(vec![worker]).await.unwrap(), []);
    };
    tokio::select! {
        biased;
        () = looks => {}
        () = &mut lists => panic!("the workers' reads waited for all of the lists"),
    }
    soon(lists).await;
    site.is_well().await;
}

/// What waits together may be more than one commit takes; it is stored in the order in which it came.
#[tokio::test]
async fn what_waited_together_is_all_stored_in_its_order() {
    let site = Site::with(|options| options.deadline(DAY)).await;
    let foreign = site.raw();
    foreign.execute_batch("BEGIN IMMEDIATE").unwrap();
    let waiting: Vec<_> = (0..60).map(|_| site.store.enqueue(jobs("a", 400), T0)).collect();
    foreign.execute_batch("COMMIT").unwrap();
    let mut ids = Vec::new();
    for answer in waiting {
        ids.extend(soon(answer).await.unwrap().ids());
    }
    assert_eq!(ids.len(), 24_000);
    assert!(ids.is_sorted(), "ids rise in the order of the calls");
    let stored: i64 = column(&site.raw(), "SELECT count(*) FROM jobs")[0];
    assert_eq!(stored, 24_001, "and the bystander");
    // A claim is cut as well: whoever wants more asks again.
    let worker = sign_in(&site.store).await;
    let mut claimed = Vec::new();
    while claimed.len() < ids.len() {
        let some = claim(&site.store, worker, &["a"], 30_000).await;
        assert!(!some.is_empty(), "{} of {}", claimed.len(), ids.len());
        claimed.extend(some.into_iter().map(|job| job.id));
    }
    assert_eq!(claimed, ids);
    site.is_well().await;
}

/// A deadline passes for those who have one; results of attempts wait as long as it takes.
#[tokio::test]
async fn a_result_waits_for_the_lock_as_long_as_it_takes() {
    let site = Site::with(|options| options.deadline(Duration::from_millis(50))).await;
    let worker = sign_in(&site.store).await;
    soon(site.store.enqueue(jobs("a", 3), T0)).await.unwrap();
    let taken = claim(&site.store, worker, &["a"], 3).await;
    let foreign = site.raw();
    foreign.execute_batch("BEGIN IMMEDIATE").unwrap();
    let results = [
        unanswered(result(&site.store, vec![completion(&taken[0])])).await,
        unanswered(result(&site.store, vec![completion(&taken[1])])).await,
    ];
    for _ in 0..4 {
        let refusal = soon(site.store.enqueue(jobs("b", 1), T0)).await.unwrap_err();
        assert!(matches!(refusal, StoreError::Busy { .. }), "{refusal:?}");
    }
    let refusal = soon(site.store.cancel(vec![taken[2].id], T0)).await.unwrap_err();
    assert!(matches!(refusal, StoreError::Busy { .. }), "{refusal:?}");
    assert!(results.iter().all(|result| !result.is_finished()));
    foreign.execute_batch("COMMIT").unwrap();
    for result in results {
        assert_eq!(soon(result).await.unwrap().unwrap(), [Settled::Applied]);
    }
    assert_eq!(of_type(&site.store, "b").await, []);
    site.is_well().await;
}

/// A claim waits quietly: the lock is nobody's fault.
#[tokio::test]
async fn a_claim_beside_a_held_lock_is_no_error() {
    let site = Site::with(|options| options.deadline(Duration::from_millis(50))).await;
    let worker = sign_in(&site.store).await;
    let ids = soon(site.store.enqueue(jobs("a", 1), T0)).await.unwrap().ids();
    let foreign = site.raw();
    foreign.execute_batch("BEGIN IMMEDIATE").unwrap();
    let wish = unanswered(wish(&site.store, standing(worker, &["a"], 1))).await;
    let refusal = soon(site.store.enqueue(jobs("b", 1), T0)).await.unwrap_err();
    assert!(matches!(refusal, StoreError::Busy { .. }), "{refusal:?}");
    assert!(!wish.is_finished());
    foreign.execute_batch("COMMIT").unwrap();
    assert_eq!(soon(wish).await.unwrap().unwrap()[0].id, ids[0]);
    site.is_well().await;
}

/// A writer that is in the transaction most of the time, as a slow migration or an import is.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_thousand_jobs_beside_a_greedy_foreign_writer_meet_no_busy() {
    let site = Site::new().await;
    let mut locker = Child::start("hog", &[site.path.to_str().unwrap(), "15", "5"]);
    locker.expect("hogging");
    let worker = sign_in(&site.store).await;
    let mut enqueues = tokio::task::JoinSet::new();
    for n in 0..100 {
        let store = site.store.clone();
        enqueues.spawn(async move { store.enqueue(jobs("a", 10), T0 + n).await });
    }
    let mut done = 0;
    while done < 1000 {
        let got = soon(site.store.claim(standing(worker, &["a"], 50), T0 + 1000)).await.unwrap();
        let answers =
            soon(site.store.complete(got.iter().map(completion).collect(), T0 + 1000)).await.unwrap();
        assert!(answers.iter().all(|answer| *answer == Settled::Applied));
        done += got.len();
    }
    for enqueued in enqueues.join_all().await {
        assert_eq!(enqueued.unwrap().len(), 10);
    }
    locker.say("enough");
    locker.expect("enough");
    site.is_well().await;
}

#[jobq::job]
async fn drained_beside_a_lock() {}

/// A drain ends when there is nothing left, however long its claims have to wait for the lock.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_drain_beside_a_foreign_writer_leaves_nothing() {
    let site = Site::new().await;
    let mut locker = Child::start("hog", &[site.path.to_str().unwrap(), "15", "1"]);
    locker.expect("hogging");
    let queue = jobq::JobQueue::with_store(site.store.clone(), Arc::new(jobq::SystemClock));
    for round in 0..10 {
        let jobs = (0..3).map(|_| NewJob::new("drained_beside_a_lock", "{}")).collect();
        soon(site.store.enqueue(jobs, T0)).await.unwrap();
        // The net below is drawn far more often than the lock is free.
        let worker = jobq::Worker::new(&queue).jobs((drained_beside_a_lock,));
        let stats = soon(worker.poll_interval(Duration::from_millis(2)).drain()).await.unwrap();
        assert_eq!(stats.completed, 3, "round {round}");
    }
    locker.say("enough");
    locker.expect("enough");
    site.is_well().await;
}

#[tokio::test]
async fn enqueues_refused_by_a_lock_leave_no_file_and_no_thread_behind() {
    let site = Site::new().await;
    let mut child = Child::start("refused", &[site.path.to_str().unwrap(), "300"]);
    let left = child.expect("left");
    let (before, after) = left.split_at(left.len() / 2);
    assert_eq!(before.trim(), after.trim());
    assert_eq!(of_type(&site.store, "a").await, []);
    site.is_well().await;
}

/// Case 024: a thousand of them.
#[tokio::test]
async fn results_delayed_by_a_lock_leave_no_file_no_thread_and_no_memory_behind() {
    let site = Site::new().await;
    let mut child = Child::start("delayed", &[site.path.to_str().unwrap(), "10"]);
    let left = child.expect("left");
    println!("{left}");
    let numbers: Vec<u64> = left
        .split(|c: char| !c.is_ascii_digit())
        .filter(|number| !number.is_empty())
        .map(|number| number.parse().unwrap())
        .collect();
    let [delayed, files, threads, files_after, threads_after, memory, memory_after] = numbers[..] else {
        panic!("{left}")
    };
    assert_eq!((delayed, files_after, threads_after), (1000, files, threads));
    assert!(memory_after <= memory + memory / 20, "{left}");
    assert_eq!(of_type(&site.store, "b").await, []);
    let ended = site.store.counts().await.unwrap();
    let ended: Vec<_> =
        ended.iter().filter(|count| count.job_type == "a").map(|count| (count.state, count.count)).collect();
    assert_eq!(ended, [(JobState::Completed, 4000)]);
    site.is_well().await;
}

/// Case 014: what people do to jobs while workers run and a foreign program writes; each answer is one about the job.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn acts_of_fifty_people_beside_a_worker_and_a_foreign_writer_meet_no_lock() {
    let site = Site::new().await;
    let people = site.another().await;
    let mut locker = Child::start("hog", &[site.path.to_str().unwrap(), "15", "5"]);
    locker.expect("hogging");
    let later =
        |n: usize| NewJob { run_at: Some(T0 + HOUR * (n as i64 % 2)), ..job("drained_beside_a_lock", n) };
    let ids = soon(site.store.enqueue((0..500).map(later).collect(), T0)).await.unwrap().ids();
    let queue = jobq::JobQueue::with_store(site.store.clone(), Arc::new(jobq::SystemClock));
    let worker =
        jobq::Worker::new(&queue).jobs((drained_beside_a_lock,)).concurrency(5).start().await.unwrap();
    let mut acts = tokio::task::JoinSet::new();
    for person in 0..50 {
        let (people, mine) = (people.clone(), ids[person * 10..][..10].to_vec());
        acts.spawn(async move {
            for id in mine {
                for act in 0..4 {
                    let answer = match (act + person) % 4 {
                        0 => people.cancel(vec![id], T0).await,
                        1 => people.retry(vec![id], T0).await,
                        2 => people.run_now(vec![id], T0).await,
                        _ => people.delete(vec![id], T0).await,
                    };
                    answer.unwrap_or_else(|error| panic!("person {person}, act {act}: {error}"));
                    people.get(id).await.unwrap();
                }
            }
        });
    }
    tokio::time::timeout(Duration::from_secs(60), acts.join_all()).await.expect("all have acted");
    // Nothing is stuck: all that is left comes to its end.
    let none_runs = async || {
        let rows = of_type(&site.store, "drained_beside_a_lock").await;
        rows.iter().all(|row| row.state.is_terminal() || row.run_at > T0)
    };
    soon(async { while !none_runs().await {} }).await;
    assert_eq!((worker.stats().failed, worker.stats().late), (0, 0));
    worker.stop().await.unwrap();
    locker.say("enough");
    locker.expect("enough");
    site.is_well().await;
}

/// Dropping the future of an enqueue neither undoes nor harms anything.
#[tokio::test]
async fn a_dropped_enqueue_is_stored_whole_or_not_at_all() {
    let site = Site::new().await;
    for n in 0..50 {
        let mut dropped = Box::pin(site.store.enqueue(jobs("a", 3), T0));
        let mut kept = site.store.enqueue(vec![job("b", n)], T0);
        tokio::select! {
            biased;
            _ = &mut dropped => {}
            _ = tokio::task::yield_now() => {}
        }
        drop(dropped);
        assert_eq!(soon(&mut kept).await.unwrap().len(), 1);
    }
    let whole = of_type(&site.store, "a").await.len();
    assert_eq!(whole, 150, "each was handed over whole before its future was dropped");
    assert_eq!(of_type(&site.store, "b").await.len(), 50);
    site.is_well().await;
}
