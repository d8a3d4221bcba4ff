//! The works: which children each starts, on which files, and which of their figures are kept.

use crate::{
    child::{Answer, Child, go_on, pause},
    results::{Case, Results},
    subjects::{Role, Subject},
};
use anyhow::Result;
use serde::Serialize;
use std::{
    fmt::Display,
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

/// How much of everything.
#[derive(Clone, Debug, Serialize)]
pub struct Sizes {
    /// W1: jobs from one task and from 64.
    pub one: u64,
    pub tasks: u64,
    /// W2: jobs, in batches of 1,000.
    pub bulk: u64,
    /// W3 and W4.
    pub backlog: u64,
    pub both: u64,
    /// Seconds that enqueues may last, the drains of W3 and W4, and those of W6 and W8: the peers', and the others.
    pub enqueue_limit: u64,
    pub drain_limit: u64,
    pub peers_limit: u64,
    pub deep_limit: u64,
    /// W5: jobs.
    pub samples: u64,
    /// W6: backlogs, how many runs of the first make a round, the backlog of the peers and beside `others`.
    pub waiting: &'static [u64],
    pub repeats: u64,
    pub beside: u64,
    pub others: u64,
    /// W7.
    pub idle_seconds: u64,
    /// W8: the backlog for 1, 2 and 4 processes.
    pub shared: u64,
    /// W9.
    pub kills: u64,
    /// Whether the peers take part in W6 and W8.
    pub peers_throughout: bool,
}

impl Sizes {
    /// For the README.
    pub const FULL: Self = Self {
        one: 20_000,
        tasks: 100_000,
        bulk: 200_000,
        backlog: 20_000,
        both: 40_000,
        enqueue_limit: 2,
        drain_limit: 5,
        peers_limit: 8,
        deep_limit: 20,
        samples: 1_000,
        waiting: &[1_000, 20_000, 100_000, 1_000_000],
        repeats: 20,
        beside: 100_000,
        others: 1_000_000,
        idle_seconds: 20,
        shared: 100_000,
        kills: 24,
        peers_throughout: true,
    };
    /// For a look.
    pub const QUICK: Self = Self {
        one: 2_000,
        tasks: 20_000,
        bulk: 20_000,
        backlog: 10_000,
        both: 10_000,
        enqueue_limit: 1,
        drain_limit: 1,
        peers_limit: 4,
        deep_limit: 4,
        samples: 60,
        waiting: &[1_000, 20_000, 100_000],
        repeats: 4,
        beside: 20_000,
        others: 100_000,
        idle_seconds: 2,
        shared: 20_000,
        kills: 3,
        peers_throughout: false,
    };
}

/// How many processes share a file in W8.
const PROCESSES: [u64; 3] = [1, 2, 4];
/// For whatever has no limit of its own: laying a million rows, starting, ending.
const PATIENCE: Duration = Duration::from_secs(120);

/// The run of the works.
pub struct Bench<'a> {
    /// Who is measured.
    pub subjects: &'a [Subject],
    /// How much.
    pub sizes: Sizes,
    /// How often.
    pub rounds: u64,
    /// Where the files are.
    pub dir: &'a Path,
    /// What came out.
    pub results: Results,
    /// When it began, for the progress.
    pub began: Instant,
}

