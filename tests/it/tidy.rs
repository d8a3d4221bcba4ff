//! Whether the house is as it says: levels, rooms, names, statements in files of their own.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

/// The levels of jobq/src: a room may name those below it, never one beside or above it.
const LEVELS: [(&str, u8); 22] = [
    ("lib", 9),
    ("guide", 9),
    ("private", 9),
    ("testing", 9),
    ("worker", 8),
    ("flow", 8),
    ("event", 8),
    ("check", 7),
    ("enqueue", 7),
    // A rescue takes what follows from a lost attempt from the executor's pure step.
    ("maintenance", 7),
    ("queue", 6),
    ("executor", 6),
    ("registry", 5),
    ("context", 4),
    ("store", 3),
    ("job", 2),
    ("limit", 1),
    ("schedule", 2),
    ("retry", 1),
    ("secret", 1),
    ("state", 1),
    ("time", 0),
];

/// The folders whose files begin with a sentence; ARCHITECTURE.md shows those of the product.
const SHOWN: [&str; 4] = ["jobq/src", "jobq-macros/src", "jobq-schedule/src", "tests/it"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("a workspace").to_owned()
}

/// All files of this ending under a folder of the workspace, by path from its root; the golden expansions,
/// which are tests of the macro and no rooms, left out.
fn files(under: &str, ending: &str) -> BTreeMap<String, String> {
    fn walk(folder: &Path, ending: &str, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).into_iter().flatten() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                walk(&path, ending, found);
            } else if path.extension().is_some_and(|extension| extension == ending)
                && !path.starts_with(root().join("jobq-macros/src/expand"))
            {
                found.push(path);
            }
        }
    }
    let mut found = Vec::new();
    walk(&root().join(under), ending, &mut found);
    let name = |path: &PathBuf| path.strip_prefix(root()).unwrap().to_string_lossy().into_owned();
    found.iter().map(|path| (name(path), fs::read_to_string(path).unwrap())).collect()
}

/// What the compiler sees of a file: no comments, no docs, no words of the tests at its end.
fn code(text: &str) -> String {
    let text = text.split("#[cfg(test)]").next().unwrap_or_default();
    let without_comment = |line: &str| line.split("//").next().unwrap_or_default().to_owned();
    text.lines().map(without_comment).collect::<Vec<_>>().join("\n")
}

/// The words of a name: `ClaimSet` and `claim_set` are both `claim`, `set`.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    for c in name.chars() {
        if (c == '_' || c.is_uppercase()) && words.last().is_some_and(|word| !word.is_empty()) {
            words.push(String::new());
        }
        if c != '_' {
            words.last_mut().unwrap().extend(c.to_lowercase());
        }
    }
    words
}

fn is_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

// ---- levels -----------------------------------------------------------------------------------

/// The room of a file of jobq/src: its first folder, or its own name.
fn room(path: &str) -> &str {
    let inside = path.strip_prefix("jobq/src/").expect("a file of jobq/src");
    inside.split(['/', '.']).next().unwrap()
}

/// The rooms that a text names after `crate::`, also inside of `crate::{…}`.
fn named_rooms(code: &str) -> Vec<String> {
    let mut rooms = Vec::new();
    for (at, _) in code.match_indices("crate::") {
        let is_whole = !code[..at].ends_with(|c: char| is_name(c) || c == '$');
        let rest = &code[at + "crate::".len()..];
        match rest.strip_prefix('{') {
            Some(group) if is_whole => rooms.extend(heads(group)),
            _ if is_whole => rooms.push(rest.chars().take_while(|c| is_name(*c)).collect()),
            _ => {}
        }
    }
    rooms
}

/// The first names of the paths of a group, `{` taken off.
fn heads(group: &str) -> Vec<String> {
    let (mut depth, mut heads, mut head) = (0, Vec::new(), Some(String::new()));
    for c in group.chars() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => heads.extend(head.replace(String::new())),
            ':' if depth == 0 => heads.extend(head.take()),
            c if depth == 0 && is_name(c) => head.iter_mut().for_each(|head| head.push(c)),
            _ => {}
        }
    }
    heads.extend(head);
    heads.retain(|head| !head.is_empty());
    heads
}

fn level(room: &str) -> Option<u8> {
    LEVELS.iter().find(|(name, _)| *name == room).map(|(_, level)| *level)
}

/// What is wrong with the levels of one file.
fn above(path: &str, text: &str) -> Vec<String> {
    let own = room(path);
    let Some(own_level) = level(own) else {
        return vec![format!(
            "{path}: the room `{own}` has no level; give it one here and in ARCHITECTURE.md"
        )];
    };
    let wrong = |named: &String| match level(named) {
        _ if named == own => false,
        Some(level) => level >= own_level,
        // A name that is no room is one of lib.rs, at the top.
        None => own != "lib",
    };
    let named = named_rooms(&code(text)).into_iter().filter(wrong);
    named.map(|named| format!("{path} (level {own_level}) names crate::{named}")).collect()
}

