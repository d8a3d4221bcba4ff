//! CASES.md names tests that are there, and each case once.

use std::{collections::BTreeSet, fs, path::Path};

fn table() -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("CASES.md")).unwrap()
}

#[test]
fn every_test_that_cases_names_is_there() {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    let table = table();
    let words = table.lines().filter(|line| line.starts_with("| ")).flat_map(|line| {
        line.split(|c: char| c.is_whitespace() || ",;()|".contains(c)).filter(|word| !word.is_empty())
    });
    let mut found = 0;
    for word in words {
        if let Some(case) = word.strip_prefix("ui/") {
            assert!(tests.join("ui").join(case).with_extension("rs").exists(), "{word} is not there");
            found += 1;
        } else if let Some((room, name)) = word.split_once("::") {
            let file = tests.join("it").join(room).with_extension("rs");
            let text = fs::read_to_string(&file).unwrap_or_else(|_| panic!("{word}: no {}", file.display()));
            let there = text.match_indices(name).any(|(at, _)| {
                let (before, after) = (&text[..at], &text[at + name.len()..]);
                // A law has its name in the list of laws, a test in its function.
                !after.starts_with(|c: char| c.is_alphanumeric() || c == '_')
                    && !before.ends_with(|c: char| c.is_alphanumeric() || c == '_')
            });
            assert!(there, "{word} is not in {}", file.display());
            found += 1;
        }
    }
    assert!(found > 100, "{found} names found");
}

#[test]
fn each_case_has_one_row_and_says_where_it_is_tested() {
    let mut seen = BTreeSet::new();
    for line in table().lines().filter(|line| line.starts_with("| ") && !line.starts_with("| Case")) {
        let columns: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [numbers, what, tested] = columns[..] else { panic!("{line}") };
        let group = numbers.is_empty();
        assert!(!what.is_empty() && tested.is_empty() == group, "{line}");
        for number in numbers.split(", ").filter(|number| !number.is_empty()) {
            let number: u32 = number.parse().unwrap_or_else(|_| panic!("{line}"));
            assert!(seen.insert(number), "case {number} twice");
        }
    }
    assert_eq!((seen.len(), seen.first(), seen.last()), (CASES, Some(&1), Some(&145)));
}

/// How many cases there are.
const CASES: usize = 121;
