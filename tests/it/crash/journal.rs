//! The journals of all processes, and what must be true of them and of the tables together.

use super::*;
use std::collections::{BTreeMap, BTreeSet};

/// One line of one process.
#[derive(Clone, Debug)]
pub struct Line {
    pub at: Millis,
    pub pid: u32,
    pub word: String,
    pub id: JobId,
    pub lease: i64,
    pub attempt: u32,
}

/// All lines, in the order of their time.
pub struct Journals(pub Vec<Line>);

impl Journals {
    pub fn read(folder: &std::path::Path) -> Self {
        let mut lines = Vec::new();
        for file in fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()) {
            if file.extension().is_some_and(|ending| ending == "journal") {
                let pid = file.file_stem().unwrap().to_str().unwrap().parse().unwrap();
                // A process may be in the middle of a line; what is not whole is not there yet.
                let text = fs::read_to_string(file).unwrap();
                let whole = text.rfind('\n').map_or("", |end| &text[..end]);
                lines.extend(whole.lines().map(|line| Line::parse(pid, line)));
            }
        }
        lines.sort_by_key(|line| line.at);
        Self(lines)
    }

    pub fn of<'a>(&'a self, word: &'a str) -> impl Iterator<Item = &'a Line> + 'a {
        self.0.iter().filter(move |line| line.word == word)
    }

    pub fn count(&self, word: &str) -> usize {
        self.of(word).count()
    }

    pub fn pids(&self, word: &str) -> BTreeSet<u32> {
        self.of(word).map(|line| line.pid).collect()
    }

    /// The starts of one job, by lease.
    pub fn starts(&self, id: JobId) -> Vec<Line> {
        let mut starts: Vec<Line> = self.of("start").filter(|line| line.id == id).cloned().collect();
        starts.sort_by_key(|line| line.lease);
        starts
    }

    /// What holds after every fault, whatever it was; `killed`: when which process was killed.
    ///
    /// - A lease is started once, and leases and attempts of a job rise with time.
    /// - Starts never exceed the limit, nor what the row and its history say.
    /// - A run begins after the one before it has ended, or its process was killed.
    /// - Every effect belongs to the lease that had started; at most one for each.
    /// - An acknowledged enqueue is in the table; an acknowledged completion stands.
    /// - No job is in limbo: all are at their end, and the counts are those of the rows.
    pub async fn check(&self, scene: &Scene, killed: &BTreeMap<u32, Millis>) {
        let rows: BTreeMap<JobId, JobRow> = scene.rows().await.into_iter().map(|row| (row.id, row)).collect();
        let mut by_job: BTreeMap<JobId, Vec<&Line>> = BTreeMap::new();
        self.0.iter().for_each(|line| by_job.entry(line.id).or_default().push(line));
        for (id, lines) in &by_job {
            let row = rows.get(id).unwrap_or_else(|| panic!("{id} was acknowledged and is lost: {lines:?}"));
            let starts = self.starts(*id);
            for pair in starts.windows(2) {
                let (one, next) = (&pair[0], &pair[1]);
                assert!(one.lease < next.lease, "a lease was started twice: {pair:?}");
                assert!(one.at <= next.at && one.attempt < next.attempt, "{pair:?}");
                let ended = lines.iter().any(|line| {
                    matches!(&*line.word, "end" | "told") && line.lease == one.lease && line.at <= next.at
                });
                let dead = killed.get(&one.pid).is_some_and(|at| *at <= next.at);
                assert!(ended || dead, "two runs overlap: {pair:?}, killed {killed:?}");
            }
            if let Some(last) = starts.last() {
                assert!(last.attempt <= row.max_attempts && last.attempt <= row.attempts, "{last:?} {row:?}");
                assert!(last.lease <= row.lease, "{last:?} {row:?}");
            }
            let effects: Vec<i64> =
                lines.iter().filter(|line| line.word == "effect").map(|line| line.lease).collect();
            let distinct: BTreeSet<i64> = effects.iter().copied().collect();
            assert_eq!(effects.len(), distinct.len(), "an effect twice under one lease: {lines:?}");
            assert!(distinct.iter().all(|lease| starts.iter().any(|start| start.lease == *lease)));
            for line in lines.iter().filter(|line| line.word == "completed") {
                let stands = row.state == JobState::Completed && row.lease == line.lease;
                assert!(stands, "an acknowledged completion does not stand: {line:?} {row:?}");
            }
        }
        for row in rows.values().filter(|row| row.id != scene.bystander.id) {
            assert!(row.state.is_terminal(), "in limbo: {row:?}");
            assert!(row.attempts <= row.max_attempts);
        }
        let counted: u64 = scene.store.counts().await.unwrap().iter().map(|count| count.count).sum();
        assert_eq!(counted as usize, rows.len());
        scene.is_well().await;
    }
}

impl Line {
    fn parse(pid: u32, line: &str) -> Self {
        let parts: Vec<&str> = line.split(' ').collect();
        let [at, word, id, lease, attempt] = parts[..] else { panic!("{line:?}") };
        Self {
            at: at.parse().unwrap(),
            pid,
            word: word.into(),
            id: id.parse().unwrap(),
            lease: lease.parse().unwrap(),
            attempt: attempt.parse().unwrap(),
        }
    }
}