#[test]
fn a_file_names_only_rooms_below_it() {
    let sources = files("jobq/src", "rs");
    assert!(sources.len() > 15, "the sources are found");
    let wrong: Vec<_> = sources.iter().flat_map(|(path, text)| above(path, text)).collect();
    assert!(wrong.is_empty(), "a file names only lower levels:\n{}", wrong.join("\n"));
}

#[test]
fn the_check_of_levels_sees_what_is_wrong() {
    let text = "use crate::{\n    job::{JobId, worker::No},\n    queue,\n    worker::Worker as W,\n};\n\
                fn f(_: crate::time::Millis) { crate::enqueue::go() }\n// crate::worker\n";
    assert_eq!(named_rooms(&code(text)), ["job", "queue", "worker", "time", "enqueue"]);
    let wrong = above("jobq/src/store/sqlite/desk.rs", text);
    assert_eq!(wrong.len(), 3, "{wrong:?}");
    assert_eq!(above("jobq/src/queue/open.rs", "use crate::{queue::NoQueue, store::Store};"), [""; 0]);
    assert_eq!(above("jobq/src/executor.rs", "use crate::queue::JobQueue;").len(), 1, "nor one beside it");
    assert_eq!(above("jobq/src/job.rs", "use crate::JobQueue;").len(), 1, "nor what lib.rs re-exports");
    assert_eq!(above("jobq/src/helpers/x.rs", "").len(), 1, "nor is there a room without a level");
}

// ---- storage ----------------------------------------------------------------------------------

#[test]
fn only_stores_name_the_database() {
    // lib.rs passes sqlx on to users, and the queue opens the file of an application's pool.
    let allowed =
        [("sqlx", "jobq/src/lib.rs"), ("sqlx", "jobq/src/queue.rs"), ("sqlx", "jobq/src/queue/open.rs")];
    for (path, text) in files("jobq/src", "rs").iter().chain(&files("jobq-macros/src", "rs")) {
        for library in ["sqlx", "rusqlite", "libsqlite3_sys"] {
            let names_it = code(text).split(|c| !is_name(c)).any(|word| word == library);
            let may = path.starts_with("jobq/src/store") || allowed.contains(&(library, path.as_str()));
            assert!(may || !names_it, "{path} names {library}; only jobq/src/store/** may");
        }
    }
}

#[test]
fn every_statement_is_used_and_says_what_it_is() {
    let statements: Vec<_> = files("migrations", "sql").into_iter().chain(files("jobq/src", "sql")).collect();
    assert!(statements.len() > 20, "the statements are found");
    let sources: String = files("jobq/src", "rs").values().map(|text| code(text)).collect();
    for (path, text) in statements {
        let (stem, name) = (Path::new(&path).file_stem().unwrap(), Path::new(&path).file_name().unwrap());
        let uses = [format!("sql!(\"{}\")", stem.display()), format!("/{}\")", name.display())];
        assert!(uses.iter().any(|used| sources.contains(used)), "no code reads {path}");
        assert!(text.starts_with("-- "), "{path} begins with a comment that says what it does");
        let asks = text.lines().filter(|line| !line.trim_start().starts_with("--")).collect::<String>();
        for number in 1..20 {
            let told = text.lines().take_while(|line| line.starts_with("--")).any(|line| {
                line.contains(&format!("?{number}")) || line.contains("likewise") || line.contains("as there")
            });
            assert!(told || !asks.contains(&format!("?{number}")), "{path} does not say what ?{number} is");
        }
    }
}

// ---- names ------------------------------------------------------------------------------------

/// What is wrong with a name that is given to something. A noun in `handle` is fine, a verb is not.
fn forbidden(kind: &str, name: &str) -> Option<&'static str> {
    let words = words(name);
    let has =
        |forbidden: &[&'static str]| forbidden.iter().find(|word| words.iter().any(|w| w == *word)).copied();
    let room = matches!(kind, "mod" | "file");
    has(&["manager", "helper", "helpers", "util", "utils", "misc"])
        .or_else(|| ["common", "data", "info"].into_iter().find(|word| room && *word == name))
        .or_else(|| ["process", "handle", "do"].into_iter().find(|verb| kind == "fn" && words[0] == *verb))
}

