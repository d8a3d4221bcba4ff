//! The bench: jobq, bare SQLite and its peers at the same works, with one command.

mod chart;
mod child;
mod limit;
mod machine;
mod ours;
mod plan;
mod report;
mod results;
mod starve;
mod subjects;
mod targets;

use anyhow::{Context, Result};
use child::Interrupted;
use clap::Parser;
use jobq_bench_works::{Settings, run};
use regex_lite::Regex;
use std::{fs, io::Write, path::PathBuf, process::ExitCode, time::Instant};

/// Measures jobq, bare SQLite (the limit) and the peers at the same works, and prints the tables as Markdown.
///
/// Works: W1 single enqueues, W2 bulk enqueues, W3 drain of a backlog, W4 enqueue and run at once, W5 latency,
/// W6 rates against what else is in the table, W7 an idle worker, W8 several processes, W9 a killed worker.
/// The peers are built first, each with its own lock file.
#[derive(Parser)]
#[command(name = "jobq-bench")]
struct Options {
    /// A look in under two minutes: one round, small sizes, no peers in W6 and W8. Not for comparisons.
    #[arg(long)]
    quick: bool,
    /// Only subjects whose `name; durability` matches, such as `jobq|limit`.
    #[arg(long, value_name = "REGEX")]
    only: Option<Regex>,
    /// Only these works, such as `W1,W3`.
    #[arg(long, value_name = "WORKS", value_delimiter = ',', value_parser = work)]
    works: Vec<u8>,
    /// Rounds of W1 to W4, W6 and W8 [default: 5, quick 1].
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    rounds: Option<u64>,
    /// Also all figures of all rounds as JSON; `-` is standard output, the tables are then on standard error.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Also a chart of W1 (64 tasks) to W4.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Where the databases are laid [default: beside this program, since /tmp is in memory on many machines].
    #[arg(long, value_name = "FOLDER")]
    dir: Option<PathBuf>,
}

fn work(text: &str) -> Result<u8, String> {
    let number = text.trim().trim_start_matches(['W', 'w']).parse();
    number.ok().filter(|number| (1..=9).contains(number)).ok_or_else(|| "W1 to W9".into())
}

fn main() -> Result<ExitCode> {
    // A child of the bench, see `plan`.
    if std::env::args().nth(1).is_some_and(|first| first == "work") {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        return runtime.block_on(be_a_child());
    }
    match bench(&Options::parse()) {
        Err(error) if error.is::<Interrupted>() => {
            eprintln!("interrupted");
            Ok(ExitCode::from(130))
        }
        outcome => outcome.map(|()| ExitCode::SUCCESS),
    }
}

async fn be_a_child() -> Result<ExitCode> {
    let settings = Settings::of_this_program();
    if settings.text("subject", "jobq") == "limit" {
        run(&settings, limit::Limit::open(&settings).await?).await
    }
    if settings.work == "starve" {
        println!("{}", starve::starve(&settings).await.map_err(|error| anyhow::anyhow!("{error}"))?);
        return Ok(ExitCode::SUCCESS);
    }
    let queue = ours::Jobq::open(&settings).await.map_err(|error| anyhow::anyhow!("{error}"))?;
    if settings.work == "hang" {
        queue.hang(&settings).await.map_err(|error| anyhow::anyhow!("{error}"))?;
        return Ok(ExitCode::SUCCESS);
    }
    run(&settings, queue).await
}

fn bench(options: &Options) -> Result<()> {
    child::heed_signals()?;
    let beside = std::env::current_exe()?;
    let place = options.dir.as_deref().or(beside.parent()).context("a folder for the databases")?;
    let dir = tempfile::Builder::new().prefix("jobq-bench-").tempdir_in(place)?;
    let (subjects, missing) =
        subjects::assemble(|key| options.only.as_ref().is_none_or(|only| only.is_match(key)))?;
    anyhow::ensure!(!subjects.is_empty(), "no subject matches");

    let sizes = if options.quick { plan::Sizes::QUICK } else { plan::Sizes::FULL };
    let rounds = options.rounds.unwrap_or(if options.quick { 1 } else { 5 });
    let mut results = results::Results::default();
    results.troubles = missing;
    let mut bench =
        plan::Bench { subjects: &subjects, sizes, rounds, dir: dir.path(), results, began: Instant::now() };
    bench.run(|work| options.works.is_empty() || options.works.contains(&work))?;
    let plan::Bench { sizes, results, began, .. } = bench;
    eprintln!("{:>5.0} s  done", began.elapsed().as_secs_f64());

    let report = report::Report {
        subjects: &subjects,
        results: &results,
        targets: &targets::targets(&subjects, &results),
        machine: &machine::Machine::here(dir.path()),
        foundations: &subjects::foundations(&subjects)?,
        sizes: &sizes,
        rounds,
        quick: options.quick,
    };
    tell(options, &report)
}

/// The tables, and what else was asked for.
fn tell(options: &Options, report: &report::Report) -> Result<()> {
    let (text, json) = (report.markdown(), serde_json::to_string_pretty(&report.json())?);
    match options.json.as_deref() {
        Some(path) if path.as_os_str() == "-" => {
            eprintln!("{text}");
            writeln!(std::io::stdout(), "{json}")?;
        }
        path => {
            writeln!(std::io::stdout(), "{text}")?;
            path.map(|path| fs::write(path, json)).transpose()?;
        }
    }
    if let Some(path) = &options.svg {
        fs::write(path, chart::svg(report)?)
            .with_context(|| format!("{} can't be written", path.display()))?;
    }
    Ok(())
}
