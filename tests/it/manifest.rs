//! The manifest of all job types: what it says, and which changes of it break rows that are stored.

use jobq::{
    JobSet, Registry,
    prelude::*,
    registry::{Change, Manifest, ManifestError},
};
use serde_json::{Value, json};
use std::process::Command;

#[job(
    type = "manifest-test:mail",
    aliases = ["manifest-test:post"],
    queue = "mail",
    timeout = "30s",
    backoff = exponential(base = "1s", max = "5m"),
    version = 2,
    upgrade = as_it_is,
    serde(rename_all = "camelCase")
)]
async fn mail(
    ctx: &JobContext,
    user_id: u64,
    #[serde(alias = "to")] address: String,
    #[serde(default)] copies: Vec<(u8, Option<String>)>,
    note: Option<String>,
) -> Result<(), JobError> {
    let _ = (ctx, user_id, address, copies, note);
    Ok(())
}

fn as_it_is(_: u32, payload: Value) -> Result<Value, String> {
    Ok(payload)
}

#[job(type = "manifest-test:sweep")]
async fn sweep() {}

#[job(type = "manifest-test:raw", serde(transparent))]
async fn raw(text: String) {
    let _ = text;
}

fn manifest() -> Manifest {
    Registry::linked().unwrap().pick(&(mail, sweep, raw).job_types()).unwrap().manifest()
}

#[test]
fn a_manifest_says_fields_types_options_and_version_as_json() {
    let text = manifest().to_string();
    let expected = json!({ "jobs": {
        "manifest-test:mail": {
            "version": 2,
            "aliases": ["manifest-test:post"],
            "function": "it::manifest::mail",
            "fields": [
                { "name": "userId", "type": "u64" },
                { "name": "address", "type": "String", "aliases": ["to"] },
                { "name": "copies", "type": "Vec<(u8, Option<String>)>", "optional": true },
                { "name": "note", "type": "Option<String>", "optional": true },
            ],
            "options": {
                "backoff": "exponential(base = \"1s\", max = \"5m\")",
                "queue": "\"mail\"",
                "serde": "(rename_all = \"camelCase\")",
                "timeout": "\"30s\"",
                "upgrade": "as_it_is",
            },
        },
        "manifest-test:raw": {
            "version": 1,
            "function": "it::manifest::raw",
            "fields": [{ "name": "text", "type": "String" }],
            "shape": "transparent",
            "options": { "serde": "(transparent)" },
        },
        "manifest-test:sweep": { "version": 1, "function": "it::manifest::sweep", "fields": [] },
    }});
    assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), expected);
    assert!(
        text.starts_with("{\n  \"jobs\": {\n    \"manifest-test:mail\": {\n      \"version\": 2,"),
        "{text}"
    );
    assert_eq!(serde_json::from_str::<Manifest>(&text).unwrap(), manifest());
    assert!(Registry::linked().unwrap().manifest().jobs.len() > 30);
}

/// A manifest with one job `a`.
fn of(job: Value) -> Manifest {
    named("a", job)
}

fn named(name: &str, mut job: Value) -> Manifest {
    for (key, value) in [("version", json!(1)), ("function", json!("shop::a")), ("fields", json!([]))] {
        job.as_object_mut().unwrap().entry(key).or_insert(value);
    }
    serde_json::from_value(json!({ "jobs": { name: job } })).unwrap()
}

fn field(name: &str, ty: &str) -> Value {
    json!({ "name": name, "type": ty })
}

fn optional(name: &str, ty: &str) -> Value {
    json!({ "name": name, "type": ty, "optional": true })
}

fn fields(fields: &[Value]) -> Manifest {
    of(json!({ "fields": fields }))
}

/// All that has changed; those that break nothing end so.
fn told(old: &Manifest, new: &Manifest) -> Vec<String> {
    let told = |Change { job_type, what, breaks }: Change| {
        format!("{job_type}: {what}{}", if breaks.is_none() { ", fine" } else { "" })
    };
    new.changes_since(old).into_iter().map(told).collect()
}