impl Bench<'_> {
    /// All works that are wanted, one after another.
    ///
    /// # Errors
    /// An interrupt, and trouble with the files. A subject that fails is noted in the results.
    pub fn run(&mut self, wanted: impl Fn(u8) -> bool) -> Result<()> {
        let (rounds, peers) = (self.rounds, self.sizes.peers_throughout);
        if (1..=4).any(&wanted) {
            self.interleaved("W1–W4", rounds, |_| true, |bench, subject| bench.rates(subject, &wanted))?;
        }
        if wanted(5) {
            let apart = |role| !matches!(role, Role::Other | Role::LimitNormal);
            self.interleaved("W5", 1, apart, Self::latencies)?;
        }
        if wanted(6) {
            let deep = |role| match role {
                Role::Peer { .. } => peers,
                role => matches!(role, Role::Limit | Role::Ours),
            };
            self.interleaved("W6", rounds, deep, Self::backlogs)?;
        }
        if wanted(7) {
            let work = |role| matches!(role, Role::Ours | Role::Peer { .. });
            self.interleaved("W7", 1, work, Self::idle)?;
        }
        if wanted(8) {
            let share = |role| role == Role::Ours || peers && role == Role::Peer { across: true };
            self.interleaved("W8", rounds, share, Self::processes)?;
        }
        if wanted(9) {
            self.interleaved("W9", 1, |role| role == Role::Ours, Self::kills)?;
        }
        Ok(())
    }

    /// In each round every subject once, one after another.
    fn interleaved(
        &mut self,
        works: &str,
        rounds: u64,
        takes_part: impl Fn(Role) -> bool,
        mut run: impl FnMut(&mut Self, usize) -> Result<()>,
    ) -> Result<()> {
        for round in 1..=rounds {
            for subject in (0..self.subjects.len()).filter(|subject| takes_part(self.subjects[*subject].role))
            {
                let (began, key) = (self.began.elapsed().as_secs_f64(), self.subjects[subject].key());
                eprintln!("{began:>5.0} s  {works}, round {round} of {rounds}: {key}");
                let outcome = run(self, subject);
                self.note(subject, works, outcome)?;
            }
        }
        Ok(())
    }

    /// A failure of a subject is one of the results; an interrupt ends the bench.
    fn note(&mut self, subject: usize, what: impl Display, outcome: Result<()>) -> Result<()> {
        go_on()?;
        if let Err(error) = outcome {
            let trouble = format!("{}, {what}: {error:#}", self.subjects[subject].key());
            eprintln!("         {trouble}");
            self.results.troubles.push(trouble);
        }
        Ok(())
    }

    /// A child at a work; `limit` is the number of seconds that it is told.
    fn child(&self, subject: usize, work: &str, file: &Path, pairs: &[(&str, u64)]) -> Result<Child> {
        self.child_told(subject, work, file, pairs, &[])
    }

    fn child_told(
        &self,
        subject: usize,
        work: &str,
        file: &Path,
        pairs: &[(&str, u64)],
        words: &[&str],
    ) -> Result<Child> {
        let subject = &self.subjects[subject];
        let mut command = Command::new(&subject.program);
        command.args(["work", work]).arg(file).args(subject.arguments).args(words);
        command.args(pairs.iter().map(|(name, value)| format!("{name}={value}")));
        command.current_dir(self.dir);
        Child::start(command)
    }

    /// Runs a child to its end and keeps its figures.
    fn measure(
        &mut self,
        subject: usize,
        case: Case,
        work: &str,
        file: &Path,
        pairs: &[(&str, u64)],
    ) -> Result<()> {
        let answer = self.ask(subject, case, work, file, pairs);
        match answer {
            Ok(answer) => self.keep(subject, case, answer),
            Err(error) => self.note(subject, case, Err(error))?,
        }
        Ok(())
    }

    /// Runs a child to its end; its errors are noted.
    fn ask(
        &mut self,
        subject: usize,
        what: impl Display,
        work: &str,
        file: &Path,
        pairs: &[(&str, u64)],
    ) -> Result<Answer> {
        let limit = pairs.iter().find(|(name, _)| *name == "limit").map_or(0, |(_, limit)| *limit);
        let child = self.child(subject, work, file, pairs)?;
        self.answer(child, subject, what, PATIENCE + Duration::from_secs(2 * limit))
    }

    /// What a child answers at its end; its errors are noted.
    fn answer(
        &mut self,
        child: Child,
        subject: usize,
        what: impl Display,
        limit: Duration,
    ) -> Result<Answer> {
        let (answer, complaint) = child.answer(limit)?;
        if let Some(errors) = answer.get("errors").filter(|errors| **errors > 0.0) {
            let trouble = format!("{}, {what}: {errors} errors{complaint}", self.subjects[subject].key());
            eprintln!("         {trouble}");
            self.results.troubles.push(trouble);
        }
        Ok(answer)
    }

    fn keep(&mut self, subject: usize, case: Case, answer: Answer) {
        let line: Vec<_> = ["rate", "p50_ms", "p99_ms", "cpu_percent", "rss_mb"]
            .iter()
            .filter_map(|name| Some(format!("{name} {}", crate::results::grouped(*answer.get(*name)?))))
            .collect();
        eprintln!("         {case}: {}", line.join(", "));
        self.results.add(subject, case, answer);
    }

    /// A file that does not exist; those of before are gone.
    fn fresh(&self) -> Result<PathBuf> {
        for entry in fs::read_dir(self.dir)? {
            fs::remove_file(entry?.path())?;
        }
        Ok(self.dir.join("jobs.db"))
    }

    /// A file with so many jobs waiting, laid by a process that has ended.
    fn filled(&mut self, subject: usize, jobs: u64) -> Result<PathBuf> {
        let file = self.fresh()?;
        self.ask(subject, "laying the backlog", "fill", &file, &[("jobs", jobs)])?;
        Ok(file)
    }

    /// W1 to W4, each on a file of its own, but W4 on the one that W3 has used.
    fn rates(&mut self, subject: usize, wanted: &impl Fn(u8) -> bool) -> Result<()> {
        let Sizes { one, tasks, bulk, backlog, both, enqueue_limit, drain_limit, .. } = self.sizes;
        for (case, work, jobs) in
            [(Case::One, "one", one), (Case::Tasks, "tasks", tasks), (Case::Bulk, "bulk", bulk)]
        {
            if wanted(case.work()) {
                let file = self.fresh()?;
                self.measure(subject, case, work, &file, &[("jobs", jobs), ("limit", enqueue_limit)])?;
            }
        }
        if wanted(3) || wanted(4) {
            let file = self.filled(subject, backlog)?;
            self.drain(subject, Case::Drain, &file, backlog, drain_limit)?;
            if wanted(4) {
                let sizes = [("jobs", both), ("limit", drain_limit)];
                let answer = self.ask(subject, Case::Both, "both", &file, &sizes)?;
                self.keep_bounded(subject, Case::Both, answer.get("sent").copied().unwrap_or(0.0), answer);
            }
        }
        Ok(())
    }

    fn drain(&mut self, subject: usize, case: Case, file: &Path, jobs: u64, limit: u64) -> Result<()> {
        let sizes = [("jobs", jobs), ("limit", limit)];
        let answer = self.ask(subject, case, "drain", file, &sizes)?;
        self.keep_bounded(subject, case, jobs as f64, answer);
        Ok(())
    }

    /// Seconds that a drain of W6 and W8 may last.
    fn deep_limit(&self, subject: usize) -> u64 {
        let is_peer = self.subjects[subject].peer.is_some();
        if is_peer { self.sizes.peers_limit } else { self.sizes.deep_limit }
    }

    /// Keeps a rate, and whether fewer ran than were to run.
    fn keep_bounded(&mut self, subject: usize, case: Case, wanted: f64, answer: Answer) {
        if answer.get("jobs").is_none_or(|ran| *ran < wanted) {
            self.results.mark_cut_off(subject, case);
        }
        self.keep(subject, case, answer);
    }

    /// W5, in one process and, for who hears of other processes, across two.
    fn latencies(&mut self, subject: usize) -> Result<()> {
        let (file, limit) = (self.fresh()?, 120);
        let sizes = [("jobs", self.sizes.samples), ("pause_us", 10_000), ("limit", limit)];
        self.measure(subject, Case::Same, "latency", &file, &sizes)?;
        if self.subjects[subject].role == (Role::Peer { across: false }) {
            return Ok(());
        }
        let file = self.fresh()?;
        let mut worker = self.child(subject, "serve", &file, &[("at_once", 1)])?;
        worker.line_with("ready", PATIENCE)?;
        pause(Duration::from_secs(1))?;
        let sizes =
            [("jobs", self.sizes.samples), ("pause_us", 15_500), ("vary_us", 3_000), ("limit", limit)];
        self.ask(subject, Case::Across, "produce", &file, &sizes)?;
        pause(Duration::from_millis(500))?;
        worker.nod()?;
        let answer = self.answer(worker, subject, Case::Across, PATIENCE)?;
        self.keep(subject, Case::Across, answer);
        Ok(())
    }

    /// W6: the same drain with fewer and more rows waiting, and beside rows that may not run.
    fn backlogs(&mut self, subject: usize) -> Result<()> {
        let Sizes { waiting, beside, others, .. } = self.sizes;
        let (role, limit) = (self.subjects[subject].role, self.deep_limit(subject));
        if matches!(role, Role::Peer { .. }) {
            let file = self.filled(subject, beside)?;
            return self.drain(subject, Case::Waiting(beside), &file, beside, limit);
        }
        self.small_backlog(subject, waiting[0])?;
        for jobs in &waiting[1..] {
            let file = self.filled(subject, *jobs)?;
            self.drain(subject, Case::Waiting(*jobs), &file, *jobs, limit)?;
        }
        for (case, what) in
            [(Case::Finished, "finished"), (Case::Future, "future"), (Case::Unknown, "unknown")]
        {
            if role == Role::Limit && case == Case::Unknown {
                continue;
            }
            let file = self.fresh()?;
            let what = format!("what={what}");
            let laying = self.child_told(subject, "lay", &file, &[("jobs", others)], &[&what])?;
            let (answer, complaint) = laying.answer(PATIENCE)?;
            anyhow::ensure!(answer.get("errors") == Some(&0.0), "{case} can't be laid{complaint}");
            self.ask(subject, case, "fill", &file, &[("jobs", beside)])?;
            self.drain(subject, case, &file, beside, limit)?;
        }
        Ok(())
    }

    /// A few jobs are drained so soon that only many drains make a rate.
    fn small_backlog(&mut self, subject: usize, jobs: u64) -> Result<()> {
        let (case, file) = (Case::Waiting(jobs), self.fresh()?);
        let (mut ran, mut took) = (0.0, 0.0);
        for _ in 0..self.sizes.repeats {
            self.ask(subject, case, "fill", &file, &[("jobs", jobs)])?;
            let answer = self.ask(
                subject,
                case,
                "drain",
                &file,
                &[("jobs", jobs), ("limit", self.sizes.drain_limit)],
            )?;
            let (jobs, rate) = (answer.get("jobs").unwrap_or(&0.0), answer.get("rate").unwrap_or(&0.0));
            ran += jobs;
            took += jobs / rate;
        }
        let answer = Answer::from([("jobs".into(), ran), ("rate".into(), ran / took)]);
        self.keep_bounded(subject, case, (jobs * self.sizes.repeats) as f64, answer);
        Ok(())
    }

    /// W7.
    fn idle(&mut self, subject: usize) -> Result<()> {
        let file = self.fresh()?;
        self.measure(subject, Case::Idle, "idle", &file, &[("seconds", self.sizes.idle_seconds)])
    }

    /// W8: one backlog for one worker process, for two and for four.
    fn processes(&mut self, subject: usize) -> Result<()> {
        for processes in PROCESSES {
            let file = self.filled(subject, self.sizes.shared)?;
            let answer = self.drained_by(subject, processes, &file)?;
            self.keep_bounded(subject, Case::Processes(processes), self.sizes.shared as f64, answer);
        }
        Ok(())
    }

    fn drained_by(&mut self, subject: usize, processes: u64, file: &Path) -> Result<Answer> {
        let start = |_| self.child(subject, "serve", file, &[]);
        let mut workers: Vec<Child> = (0..processes).map(start).collect::<Result<_>>()?;
        for worker in &mut workers {
            worker.line_with("ready", PATIENCE)?;
        }
        let until = Instant::now() + Duration::from_secs(self.deep_limit(subject));
        workers.iter_mut().try_for_each(Child::nod)?;
        let mut ran = 0;
        while ran < self.sizes.shared && Instant::now() < until {
            pause(Duration::from_millis(5))?;
            let told = |worker: &mut Child| worker.latest_line().and_then(|line| line.parse::<u64>().ok());
            ran = workers.iter_mut().filter_map(told).sum();
        }
        workers.iter_mut().try_for_each(Child::nod)?;
        let case = Case::Processes(processes);
        let answers = workers.into_iter().map(|worker| self.answer(worker, subject, case, PATIENCE));
        Ok(shared_rate(&answers.collect::<Result<Vec<_>>>()?))
    }

    /// W9: a job that hangs goes from worker to worker, since each that has it is killed.
    fn kills(&mut self, subject: usize) -> Result<()> {
        let file = self.fresh()?;
        self.ask(subject, Case::Killed, "hang", &file, &[("jobs", 1)])?;
        let worker = |bench: &Self| {
            let mut worker = bench.child(subject, "hang", &file, &[])?;
            worker.line_with("ready", PATIENCE).map(|_| worker)
        };
        let mut holder = worker(self)?;
        holder.line_with("started", PATIENCE)?;
        for kill in 0..self.sizes.kills {
            let mut next = worker(self)?;
            // At another phase of whatever beats: steps of the golden ratio through 2 s.
            pause(Duration::from_secs_f64(2.0 * (kill as f64 * 0.618_034).fract()))?;
            let killed_ns = jobq_bench_works::now_ns();
            holder.kill();
            let started_ns: u64 = next.line_with("started", PATIENCE)?.parse()?;
            let took = started_ns.saturating_sub(killed_ns) as f64 / 1e9;
            self.results.add(subject, Case::Killed, Answer::from([("seconds".into(), took)]));
            holder = next;
        }
        Ok(())
    }
}

