//! Compile errors are a feature: one mistake a file in `fail/`, its error beside it; and what must compile, in `pass/`.
//!
//! `TRYBUILD=overwrite cargo test -p jobq-tests --test ui` writes the errors anew; read each as its user would.

#[test]
fn each_mistake_is_told_at_its_token() {
    let cases = trybuild::TestCases::new();
    cases.pass("ui/pass/*.rs");
    cases.compile_fail("ui/fail/*.rs");
}