#[test]
fn what_reads_every_stored_payload_breaks_nothing() {
    let old = fields(&[field("n", "u64"), optional("note", "Option<String>")]);
    assert!(told(&old, &old).is_empty());
    let swapped = fields(&[optional("note", "Option<String>"), field("n", "u64")]);
    assert!(told(&old, &swapped).is_empty());
    let more = fields(&[field("n", "u64"), optional("note", "Option<String>"), optional("m", "u8")]);
    assert_eq!(told(&old, &more), ["a: its field `m: u8` is new, fine"]);
    let wider = fields(&[optional("n", "std::option::Option<u64>"), optional("note", "Option<String>")]);
    assert_eq!(told(&old, &wider), ["a: its field `n` has changed, and reads what is stored, fine"]);
    let renamed = json!({ "name": "number", "type": "u64", "aliases": ["n"] });
    let renamed = fields(&[renamed, optional("note", "Option<String>")]);
    assert_eq!(told(&old, &renamed), ["a: its field `n` has changed, and reads what is stored, fine"]);
    let options = of(
        json!({ "fields": [field("n", "u64"), optional("note", "Option<String>")], "options": { "queue": "x" } }),
    );
    assert_eq!(told(&old, &options), ["a: its options have changed, fine"]);
    let moved = named(
        "b",
        json!({ "aliases": ["a"], "fields": [field("n", "u64"), optional("note", "Option<String>")] }),
    );
    assert_eq!(told(&old, &moved), ["b: the job is new, fine"]);
    // Whatever a new version changes, its upgrade mends.
    let next = of(
        json!({ "version": 2, "shape": "transparent", "fields": [field("n", "String"), field("x", "u8")] }),
    );
    let all = told(&old, &next);
    assert_eq!((all.len(), &*all[0]), (5, "a: its version went from 1 to 2, fine"));
    assert!(all.iter().all(|change| change.ends_with(", fine")), "{all:?}");
}

#[test]
fn what_stored_payloads_do_not_fit_breaks_and_the_fix_is_told() {
    let old = of(json!({
        "version": 3,
        "aliases": ["older"],
        "fields": [field("n", "u64"), optional("note", "Option<String>"), optional("k", "u8")],
    }));
    let with = |fields: &[Value]| of(json!({ "version": 3, "aliases": ["older"], "fields": fields }));
    let note = optional("note", "Option<String>");
    let (n, k) = (field("n", "u64"), optional("k", "u8"));
    let cases = [
        (with(&[note.clone(), k.clone()]), "its field `n: u64` is gone", "#[serde(alias = \"n\")]"),
        (
            with(&[field("n", "u32"), note.clone(), k.clone()]),
            "its field `n: u64` is a `u32`",
            "another name",
        ),
        (
            with(&[n.clone(), field("note", "String"), k.clone()]),
            "its field `note: Option<String>` is a `String`",
            "another name",
        ),
        (
            with(&[n.clone(), note.clone(), field("k", "u8")]),
            "its field `k: u8` may no longer be missing",
            "#[serde(default)] k",
        ),
        (
            with(&[n.clone(), note.clone(), k.clone(), field("x", "u8")]),
            "its field `x: u8` is new",
            "`#[serde(default)] x: u8`, or `x: Option<u8>`; or write `version = 4` and an `upgrade`",
        ),
        (
            of(json!({ "version": 3, "aliases": ["older"], "shape": "transparent", "fields": [n, note, k] })),
            "its JSON was an object and is `transparent`",
            "take the serde attribute back",
        ),
    ];
    for (new, what, fix) in cases {
        let [change] = &new.changes_since(&old)[..] else { panic!("{:?}", told(&old, &new)) };
        let breaks = change.breaks.as_deref().unwrap();
        assert_eq!((&*change.job_type, &*change.what), ("a", what));
        assert!(breaks.contains(fix), "{fix} is not in {breaks}");
        assert!(breaks.contains("`version = 4`"), "{breaks}");
    }
    let lower = of(json!({ "version": 2, "aliases": ["older"] }));
    assert_eq!(told(&old, &lower), ["a: its version went from 3 back to 2"]);
    let gone = named("b", json!({}));
    let changes = gone.changes_since(&old);
    assert_eq!(
        told(&old, &gone),
        ["a: its alias `older` is gone", "a: the job is gone", "b: the job is new, fine"]
    );
    assert!(changes[1].breaks.as_deref().unwrap().contains("`aliases = [\"a\"]`"), "{}", changes[1]);
}

