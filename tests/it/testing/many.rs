//! Many tests at once: none sees another's jobs, and they are quick.

use jobq::{assert_enqueued, prelude::*, testing::*};
use std::time::Instant;

#[job(type = "many:job", label = "number {n}")]
async fn numbered(n: usize) -> Result<usize, String> {
    Ok(n)
}

/// What a usual test does.
async fn one(queue: TestQueue, n: usize) {
    numbered.enqueue(n).await.unwrap();
    numbered.enqueue(n).delay(hours(1)).await.unwrap();
    assert_enqueued!(queue, Numbered { n: found } if *found == n);
    assert_eq!(queue.drain().await.assert_ok().completed(), 1);
    queue.advance(hours(1));
    queue.drain().await.assert_ok();
    let all = queue.all::<Numbered>().await;
    assert!(all.len() == 2 && all.iter().all(|found| found.job.n == n));
}

fn run(tests: usize, in_file: bool) {
    let begun = Instant::now();
    let threads = std::thread::available_parallelism().map_or(2, usize::from).max(2);
    std::thread::scope(|scope| {
        for thread in 0..threads {
            scope.spawn(move || {
                for n in (thread..tests).step_by(threads) {
                    jobq::testing::in_test(in_file, |queue| one(queue, n));
                }
            });
        }
    });
    eprintln!("{tests} tests on {threads} threads, in a file: {in_file}, took {:?}", begun.elapsed());
}

#[test]
fn a_thousand_tests_at_once_share_nothing() {
    run(1000, false);
}

#[test]
#[cfg(target_os = "linux")]
fn tests_in_files_leave_no_file_open() {
    let open = || {
        std::fs::read_dir("/proc/self/fd")
            .unwrap()
            .flatten()
            .filter_map(|fd| {
                let path = std::fs::read_link(fd.path()).ok()?;
                path.to_string_lossy().contains("/jobq-test-").then_some(path)
            })
            .count()
    };
    run(100, true);
    // Others run beside this; a thread that closes the last file of a queue may still be at it.
    let patience = Instant::now();
    while open() > 60 {
        assert!(patience.elapsed().as_secs() < 30, "{} files of tests are open", open());
        std::thread::yield_now();
    }
}
