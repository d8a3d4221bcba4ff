//! The model test: random edges on the store in memory and on SQLite, which must answer and look alike throughout.
//!
//! `JOBQ_SEED=…` begins with that sequence instead of a random one; `JOBQ_MODEL_SEQUENCES=…` tries as many.

mod flows;
mod op;
mod pair;
mod ticks;

use op::{Op, sequence};
use pair::Pair;
use std::{fmt::Write, ops::Range, time::Instant};

const SEQUENCES: u64 = 2000;
/// Each thread has stores of its own; they last for many sequences, since opening one takes longer than a sequence.
const THREADS: u64 = 2;

#[test]
fn memory_and_sqlite_agree_on_random_edges() {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().expect(name));
    let seed = number("JOBQ_SEED").unwrap_or_else(|| fastrand::u64(..1 << 48));
    let sequences = number("JOBQ_MODEL_SEQUENCES").unwrap_or(SEQUENCES);
    eprintln!("JOBQ_SEED={seed} JOBQ_MODEL_SEQUENCES={sequences}");
    let began = Instant::now();
    std::thread::scope(|scope| {
        let shares: Vec<_> =
            (0..THREADS).map(|thread| scope.spawn(move || share(seed + thread..seed + sequences))).collect();
        let answered: usize = shares.into_iter().map(|share| share.join().expect("see above")).sum();
        eprintln!("{answered} operations compared in {:?}", began.elapsed());
        assert!(answered as u64 >= sequences * 10, "the sequences do something");
    });
}

/// Every `THREADS`-th of the sequences; how many operations were compared.
fn share(seeds: Range<u64>) -> usize {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut pair = Pair::open().await;
        let mut answered = 0;
        for seed in seeds.step_by(THREADS as usize) {
            let ops = sequence(seed);
            match run(&mut pair, &ops).await {
                Ok(()) => answered += ops.len(),
                Err((step, difference)) => panic!("{}", report(seed, &ops[..=step], &difference).await),
            }
        }
        answered
    })
}

/// Does a sequence on both stores and clears them; the first operation that they differ in, and how.
async fn run(pair: &mut Pair, ops: &[Op]) -> Result<(), (usize, String)> {
    for (step, op) in ops.iter().enumerate() {
        pair.apply(op).await.map_err(|difference| (step, difference))?;
    }
    let last = ops.len().saturating_sub(1);
    pair.compare_everything().await.map_err(|difference| (last, difference))?;
    pair.clear().await.map_err(|difference| (last, difference))
}

/// The shortest sequence that leaving out one thing after the other leads to, and what differs in it.
async fn report(seed: u64, ops: &[Op], difference: &str) -> String {
    let (mut ops, mut difference) = (ops.to_vec(), difference.to_owned());
    while let Some((fewer, found)) = shrunk(&ops).await {
        (ops, difference) = (fewer, found);
    }
    let mut text = format!("JOBQ_SEED={seed} JOBQ_MODEL_SEQUENCES=1 differs; the least that does:\n");
    for op in &ops {
        writeln!(text, "  {op:?}").unwrap();
    }
    text + &difference
}

/// One operation, or one item of one, less; `None` where all of it is needed.
async fn shrunk(ops: &[Op]) -> Option<(Vec<Op>, String)> {
    for at in (0..ops.len()).rev() {
        let replaced = |by: Vec<Op>| [&ops[..at], &by, &ops[at + 1..]].concat();
        let candidates = std::iter::once(Vec::new()).chain(ops[at].smaller().into_iter().map(|op| vec![op]));
        for mut fewer in candidates.map(replaced) {
            if let Err((step, difference)) = run(&mut Pair::open().await, &fewer).await {
                fewer.truncate(step + 1);
                return Some((fewer, difference));
            }
        }
    }
    None
}