#[test]
fn the_golden_file_fails_on_what_breaks_and_says_how_to_write_it_anew() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("jobs.json");
    let there = manifest().check(&path).unwrap_err();
    assert!(matches!(there, ManifestError::NotThere { .. }), "{there}");
    assert!(
        there.to_string().ends_with("write it with JOBQ_WRITE_MANIFEST=1 cargo test, and commit it"),
        "{there}"
    );

    std::fs::write(&path, manifest().to_string()).unwrap();
    assert_eq!(manifest().check(&path).unwrap(), []);
    let mut more = manifest();
    more.jobs.insert("manifest-test:new".into(), more.jobs["manifest-test:sweep"].clone());
    let fine = more.check(&path).unwrap();
    assert_eq!(fine[0].to_string(), "`manifest-test:new`: the job is new");

    let mut less = manifest();
    less.jobs.remove("manifest-test:sweep");
    let error = less.check(&path).unwrap_err().to_string();
    assert_eq!(
        error,
        format!(
            "jobs that are stored could not be run any more by this build, as {} shows:\n  \
             `manifest-test:sweep`: the job is gone\n    its rows would wait for ever: keep the name with `type = \
             \"manifest-test:sweep\"`, or give it to the job that takes them over, `aliases = \
             [\"manifest-test:sweep\"]`\nWhere none of them can be stored, write the file anew: JOBQ_WRITE_MANIFEST=1 \
             cargo test",
            path.display()
        )
    );
    std::fs::write(&path, "{}").unwrap();
    let error = manifest().check(&path).unwrap_err();
    assert!(matches!(error, ManifestError::Unreadable { .. }), "{error}");
    assert!(matches!(manifest().check(dir.path()).unwrap_err(), ManifestError::Io { .. }));
}

#[test]
fn the_kit_panics_with_what_breaks_and_passes_what_does_not() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("jobs.json");
    let assert = |manifest: &Manifest| {
        std::fs::write(&path, manifest.to_string()).unwrap();
        let panic = std::panic::catch_unwind(|| jobq::testing::assert_manifest(&path));
        panic.map_err(|panic| panic.downcast::<String>().unwrap())
    };
    let mut golden = Registry::linked().unwrap().manifest();
    assert_eq!(assert(&golden), Ok(()));
    golden.jobs.remove("manifest-test:mail");
    assert_eq!(assert(&golden), Ok(()), "a new job breaks nothing");
    golden.jobs.insert("manifest-test:gone".into(), golden.jobs["manifest-test:sweep"].clone());
    let panic = assert(&golden).unwrap_err();
    assert!(panic.contains("`manifest-test:gone`: the job is gone"), "{panic}");
}

/// The environment is the process's own, so a child writes the file.
#[test]
fn the_golden_file_is_written_where_the_environment_says_so() {
    const FILE: &str = "JOBQ_TEST_MANIFEST_FILE";
    if let Some(path) = std::env::var_os(FILE) {
        assert_eq!(manifest().check(path).unwrap(), []);
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("jobs.json");
    let run = |write: &str| {
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "manifest::the_golden_file_is_written_where_the_environment_says_so"])
            .envs([(FILE, path.as_os_str()), ("JOBQ_WRITE_MANIFEST", write.as_ref())])
            .output()
            .unwrap()
            .status
            .success()
    };
    assert!(!run("0"), "there is no such file");
    assert!(run("1"));
    assert_eq!(std::fs::read_to_string(&path).unwrap(), format!("{}\n", manifest()));
    assert!(run(""));
}
