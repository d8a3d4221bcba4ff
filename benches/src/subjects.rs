//! Who is measured: the limit, jobq and its peers, how each is set, and what its row does and does not promise.

use crate::child::{Child, go_on};
use anyhow::{Context, Result};
use std::{
    collections::BTreeMap,
    env, fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

/// A queue at one durability.
pub struct Subject {
    /// Its name.
    pub name: &'static str,
    /// The folder of its workspace, where it is a peer.
    pub peer: Option<&'static str>,
    /// The journal and `synchronous`, what a power cut can take.
    pub durability: &'static str,
    /// The release that was measured.
    pub version: String,
    /// What the children are told.
    pub arguments: &'static [&'static str],
    /// The same, and what else is set, in words.
    pub settings: &'static str,
    /// What its row promises, and what it does not.
    pub promises: &'static str,
    /// Which works it is put to besides W1 to W4.
    pub role: Role,
    /// The program of the children.
    pub program: PathBuf,
}

/// What a subject is to the bench.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The limit at FULL: what jobq is measured against.
    Limit,
    /// jobq at FULL.
    Ours,
    /// jobq at NORMAL.
    OursNormal,
    /// A peer as it is measured in every work.
    Peer {
        /// Whether a worker hears of another process's jobs.
        across: bool,
    },
    /// A peer at another durability: W1 to W4 alone.
    Other,
    /// The limit at NORMAL: likewise.
    LimitNormal,
}

impl Role {
    fn is_limit(self) -> bool {
        matches!(self, Self::Limit | Self::LimitNormal)
    }
}

impl Subject {
    /// `name; durability`, which `--only` looks at.
    pub fn key(&self) -> String {
        key(self.name, self.durability)
    }

    /// Whether what was acknowledged survives a power cut.
    pub fn outlives_power_cuts(&self) -> bool {
        self.durability.ends_with(", FULL")
    }

    /// Whether it runs handlers by workers of its own, rather than inside of the thread that claims.
    pub fn has_workers(&self) -> bool {
        self.name != "honker"
    }
}

fn key(name: &str, durability: &str) -> String {
    format!("{name}; {durability}")
}

/// What is known of a subject before its program is built.
struct Known {
    name: &'static str,
    /// The folder of its workspace; of this one where there is none.
    peer: Option<&'static str>,
    /// Its package in the lock file.
    package: &'static str,
    durability: &'static str,
    arguments: &'static [&'static str],
    settings: &'static str,
    promises: &'static str,
    role: Role,
}

const LIMIT: Known = Known {
    name: "limit",
    peer: None,
    package: "sqlx",
    durability: "WAL, FULL",
    arguments: &["subject=limit", "sync=full"],
    settings: "bare sqlx: one writing task, group commit, one json_each statement a batch, claims of 500",
    promises: "No queue but what SQLite allows through sqlx for the same rows: integer ids, finished jobs are deleted. \
        No types, retries, leases, fencing, history, results, cancellation or recovery.",
    role: Role::Limit,
};

const JOBQ: Known = Known {
    name: "jobq",
    peer: None,
    package: "jobq",
    durability: "WAL, FULL",
    arguments: &["subject=jobq", "sync=full"],
    settings: "as it is by default; one worker, 4,000 jobs at once",
    promises: "All on: a result is stored only under the lease of its attempt, finished jobs and every failed attempt \
        are kept, a killed worker's jobs start again within 5 s, workers are woken by commits of any process, only \
        types that a worker knows are claimed.",
    role: Role::Ours,
};

const APALIS: Known = Known {
    name: "apalis-sqlite",
    peer: Some("apalis"),
    package: "apalis-sqlite",
    durability: "WAL, OFF/FULL",
    arguments: &["durability=shipped"],
    settings: "as shipped; batches of 5,000 (default 10) and as many at once, update hook and a look each 100 ms (by \
        an interval of the bench's, since its own can lose its wake-up), planner statistics laid beforehand",
    promises: "`synchronous` is OFF on the connection that its setup ran on and FULL on the rest: a power cut can lose \
        acknowledged jobs or corrupt the file. An end is fenced by the worker's name, not \
        by the attempt; of the attempts the last result is kept; a lost worker's jobs start again after 60 s without \
        heartbeat; other processes' jobs are found by polling; a queue holds one type.",
    role: Role::Peer { across: true },
};

