//! The child program of these tests, and what is said to it and heard from it, line by line.

use std::{
    ffi::OsStr,
    io::{BufRead, BufReader, Write},
    process::{ChildStdin, Command, ExitStatus, Stdio},
    sync::mpsc::{Receiver, channel},
    thread,
    time::{Duration, Instant},
};

/// A running child; killed when it is dropped.
pub struct Child {
    process: std::process::Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
}

impl Child {
    /// Starts `jobq-tests-child VERB ARGS…`.
    pub fn start<S: AsRef<OsStr>>(verb: &str, args: &[S]) -> Self {
        Self::spawn(Self::command(verb, args))
    }

    /// The command of it, for more settings.
    pub fn command<S: AsRef<OsStr>>(verb: &str, args: &[S]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_jobq-tests-child"));
        command.arg(verb).args(args);
        command
    }

    pub fn spawn(mut command: Command) -> Self {
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (heard, lines) = channel();
        let stdout = BufReader::new(process.stdout.take().unwrap());
        thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                if heard.send(line).is_err() {
                    return;
                }
            }
        });
        Self { stdin: process.stdin.take(), process, lines }
    }

    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// The next line, within 30 s; `None`: it has closed its output.
    pub fn line(&mut self) -> Option<String> {
        self.line_within(Duration::from_secs(30))
    }

    fn line_within(&mut self, limit: Duration) -> Option<String> {
        match self.lines.recv_timeout(limit) {
            Ok(line) => Some(line),
            Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => None,
            Err(timeout) => panic!("child {}: {timeout}", self.pid()),
        }
    }

    /// Reads lines until one begins with `word`, and gives the rest of it.
    pub fn expect(&mut self, word: &str) -> String {
        self.expect_within(word, Duration::from_secs(30))
    }

    pub fn expect_within(&mut self, word: &str, limit: Duration) -> String {
        loop {
            let line =
                self.line_within(limit).unwrap_or_else(|| panic!("the child ended without saying `{word}`"));
            if let Some(rest) = line.strip_prefix(word) {
                return rest.trim().to_owned();
            }
        }
    }

    pub fn say(&mut self, line: &str) {
        writeln!(self.stdin.as_mut().unwrap(), "{line}").unwrap();
    }

    pub fn signal(&self, signal: nix::sys::signal::Signal) {
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(self.pid() as i32), signal).unwrap();
    }

    /// SIGKILL, and its end.
    pub fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    pub fn has_ended(&mut self) -> bool {
        self.process.try_wait().unwrap().is_some()
    }

    /// Its end, within `limit`.
    pub fn wait(&mut self, limit: Duration) -> ExitStatus {
        let began = Instant::now();
        loop {
            if let Some(status) = self.process.try_wait().unwrap() {
                return status;
            }
            assert!(began.elapsed() < limit, "child {} is still there after {limit:?}", self.pid());
            thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
    }
}
