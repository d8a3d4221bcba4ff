//! Who is alive: one byte of a side-car file per worker, locked while its process lives; the kernel frees it.
//!
//! The locks are POSIX record locks: a forked child does not inherit them, and they end with the process whatever
//! kills it. They also end when the process closes *any* descriptor of the file, so the side-car is opened once per
//! process and never closed, and nothing else may open it.

use crate::store::Life;
use nix::{
    fcntl::{FcntlArg, fcntl},
    libc,
};
use std::{
    collections::{HashMap, HashSet},
    fs::{File, OpenOptions},
    io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::{Arc, LazyLock, Mutex, PoisonError},
};

/// The side-car of one database in this process.
pub(super) struct SideCar {
    file: File,
    /// Where it is: device and inode.
    pub(super) place: (i64, i64),
    /// Whose locks they are: a forked child has this memory, and none of the locks.
    process: u32,
    held: Mutex<HashSet<i64>>,
}

/// This boot of this machine; empty where the system does not tell, and then only beats decide.
pub(super) static BOOT: LazyLock<String> = LazyLock::new(|| {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
});

static OPEN: LazyLock<Mutex<HashMap<PathBuf, Arc<SideCar>>>> = LazyLock::new(Mutex::default);

impl SideCar {
    /// The side-car of the database at `path`, opened by the first caller of this process.
    pub(super) fn of(path: &Path) -> io::Result<Arc<Self>> {
        let path = super::files::beside(path, "-jobq");
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        // A side-car that was replaced on disk gets a new entry, as one that a fork came between does; the old one
        // stays open, as its locks live by it.
        let on_disk = std::fs::metadata(&path).ok().map(|meta| (meta.dev() as i64, meta.ino() as i64));
        if let Some(known) = open.get(&path).filter(|known| known.is(on_disk)) {
            return Ok(known.clone());
        }
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path)?;
        let meta = file.metadata()?;
        let place = (meta.dev() as i64, meta.ino() as i64);
        let side_car = Arc::new(Self { file, place, process: std::process::id(), held: Mutex::default() });
        if let Some(replaced) = open.insert(path, side_car.clone()) {
            std::mem::forget(replaced);
        }
        Ok(side_car)
    }

    /// Closes a side-car that was deleted with its database, once no store of this process uses it.
    pub(super) fn forget(path: &Path) {
        let path = super::files::beside(path, "-jobq");
        let gone = std::fs::metadata(&path).is_err();
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        let forgotten = if gone { open.remove(&path) } else { None };
        drop(open);
        drop(forgotten);
    }

    fn is(&self, on_disk: Option<(i64, i64)>) -> bool {
        on_disk == Some(self.place) && self.process == std::process::id()
    }

    /// Takes the byte of `worker` for this process.
    pub(super) fn hold(&self, worker: i64) -> io::Result<()> {
        self.byte(worker, libc::F_WRLCK, false)?;
        self.held().insert(worker);
        Ok(())
    }

    /// Frees the byte of `worker`.
    pub(super) fn free(&self, worker: i64) {
        if self.held().remove(&worker) {
            // Nothing depends on the answer: a byte that stays locked is freed with the process.
            self.byte(worker, libc::F_UNLCK, false).ok();
        }
    }

    /// What the kernel knows of the worker that signed in at `boot` with the side-car at `place`.
    pub(super) fn life(&self, worker: i64, boot: &str, place: (i64, i64)) -> Life {
        if boot.is_empty() || boot != *BOOT || place != self.place {
            return Life::Unknown;
        }
        self.byte_of(worker)
    }

    /// The same of a worker whose row is gone: a locked byte is its own, but a free one may be that of another machine.
    pub(super) fn life_without_row(&self, worker: i64) -> Life {
        match self.byte_of(worker) {
            Life::Gone => Life::Unknown,
            other => other,
        }
    }

    fn byte_of(&self, worker: i64) -> Life {
        if self.held().contains(&worker) {
            return Life::Alive;
        }
        match self.byte(worker, libc::F_WRLCK, true) {
            Ok(found) if found == libc::F_UNLCK => Life::Gone,
            Ok(_) => Life::Alive,
            Err(_) => Life::Unknown,
        }
    }

    fn held(&self) -> std::sync::MutexGuard<'_, HashSet<i64>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn byte(&self, worker: i64, kind: i32, only_ask: bool) -> io::Result<i32> {
        // SAFETY: `flock` is plain numbers, and all zeros is a valid value of it.
        let mut lock: libc::flock = unsafe { std::mem::zeroed() };
        lock.l_type = kind as _;
        lock.l_whence = libc::SEEK_SET as _;
        lock.l_start = worker;
        lock.l_len = 1;
        let what = if only_ask { FcntlArg::F_GETLK(&mut lock) } else { FcntlArg::F_SETLK(&lock) };
        fcntl(&self.file, what)?;
        Ok(i32::from(lock.l_type))
    }
}
