//! The report: tables in Markdown, the targets, the machine, the method, and what each row does and does not promise.

use crate::{
    machine::Machine,
    plan::Sizes,
    results::{Case, Results, grouped, whole},
    subjects::Subject,
    targets::{Target, shown},
};
use comfy_table::{Table, presets::ASCII_MARKDOWN};
use serde_json::{Value, json};

/// Everything that is told.
pub struct Report<'a> {
    /// Who was measured.
    pub subjects: &'a [Subject],
    /// What came out.
    pub results: &'a Results,
    /// What was to be reached.
    pub targets: &'a [Target],
    /// Where.
    pub machine: &'a Machine,
    /// Versions of what the subjects stand on.
    pub foundations: &'a [String],
    /// How much.
    pub sizes: &'a Sizes,
    /// How often.
    pub rounds: u64,
    /// Whether it was a look only.
    pub quick: bool,
}

/// The mark of a figure that a time limit ended.
const CUT: &str = " †";

impl Report<'_> {
    /// As Markdown.
    pub fn markdown(&self) -> String {
        let parts = [
            self.head(),
            self.rates(),
            self.target_table(),
            self.latencies(),
            self.backlogs(),
            self.idle(),
            self.processes(),
            self.kills(),
            self.troubles(),
            self.method(),
            self.rows(),
        ];
        parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n\n") + "\n"
    }

    /// For programs: all rounds of all figures.
    pub fn json(&self) -> Value {
        let subjects = self.subjects.iter().map(|subject| {
            json!({
                "subject": subject.key(), "name": subject.name, "version": subject.version,
                "durability": subject.durability, "settings": subject.settings, "promises": subject.promises,
            })
        });
        json!({
            "quick": self.quick, "rounds": self.rounds, "sizes": self.sizes, "machine": self.machine, "versions": self.foundations,
            "subjects": subjects.collect::<Vec<_>>(), "targets": self.targets, "troubles": self.results.troubles,
            "results": self.results.json(|subject| self.subjects[subject].key()),
        })
    }

    fn head(&self) -> String {
        let Machine { cpu, cores, kernel, file_system } = self.machine;
        let mut text = String::new();
        if self.quick {
            text += "**A quick look (`--quick`): few rounds and small sizes. Not for comparisons.**\n\n";
        }
        if cfg!(debug_assertions) {
            text += "**Not a release build: the figures of jobq and of the limit mean nothing.**\n\n";
        }
        if self.machine.is_without_disk() {
            text +=
                "**The databases were in memory, where FULL costs no more than NORMAL. See `--dir`.**\n\n";
        }
        text += &format!("{cpu}, {cores} cores; Linux {kernel}; databases on {file_system}.\n");
        text + &self.foundations.join("; ") + "."
    }

    fn name(&self, subject: usize) -> [String; 2] {
        let Subject { name, durability, .. } = &self.subjects[subject];
        [(*name).to_owned(), (*durability).to_owned()]
    }

    /// A median as a cell; its mark where the time limit ended it.
    fn cell(&self, subject: usize, case: Case, figure: &str) -> String {
        match self.results.median(subject, case, figure) {
            Some(value) if self.results.is_cut_off(subject, case) => grouped(value) + CUT,
            Some(value) => grouped(value),
            None => "–".into(),
        }
    }

    /// A table of rates: the subjects that were put to these works, a column a case.
    fn rate_table(&self, title: &str, works: &[u8]) -> String {
        let cases: Vec<Case> = works.iter().flat_map(|work| self.results.cases(*work)).collect();
        let heads = cases.iter().map(|case| head(*case, works.len() > 1));
        let mut table = markdown_table(["subject", "durability"].map(str::to_owned).into_iter().chain(heads));
        for subject in 0..self.subjects.len() {
            if works.iter().any(|work| self.results.subjects(*work).contains(&subject)) {
                let cells = cases.iter().map(|case| self.cell(subject, *case, "rate"));
                table.add_row(self.name(subject).into_iter().chain(cells));
            }
        }
        if cases.is_empty() { String::new() } else { format!("### {title}\n\n{table}") }
    }

    fn rates(&self) -> String {
        self.rate_table("Jobs a second", &[1, 2, 3, 4])
    }

    fn backlogs(&self) -> String {
        let Sizes { beside, others, .. } = self.sizes;
        let (beside, others) = (whole(*beside), whole(*others));
        let title = format!(
            "W6: jobs a second with so many waiting, and with {beside} waiting beside {others} rows that may not run"
        );
        self.rate_table(&title, &[6])
    }

    fn processes(&self) -> String {
        let jobs = whole(self.sizes.shared);
        self.rate_table(&format!("W8: jobs a second of processes that share a file of {jobs} waiting"), &[8])
    }

    fn target_table(&self) -> String {
        if self.targets.is_empty() {
            return String::new();
        }
        let mut table = markdown_table(["target", "measured", "wanted", ""].map(str::to_owned));
        for target in self.targets {
            let met = if target.met { "met" } else { "**not met**" };
            table.add_row([&target.what, &shown(target), &target.wanted, met]);
        }
        let met = self.targets.iter().filter(|target| target.met).count();
        format!("### Targets: {met} of {} met\n\n{table}", self.targets.len())
    }

    fn latencies(&self) -> String {
        if !self.results.has(5) {
            return String::new();
        }
        let heads = ["subject", "durability", "same process", "other process", "samples"];
        let mut table = markdown_table(heads.map(str::to_owned));
        for subject in self.results.subjects(5) {
            let cell = |case| match self.results.median(subject, case, "p50_ms") {
                Some(p50) => format!("{p50:.2} / {}", self.cell(subject, case, "p99_ms")),
                None => "–".into(),
            };
            let samples = [Case::Same, Case::Across].map(|case| {
                let samples = self.results.median(subject, case, "samples");
                samples.map_or("–".into(), |samples| samples.to_string())
            });
            let cells = [cell(Case::Same), cell(Case::Across), samples.join(" · ")];
            table.add_row(self.name(subject).into_iter().chain(cells));
        }
        format!("### W5: from enqueue to the start of the handler, idle worker, ms, p50 / p99\n\n{table}")
    }

    fn idle(&self) -> String {
        if !self.results.has(7) {
            return String::new();
        }
        let heads = ["subject", "durability", "CPU, % of one core", "memory (RSS), MB"];
        let mut table = markdown_table(heads.map(str::to_owned));
        for subject in self.results.subjects(7) {
            let cells = ["cpu_percent", "rss_mb"].map(|figure| self.cell(subject, Case::Idle, figure));
            table.add_row(self.name(subject).into_iter().chain(cells));
        }
        format!("### W7: a worker that has nothing to do, over {} s\n\n{table}", self.sizes.idle_seconds)
    }

    fn kills(&self) -> String {
        let lines = self.results.subjects(9).into_iter().map(|subject| {
            let seconds = |value: Option<f64>| value.map_or("–".into(), |value| format!("{value:.2} s"));
            format!(
                "{}: median {}, longest {}, {} kills",
                self.subjects[subject].key(),
                seconds(self.results.median(subject, Case::Killed, "seconds")),
                seconds(self.results.max(subject, Case::Killed, "seconds")),
                self.results.count(subject, Case::Killed, "seconds")
            )
        });
        let lines = lines.collect::<Vec<_>>().join("\n");
        let title = "### W9: from SIGKILL of a worker to the next start of its job";
        if lines.is_empty() { lines } else { format!("{title}\n\n{lines}") }
    }

    fn troubles(&self) -> String {
        let lines: Vec<_> = self.results.troubles.iter().map(|trouble| format!("- {trouble}")).collect();
        if lines.is_empty() { String::new() } else { format!("### What went wrong\n\n{}", lines.join("\n")) }
    }

    fn method(&self) -> String {
        let Sizes { backlog, enqueue_limit, drain_limit, peers_limit, deep_limit, samples, .. } = self.sizes;
        let backlog = whole(*backlog);
        let rounds = match self.rounds {
            1 => "of one round".to_owned(),
            rounds => format!("medians of {rounds} rounds"),
        };
        format!(
            "### Method\n\n\
            Each figure is by a process of its own, on a file of its own. Within a round every subject runs once, one \
            after another; W1–W4, W6 and W8 are {rounds}. A job is about 100 bytes of JSON that the \
            handler gets as a value; it adds 1 to a counter. W1: enqueues that are each awaited, from one task and \
            from 64; W2: enqueues of 1,000; W3: a worker that finds {backlog} jobs laid by another process, until the \
            last handler has run; W4: 64 tasks enqueue while a worker of the same process runs what they bring, on \
            the file that W3 has used; W5: one job each 10 ms (across processes 15.5 to 18.5 ms) for an idle worker, \
            {} times; W9: a job that hangs, its worker killed at different phases while another one waits. \
            Enqueues are stopped after {enqueue_limit} s and their rate is that until then; drains after \
            {drain_limit} s (in W6 and W8 the peers' after {peers_limit} s, the others' after {deep_limit} s), which \
            is marked †. The limit's future rows are in a state of their own, and it knows no types.",
            whole(*samples)
        )
    }

    fn rows(&self) -> String {
        let row = |Subject { name, version, durability, settings, promises, .. }: &Subject| {
            format!("- **{name}** {version}, {durability}: {settings}. {promises}")
        };
        let rows: Vec<_> = self.subjects.iter().map(row).collect();
        let full = "FULL: what was acknowledged survives a power cut.";
        format!("### What the rows promise, and what not\n\n{full}\n\n{}", rows.join("\n"))
    }
}

/// A case as a column's head, its work's number left out where all columns are of one work.
fn head(case: Case, with_work: bool) -> String {
    let text = case.to_string();
    match text.split_once(' ') {
        Some((_, rest)) if !with_work => rest.to_owned(),
        _ => text,
    }
}

fn markdown_table(heads: impl IntoIterator<Item = String>) -> Table {
    let mut table = Table::new();
    table.load_style(ASCII_MARKDOWN).set_header(heads);
    table
}