const EFFECTUM: Known = Known {
    name: "effectum",
    peer: Some("effectum"),
    package: "effectum",
    durability: "WAL, NORMAL",
    arguments: &["journal=wal"],
    settings: "the file put in WAL mode beforehand (not its default); 1,000 at once, more are asked for below 900",
    promises: "A power cut can lose the latest jobs. One process: another that opens the file takes what runs for \
        lost, and nobody hears of its jobs. An end is fenced by the worker, not by the attempt; every run is noted in \
        the job's row; lost jobs start again when the file is next opened; jobs have types.",
    role: Role::Peer { across: false },
};

const HONKER: Known = Known {
    name: "honker",
    peer: Some("honker"),
    package: "honker",
    durability: "WAL, NORMAL",
    arguments: &["sync=normal"],
    settings: "as shipped; it has no worker, so the bench loops over its batched claims and acknowledgements of 5,000; \
        bulk enqueues share a transaction",
    promises: "A power cut can lose the latest jobs. The handler runs inside of the claiming thread; there are no \
        types and no history. An end is fenced by the worker's name while its claim lasts (300 s, after which the job \
        may start again); workers of any process are woken within about 1 ms.",
    role: Role::Peer { across: true },
};

const RIVER: Known = Known {
    name: "River (Rust)",
    peer: Some("river"),
    package: "riverqueue",
    durability: "WAL, FULL",
    arguments: &["sync=shipped"],
    settings: "the README's pool, but 3 connections (README 5); 4,000 jobs at once (README 10), fetch cool-down 1 ms \
        (default 100 ms)",
    promises: "An end is fenced by nothing: a late one ends the newer attempt. Errors of all attempts are kept; a lost \
        worker's jobs start again after 61 min by age alone; other processes' jobs are found each 100 ms; a type that \
        a worker does not know is claimed and failed.",
    role: Role::Peer { across: true },
};

/// All, in the order of the tables: the same at another durability follows at once.
fn known() -> Vec<Known> {
    let wal_normal = "WAL, NORMAL";
    vec![
        LIMIT,
        Known {
            durability: wal_normal,
            arguments: &["subject=limit", "sync=normal"],
            role: Role::LimitNormal,
            promises: "As above; a power cut can lose the latest jobs.",
            ..LIMIT
        },
        JOBQ,
        Known {
            durability: wal_normal,
            arguments: &["subject=jobq", "sync=normal"],
            settings: "`Durability::Process`; one worker, 4,000 jobs at once",
            promises: "As above; a power cut can lose the latest jobs and results.",
            role: Role::OursNormal,
            ..JOBQ
        },
        EFFECTUM,
        Known {
            durability: "DELETE, NORMAL",
            arguments: &["journal=shipped"],
            settings: "as shipped (a rollback journal); 1,000 at once, more are asked for below 900",
            promises: "As above.",
            role: Role::Other,
            ..EFFECTUM
        },
        HONKER,
        Known {
            durability: "WAL, FULL",
            arguments: &["sync=full"],
            settings: "FULL by a pragma on its connection; else as above",
            promises: "As above, but what was acknowledged survives a power cut.",
            role: Role::Other,
            ..HONKER
        },
        APALIS,
        Known {
            durability: wal_normal,
            arguments: &["durability=normal"],
            settings: "`synchronous` set for all connections; else as above",
            promises: "As above, but a power cut does not corrupt the file.",
            role: Role::Other,
            ..APALIS
        },
        RIVER,
        Known {
            durability: wal_normal,
            arguments: &["sync=normal"],
            settings: "`synchronous` set in the pool's options; else as above",
            promises: "As above; a power cut can lose the latest jobs and results.",
            role: Role::Other,
            ..RIVER
        },
    ]
}

/// The subjects that `only` picks, their programs built, and what could not be built.
pub fn assemble(only: impl Fn(&str) -> bool) -> Result<(Vec<Subject>, Vec<String>)> {
    let own = env::current_exe()?;
    let target = own.ancestors().nth(2).context("this program is in target/release")?.join("peers");
    let mut programs = BTreeMap::new();
    let (mut subjects, mut missing) = (Vec::new(), Vec::new());
    for known in known().into_iter().filter(|known| only(&key(known.name, known.durability))) {
        let program = match known.peer {
            None => Some(own.clone()),
            Some(peer) => match programs.get(peer).cloned() {
                Some(program) => program,
                None => {
                    let built = build(peer, &target);
                    // An interrupt is not the peer's fault.
                    go_on()?;
                    let left_out = |error| format!("{}: left out, it does not build: {error:#}", known.name);
                    let program = built.map_err(|error| missing.push(left_out(error))).ok();
                    programs.insert(peer, program.clone());
                    program
                }
            },
        };
        subjects.extend(program.map(|program| subject(known, program)).transpose()?);
    }
    Ok((subjects, missing))
}