#[test]
fn nothing_has_a_name_that_says_nothing() {
    let mut wrong = Vec::new();
    for folder in ["jobq/src", "jobq-macros/src", "jobq-schedule/src", "tests", "examples"] {
        for (path, text) in files(folder, "rs") {
            let stem = Path::new(&path).file_stem().unwrap().to_string_lossy().into_owned();
            wrong.extend(forbidden("file", &stem).map(|word| format!("{path}: `{word}`")));
            let code = code(&text);
            let tokens: Vec<_> = code.split(|c| !is_name(c)).filter(|token| !token.is_empty()).collect();
            for pair in tokens.windows(2) {
                if ["fn", "struct", "enum", "trait", "type", "mod", "const", "static"].contains(&pair[0]) {
                    let word = forbidden(pair[0], pair[1]);
                    wrong.extend(word.map(|word| format!("{path}: {} {}: `{word}`", pair[0], pair[1])));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "names that say nothing (house.md):\n{}", wrong.join("\n"));
}

#[test]
fn the_check_of_names_sees_what_says_nothing() {
    for (kind, name) in [
        ("struct", "JobManager"),
        ("fn", "handle_job"),
        ("fn", "do_it"),
        ("fn", "process_job"),
        ("mod", "common"),
        ("file", "data"),
        ("mod", "string_utils"),
    ] {
        assert!(forbidden(kind, name).is_some(), "{kind} {name}");
    }
    for (kind, name) in [("struct", "JobHandle"), ("fn", "done"), ("struct", "DataMap"), ("fn", "in_process")]
    {
        assert_eq!(forbidden(kind, name), None, "{kind} {name}");
    }
}

// ---- ARCHITECTURE.md --------------------------------------------------------------------------

/// The first sentence of a file's `//!` docs, on one line.
fn first_sentence(text: &str) -> String {
    let docs = text.lines().take_while(|line| line.starts_with("//!"));
    let lines = docs.map(|line| line.trim_start_matches("//!").trim()).take_while(|line| !line.is_empty());
    let docs = lines.collect::<Vec<_>>().join(" ");
    match docs.find(". ") {
        Some(end) => docs[..=end].to_owned(),
        None => docs,
    }
}

#[test]
fn every_file_begins_with_a_sentence() {
    for folder in SHOWN {
        for (path, text) in files(folder, "rs") {
            let sentence = first_sentence(&text);
            assert!(sentence.len() > 10 && sentence.ends_with('.'), "{path} begins with {sentence:?}");
        }
    }
}

/// The tree as ARCHITECTURE.md is to have it: folders and files, the levels of jobq/src, the first sentences; the upper
/// levels first.
fn tree() -> String {
    let level = |path: &str| path.starts_with("jobq/src").then(|| room(path)).and_then(level);
    let mut tree = String::new();
    for folder in SHOWN.into_iter().filter(|folder| !folder.starts_with("tests")) {
        let mut sources: Vec<_> = files(folder, "rs").into_iter().collect();
        sources.sort_by_key(|(path, _)| (Reverse(level(path)), path.clone()));
        tree += &format!("{folder}/\n");
        let mut folders = BTreeSet::new();
        for (path, text) in sources {
            let inside = Path::new(&path).strip_prefix(folder).unwrap();
            let depth = inside.components().count();
            let above: Vec<_> =
                inside.ancestors().skip(1).filter(|above| above.file_name().is_some()).collect();
            for above in above.into_iter().rev().filter(|above| folders.insert(above.to_path_buf())) {
                let (name, indent) = (above.file_name().unwrap(), 2 * above.components().count());
                tree += &format!("{:indent$}{}/\n", "", name.display());
            }
            let name = format!("{:indent$}{}", "", inside.file_name().unwrap().display(), indent = 2 * depth);
            let level = level(&path).filter(|_| depth == 1).map_or(" ".into(), |level| level.to_string());
            tree += &format!("{name:<22}{level}  {}\n", first_sentence(&text));
        }
    }
    tree
}

/// How the tree of this text (its fence that begins with "```tree") differs from the folders.
fn differences(architecture: &str) -> Vec<String> {
    let Some((_, fenced)) = architecture.split_once("```tree\n") else {
        return vec!["no fence that begins with \"```tree\"".into()];
    };
    let (shown, tree) = (fenced.split("```").next().unwrap(), tree());
    let only_in = |one: &str, other: &str, what: &str| -> Vec<String> {
        let only = one.lines().filter(|line| !other.lines().any(|same| same == *line));
        only.map(|line| format!("{what}: {line}")).collect()
    };
    let lines = [only_in(&tree, shown, "missing"), only_in(shown, &tree, "wrong  ")].concat();
    if lines.is_empty() && shown != tree { vec!["the order of the lines".into()] } else { lines }
}

#[test]
fn architecture_shows_the_folders_as_they_are() {
    let architecture = fs::read_to_string(root().join("ARCHITECTURE.md")).expect("ARCHITECTURE.md");
    let differences = differences(&architecture);
    assert!(
        differences.is_empty(),
        "ARCHITECTURE.md differs from the folders:\n{}\n\nIt is to hold this:\n```tree\n{}```",
        differences.join("\n"),
        tree()
    );
}

#[test]
fn the_check_of_the_tree_sees_what_differs() {
    let right = format!("# Architecture\n```tree\n{}```\nmore\n", tree());
    assert_eq!(differences(&right), [""; 0]);
    assert_eq!(differences(&right.replace("  time.rs  ", "  clock.rs ")).len(), 2);
    assert_eq!(differences(&right.replace("Wall time", "Time")).len(), 2);
    assert_eq!(differences(&right.replacen("jobq/src/\n", "", 1)).len(), 1);
    assert_eq!(differences("# Architecture\n").len(), 1);
    let mut lines: Vec<_> = right.lines().collect();
    lines.swap(3, 4);
    assert_eq!(differences(&(lines.join("\n") + "\n")), ["the order of the lines"]);
}