/// Jobs a second from the first start of a process to the last handler of any.
fn shared_rate(answers: &[Answer]) -> Answer {
    let all = |name: &str| answers.iter().filter_map(|answer| answer.get(name).copied()).collect::<Vec<_>>();
    let jobs: f64 = all("ran").iter().sum();
    let began = all("began_s").into_iter().fold(f64::INFINITY, f64::min);
    let last = all("last_s").into_iter().fold(0.0, f64::max);
    let fewest = all("ran").into_iter().fold(f64::INFINITY, f64::min);
    let rate = if last > began { jobs / (last - began) } else { 0.0 };
    Answer::from([("jobs".into(), jobs), ("rate".into(), rate), ("fewest_of_a_process".into(), fewest)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_of_several_processes_is_from_the_first_start_to_the_last_handler() {
        let process = |ran: f64, began: f64, last: f64| {
            Answer::from([("ran".into(), ran), ("began_s".into(), began), ("last_s".into(), last)])
        };
        let shared = shared_rate(&[process(600.0, 10.0, 14.0), process(400.0, 11.0, 15.0)]);
        assert_eq!((shared["jobs"], shared["rate"], shared["fewest_of_a_process"]), (1_000.0, 200.0, 400.0));
        assert_eq!(shared_rate(&[process(0.0, 10.0, 0.0)])["rate"], 0.0, "nothing ran");
    }
}