fn subject(known: Known, program: PathBuf) -> Result<Subject> {
    let Known { name, peer, package, durability, arguments, settings, promises, role } = known;
    let locked =
        version(&lock_file(peer)?, package).with_context(|| format!("{package} is in no lock file"))?;
    let version = if role.is_limit() { format!("(sqlx {locked})") } else { locked };
    Ok(Subject { name, peer, durability, version, arguments, settings, promises, role, program })
}

/// The versions of what the subjects of this workspace stand on, and of each peer's SQLite binding.
pub fn foundations(subjects: &[Subject]) -> Result<Vec<String>> {
    let mut lines = vec![format!("SQLite {}", rusqlite::version())];
    lines[0] += &format!(" ({})", versions(None, &["rusqlite", "sqlx", "tokio"])?);
    for subject in subjects.iter().filter(|subject| subject.peer.is_some()) {
        let line = format!(
            "{} ({})",
            subject.name,
            versions(subject.peer, &["rusqlite", "sqlx", "libsqlite3-sys", "tokio"])?
        );
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    Ok(lines)
}

fn versions(peer: Option<&str>, packages: &[&str]) -> Result<String> {
    let lock = lock_file(peer)?;
    let found = packages.iter().filter_map(|name| Some(format!("{name} {}", version(&lock, name)?)));
    Ok(found.collect::<Vec<_>>().join(", "))
}

fn workspace(peer: Option<&str>) -> PathBuf {
    let benches = Path::new(env!("CARGO_MANIFEST_DIR"));
    peer.map_or_else(|| benches.join(".."), |peer| benches.join("peers").join(peer))
}

fn lock_file(peer: Option<&str>) -> Result<String> {
    let path = workspace(peer).join("Cargo.lock");
    fs::read_to_string(&path).with_context(|| format!("{} can't be read", path.display()))
}

/// The version of a package in the text of a lock file; the newest where there are several.
fn version(lock: &str, package: &str) -> Option<String> {
    let name = format!("name = \"{package}\"");
    let mut versions: Vec<_> = lock
        .split("[[package]]")
        .filter(|entry| entry.lines().any(|line| line == name))
        .filter_map(|entry| {
            entry.lines().find_map(|line| line.strip_prefix("version = \"")?.strip_suffix('"'))
        })
        .collect();
    versions.sort_by_key(|version| version.split('.').map(|n| n.parse().unwrap_or(0)).collect::<Vec<u64>>());
    versions.last().map(|version| (*version).to_owned())
}

fn build(peer: &str, target: &Path) -> Result<PathBuf> {
    eprintln!("building the peer {peer}");
    let manifest = workspace(Some(peer)).join("Cargo.toml");
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--release", "--locked", "--quiet", "--manifest-path"]).arg(manifest);
    cargo.env("CARGO_TARGET_DIR", target);
    Child::start(cargo)?.success(Duration::from_secs(3_600))?;
    let program = target.join("release").join(format!("jobq-bench-{peer}"));
    program.exists().then_some(program).context("the program is not where it was to be")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_from_a_lock_file() {
        let lock = "version = 4\n\n[[package]]\nname = \"sqlx\"\nversion = \"0.9.0\"\n\n[[package]]\nname = \"sqlx-core\"\n\
            version = \"0.9.1\"\ndependencies = [\n \"sqlx\",\n]\n\n[[package]]\nname = \"nix\"\nversion = \"0.9.2\"\n\n\
            [[package]]\nname = \"nix\"\nversion = \"0.32.0\"\n";
        assert_eq!(version(lock, "sqlx").as_deref(), Some("0.9.0"));
        assert_eq!(version(lock, "sqlx-core").as_deref(), Some("0.9.1"));
        assert_eq!(version(lock, "nix").as_deref(), Some("0.32.0"));
        assert_eq!(version(lock, "sql"), None);
    }

    #[test]
    fn every_subject_has_a_key_of_its_own() {
        let mut keys: Vec<_> = known().iter().map(|known| (known.name, known.durability)).collect();
        keys.dedup();
        assert_eq!(keys.len(), 12);
    }
}
