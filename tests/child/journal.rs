//! What this process has done, line by line in a file of its own: `MILLIS WORD ID LEASE ATTEMPT`.

use jobq::{Clock, JobContext, SystemClock};
use std::{
    fs::{File, OpenOptions},
    io::Write,
    path::{Path, PathBuf},
    sync::{Mutex, OnceLock},
};

static JOURNAL: OnceLock<(PathBuf, Mutex<File>)> = OnceLock::new();

/// Opens this process's journal in the folder.
pub fn open(folder: &Path) {
    let file = folder.join(format!("{}.journal", std::process::id()));
    let file = OpenOptions::new().append(true).create(true).open(file).unwrap();
    JOURNAL.set((folder.to_owned(), Mutex::new(file))).unwrap();
}

pub fn folder() -> &'static Path {
    &JOURNAL.get().unwrap().0
}

/// One whole line in one write: a kill leaves none cut in two.
pub fn write(word: &str, what: &str) {
    let (_, file) = JOURNAL.get().unwrap();
    let line = format!("{} {word} {what}\n", SystemClock.now());
    file.lock().unwrap().write_all(line.as_bytes()).unwrap();
}

pub fn say(word: &str, ctx: &JobContext) {
    write(word, &format!("{} {} {}", ctx.id(), ctx.lease(), ctx.attempt()));
}
