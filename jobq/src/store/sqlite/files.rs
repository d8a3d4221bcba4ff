//! The database's files: where they are, whether they are still the ones we opened, and who holds the write lock.
//!
//! Only metadata is read. Opening a live database file with ordinary calls and closing it again would drop SQLite's
//! own locks.

use crate::store::StoreError;
use std::{
    ffi::OsString,
    io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

type Place = (u64, u64);

/// What stands on disk while a database is open. The -wal and -shm files may come later than the database.
const PARTS: [(&str, &str); 3] =
    [("", "the database file"), ("-wal", "the -wal file"), ("-shm", "the -shm file")];

/// The files of one open database.
#[derive(Clone)]
pub(super) struct Files {
    pub(super) path: PathBuf,
    parts: [(PathBuf, Option<Place>); 3],
}

impl Files {
    /// The files as they are now: call it with a connection open. `None`: there is no database.
    pub(super) fn of(path: &Path) -> Option<Self> {
        let parts = PARTS.map(|(suffix, _)| {
            let part = beside(path, suffix);
            let found = place(&part);
            (part, found)
        });
        parts[0].1.is_some().then(|| Self { path: path.to_owned(), parts })
    }

    /// An error where a file was renamed, replaced or deleted since it was opened.
    pub(super) fn check(&mut self) -> Result<(), StoreError> {
        for ((part, known), (_, what)) in self.parts.iter_mut().zip(PARTS) {
            // A look that fails otherwise (a disk in trouble) says nothing of the file.
            let Ok(found) = look(part) else { continue };
            match known {
                None => *known = found,
                Some(_) if *known == found => {}
                Some(_) => return Err(StoreError::Moved { path: self.path.clone(), what }),
            }
        }
        Ok(())
    }

    /// Who holds the write lock, in words that say what to do.
    pub(super) fn holder(&self) -> String {
        match self.holding_pid() {
            Some(pid) if pid == std::process::id() => {
                "an open write transaction of this very program holds the write \
                 lock; enqueue inside it with `in_tx`, or commit it first"
                    .into()
            }
            Some(pid) => format!("process {pid} holds the write lock; let it commit, or raise the deadline"),
            None => {
                "another process, or an open write transaction of this program, holds the write lock; in the \
                 latter case use `in_tx`"
                    .into()
            }
        }
    }

    /// From the kernel's lock table. It is read in pieces, and where others lock and unlock in between a line may be left
    /// out: so what is not found is looked for again.
    fn holding_pid(&self) -> Option<u32> {
        let (_, inode) = place(&beside(&self.path, "-shm"))?;
        (0..3).find_map(|_| Self::holding_in(&std::fs::read_to_string("/proc/locks").ok()?, inode))
    }

    /// SQLite's write lock is byte 120 of the -shm file.
    fn holding_in(table: &str, inode: u64) -> Option<u32> {
        const WRITE_LOCK: u64 = 120;
        table.lines().find_map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let [_, "POSIX", _, "WRITE", pid, file, first, last] = words[..] else { return None };
            let ours = file.rsplit(':').next()?.parse::<u64>().ok()? == inode;
            let first = first.parse::<u64>().ok()?;
            let last = last.parse::<u64>().unwrap_or(u64::MAX);
            (ours && (first..=last).contains(&WRITE_LOCK)).then(|| pid.parse().ok()).flatten()
        })
    }
}

/// The path of a file that stands beside the database.
pub(super) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name: OsString = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Where the file of this name is; `None`: there is none.
fn look(path: &Path) -> io::Result<Option<Place>> {
    match std::fs::metadata(path) {
        Ok(meta) => Ok(Some((meta.dev(), meta.ino()))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn place(path: &Path) -> Option<Place> {
    look(path).ok().flatten()
}
