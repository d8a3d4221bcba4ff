//! The golden file of all job types: a test that fails on a change which leaves stored jobs unreadable.

use crate::registry::Registry;
use std::path::Path;

/// Holds the [manifest](crate::registry::Manifest) of all linked jobs against the file that was written before. A relative
/// path begins at the directory of the package, where `cargo test` runs.
///
/// A test binary links the jobs of its own tests too; to leave them out, hold some jobs alone:
/// `Registry::linked()?.pick(&(send_mail, resize).job_types())?.manifest().check("jobs.json")`.
///
/// # Panics
/// Where jobs that are stored could not be run any more by this build, and where there is no such file: the text says what
/// to write. `JOBQ_WRITE_MANIFEST=1 cargo test` writes the file. Other changes pass, and are printed.
#[track_caller]
pub fn assert_manifest(path: impl AsRef<Path>) {
    let path = path.as_ref();
    let registry = Registry::linked().unwrap_or_else(|error| panic!("{error}"));
    match registry.manifest().check(path) {
        Ok(changes) if changes.is_empty() => {}
        Ok(changes) => {
            changes.iter().for_each(|change| println!("{change}"));
            println!(
                "{} is older than this; to write it anew: JOBQ_WRITE_MANIFEST=1 cargo test",
                path.display()
            );
        }
        Err(error) => panic!("{error}"),
    }
}
