//! The linked jobs: found by name, told apart, checked for their data.

use jobq::{
    JobEntry, JobSet, Registry,
    job::Defaults,
    prelude::*,
    registry::{BackoffPolicy, DataMap, DataNeed, RegistryError, check},
};

#[job(type = "registry-test:print")]
async fn print_page(page: u32) -> Result<(), JobError> {
    println!("{page}");
    Ok(())
}

mod nested {
    use jobq::prelude::*;

    #[job(type = "registry-test:bind", aliases = ["registry-test:staple"])]
    pub async fn bind_pages() -> Result<(), JobError> {
        Ok(())
    }
}
use nested::bind_pages;

struct Paper;
struct Ink;

/// An entry that is not linked, for registries of a test's own.
fn entry(
    job_type: &'static str,
    aliases: &'static [&'static str],
    data: &'static [DataNeed],
    line: u32,
) -> &'static JobEntry {
    Box::leak(Box::new(JobEntry {
        job_type,
        aliases,
        defaults: Defaults::NONE,
        backoff: BackoffPolicy::Unset,
        blocking: false,
        on_dead: None,
        data,
        on: &[],
        cron: None,
        secrets: &[],
        upgrade: None,
        fields: &[],
        shape: "",
        written: &[],
        doc: "",
        check: check::<PrintPage>,
        run: |_, _, _| Ok(Box::pin(async { Ok(None) })),
        function: format!("work_{line}").leak(),
        module: "shop::jobs",
        file: "src/jobs.rs",
        line,
    }))
}

fn names(registry: &Registry) -> Vec<&'static str> {
    registry.names().collect()
}

#[test]
fn every_linked_job_is_found_by_its_name_and_aliases_and_its_place_is_known() {
    let linked = Registry::linked().unwrap();
    let print = linked.get("registry-test:print").unwrap();
    assert_eq!((print.module, print.function), (module_path!(), "print_page"));
    assert!(print.file.ends_with("it/registry.rs"), "{}", print.file);
    assert!((10..20).contains(&print.line), "{}", print.line);
    for name in ["registry-test:bind", "registry-test:staple"] {
        assert_eq!(linked.get(name).unwrap().job_type, "registry-test:bind");
    }
    assert!(linked.get("print_page").is_none(), "a job with a `type` is not known by its function");
    let all: Vec<_> = jobq::registry().iter().map(|entry| entry.job_type).collect();
    assert!(all.is_sorted() && all.contains(&"registry-test:print"), "{all:?}");
    assert_eq!(all, linked.iter().map(|entry| entry.job_type).collect::<Vec<_>>());
}

#[test]
fn a_set_of_functions_picks_its_entries_and_only_these() {
    let linked = Registry::linked().unwrap();
    let picked = linked.pick(&(bind_pages, print_page).job_types()).unwrap();
    assert_eq!(names(&picked), ["registry-test:bind", "registry-test:staple", "registry-test:print"]);
    assert_eq!((picked.len(), picked.is_empty()), (2, false));
    let alone = linked.pick(&print_page.job_types()).unwrap();
    assert_eq!(names(&alone), ["registry-test:print"]);
    let twice = linked.pick(&(print_page, print_page).job_types()).unwrap();
    assert_eq!(names(&twice), ["registry-test:print"]);
    assert!(Registry::of([]).unwrap().is_empty());
}

#[test]
fn what_is_expected_and_not_linked_is_named_at_once() {
    let own = Registry::of([entry("a", &[], &[], 1)]).unwrap();
    match own.pick(&["a", "b", "c"]).unwrap_err() {
        error @ RegistryError::NotLinked(_) => assert_eq!(
            error.to_string(),
            "not linked into this program: `b`, `c`; name the crate that has them, as in `use that_crate as _;`"
        ),
        other => panic!("{other}"),
    }
}

#[test]
fn two_jobs_of_one_name_are_refused_and_both_places_are_named() {
    let by_type =
        Registry::of([entry("mail", &[], &[], 3), entry("other", &[], &[], 5), entry("mail", &[], &[], 7)]);
    assert_eq!(
        by_type.unwrap_err().to_string(),
        "two jobs are named `mail`: `mail` (fn shop::jobs::work_3, src/jobs.rs:3) and `mail` \
         (fn shop::jobs::work_7, src/jobs.rs:7); \
         rename one, or give it a `type = \"…\"` of its own"
    );
    let by_alias =
        Registry::of([entry("post", &["mail", "letter"], &[], 3), entry("mail", &["letter"], &[], 7)]);
    assert_eq!(
        by_alias.unwrap_err().to_string(),
        "two jobs are named `mail`: `mail` (fn shop::jobs::work_7, src/jobs.rs:7) and `post` \
         (fn shop::jobs::work_3, src/jobs.rs:3); \
         two jobs are named `letter`: `mail` (fn shop::jobs::work_7, src/jobs.rs:7) and `post` \
         (fn shop::jobs::work_3, src/jobs.rs:3); \
         rename one, or give it a `type = \"…\"` of its own"
    );
    // A job does not clash with itself.
    let one = entry("mail", &["mail", "letter"], &[], 3);
    assert_eq!(Registry::of([one, one]).unwrap().len(), 1);
}

#[test]
fn missing_data_is_named_by_type_with_every_job_that_needs_it() {
    const INK: DataNeed = DataNeed::of::<Ink>();
    const PAPER: DataNeed = DataNeed::of::<Paper>();
    let registry = Registry::of([
        entry("print", &[], &[INK, PAPER], 1),
        entry("stamp", &[], &[INK], 2),
        entry("think", &[], &[], 3),
    ]);
    let registry = registry.unwrap();
    let mut data = DataMap::default();
    let texts = |data: &DataMap| registry.missing(data).iter().map(ToString::to_string).collect::<Vec<_>>();
    let ink = "`it::registry::Ink` for `print` (fn shop::jobs::work_1, src/jobs.rs:1), `stamp` \
               (fn shop::jobs::work_2, src/jobs.rs:2)";
    let paper = "`it::registry::Paper` for `print` (fn shop::jobs::work_1, src/jobs.rs:1)";
    assert_eq!(texts(&data), [ink, paper]);
    data.insert(Ink);
    assert_eq!(texts(&data), [paper]);
    data.insert(Paper);
    assert!(texts(&data).is_empty());
}
