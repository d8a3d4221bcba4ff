//! What a plain user of jobq compiles: each crate by name, so that none is added unseen.

use std::{collections::BTreeSet, env, process::Command};

/// jobq itself, jobq-macros and all they need, on Linux, with the default features: 17 of them are for `cron`. Every addition is a decision: it costs each user time to
/// compile, trust and upkeep, so say in ARCHITECTURE.md what the crate does here and what it replaces, then change this
/// number and the list.
const CRATES: usize = 132;

/// One a line: name, and the part of the version that tells incompatible ones apart.
const LIST: &str = include_str!("crates.txt");

/// `syn v2.0.119 (proc-macro)` is `syn 2`.
fn named(line: &str) -> String {
    let mut words = line.split_whitespace();
    let (name, version) = (words.next().unwrap(), words.next().unwrap().trim_start_matches('v'));
    let (major, rest) = version.split_once('.').unwrap();
    let minor = rest.split('.').next().unwrap();
    if major == "0" { format!("{name} 0.{minor}") } else { format!("{name} {major}") }
}

#[test]
#[cfg(target_os = "linux")]
fn a_plain_user_compiles_these_crates_and_no_others() {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let tree = Command::new(cargo)
        .args(["tree", "-p", "jobq", "-e", "normal", "--prefix", "none", "--locked", "--offline"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo runs");
    assert!(tree.status.success(), "{}", String::from_utf8_lossy(&tree.stderr));
    let tree = String::from_utf8(tree.stdout).expect("text");
    let found: BTreeSet<_> = tree.lines().filter(|line| !line.is_empty()).map(named).collect();
    let listed: BTreeSet<_> = LIST.lines().map(str::to_owned).collect();

    let added: String = found.difference(&listed).map(|name| format!("+ {name}\n")).collect();
    let gone: String = listed.difference(&found).map(|name| format!("- {name}\n")).collect();
    assert!(
        added.is_empty() && gone.is_empty() && found.len() == CRATES,
        "a plain user compiles {} crates, and {CRATES} are decided; against tests/it/crates.txt:\n{added}{gone}",
        found.len()
    );
}
