//! The machine that the bench ran on: what explains its figures, and no names.

use serde::Serialize;
use std::{fs, path::Path, thread};

/// What explains the figures.
#[derive(Serialize)]
pub struct Machine {
    /// The processor's model.
    pub cpu: String,
    /// The cores that the bench may use.
    pub cores: usize,
    /// The kernel's release.
    pub kernel: String,
    /// The file system that the databases were on.
    pub file_system: String,
}

impl Machine {
    /// This one; `dir` is where the databases are.
    pub fn here(dir: &Path) -> Self {
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        Self {
            cpu: cpu(&read("/proc/cpuinfo")).unwrap_or("unknown").to_owned(),
            cores: thread::available_parallelism().map_or(1, Into::into),
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            file_system: file_system(&read("/proc/self/mountinfo"), dir).unwrap_or("unknown").to_owned(),
        }
    }

    /// Whether a commit costs no wait for a disk, so that FULL costs as little as NORMAL.
    pub fn is_without_disk(&self) -> bool {
        matches!(self.file_system.as_str(), "tmpfs" | "ramfs")
    }
}

fn cpu(cpuinfo: &str) -> Option<&str> {
    let line = cpuinfo.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim())
}

/// The type of the innermost mount that holds `dir`; the last of several at one place is the one that is seen.
fn file_system<'m>(mountinfo: &'m str, dir: &Path) -> Option<&'m str> {
    let mount = |line: &'m str| {
        let (before, after) = line.split_once(" - ")?;
        let place = before.split(' ').nth(4)?.replace("\\040", " ");
        dir.starts_with(&place).then_some((place.len(), after.split(' ').next()?))
    };
    mountinfo.lines().filter_map(mount).max_by_key(|(length, _)| *length).map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_system_is_that_of_the_innermost_mount() {
        let mounts = "22 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n\
            23 22 0:20 / /tmp rw - tmpfs tmpfs rw\n\
            24 22 0:21 / /tmpx rw shared:1 - xfs /dev/b rw\n\
            25 22 0:22 / /my\\040disk rw - btrfs /dev/c rw\n\
            26 23 0:23 / /tmp rw - zfs pool rw\n";
        let of = |dir| file_system(mounts, Path::new(dir));
        assert_eq!(of("/var/x"), Some("ext4"));
        assert_eq!(of("/tmpx/a"), Some("xfs"));
        assert_eq!(of("/my disk/a"), Some("btrfs"));
        assert_eq!(of("/tmp/a"), Some("zfs"), "the later mount hides the earlier");
    }

    #[test]
    fn the_processor_is_named() {
        assert_eq!(cpu("processor\t: 0\nmodel name\t: Fast One\nflags: x\n"), Some("Fast One"));
        assert_eq!(cpu(""), None);
    }
}
