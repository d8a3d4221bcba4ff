//! A child program: started, listened to, given a time limit, and killed when it is dropped.

use anyhow::{Context, Result, bail};
use nix::{
    sys::{
        prctl,
        signal::{Signal, killpg},
    },
    unistd::Pid,
};
use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Read, Write},
    os::unix::process::CommandExt,
    process::{self, ChildStdin, Command, ExitStatus, Stdio},
    sync::{
        atomic::{AtomicBool, Ordering::Relaxed},
        mpsc::{Receiver, RecvTimeoutError, channel},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

/// What a child answers: figures by name.
pub type Answer = BTreeMap<String, f64>;

/// Between looks for an interrupt.
const LOOK: Duration = Duration::from_millis(50);

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// That a person (or a program) wants the bench to end.
#[derive(Debug)]
pub struct Interrupted;

impl std::fmt::Display for Interrupted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("interrupted")
    }
}

impl std::error::Error for Interrupted {}

/// From now on SIGINT, SIGTERM and SIGHUP end the bench as an error does: children are killed, files removed. Another
/// one, a second later, ends it at once.
pub fn heed_signals() -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    thread::spawn(move || {
        runtime.block_on(async {
            use tokio::signal::unix::{SignalKind, signal};
            let listen = |kind| signal(kind).expect("a signal that can be listened to");
            let mut interrupt = listen(SignalKind::interrupt());
            let (mut terminate, mut hangup) = (listen(SignalKind::terminate()), listen(SignalKind::hangup()));
            let mut first = None;
            loop {
                tokio::select! { _ = interrupt.recv() => {}, _ = terminate.recv() => {}, _ = hangup.recv() => {} }
                INTERRUPTED.store(true, Relaxed);
                // `timeout`, among others, says it twice at once.
                if first.get_or_insert_with(Instant::now).elapsed() > Duration::from_secs(1) {
                    process::exit(130);
                }
            }
        });
    });
    Ok(())
}

/// Fails where the bench is to end.
pub fn go_on() -> Result<()> {
    if INTERRUPTED.load(Relaxed) { Err(Interrupted.into()) } else { Ok(()) }
}

/// Sleeps, unless the bench is to end.
pub fn pause(time: Duration) -> Result<()> {
    let until = Instant::now() + time;
    while let Some(left) = until.checked_duration_since(Instant::now()) {
        go_on()?;
        thread::sleep(left.min(LOOK));
    }
    go_on()
}

/// A running child; it leads a process group of its own, which dies with it.
pub struct Child {
    process: process::Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
    last_line: Option<String>,
    stderr: Option<JoinHandle<String>>,
}

impl Child {
    /// Starts it. To be called by the main thread: the child is killed when the thread that started it ends, so that it
    /// does not outlive a bench that was killed.
    pub fn start(mut command: Command) -> Result<Self> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        // A panic's message is the last that is said.
        command.env("RUST_BACKTRACE", "0");
        let die_with_us = || prctl::set_pdeathsig(Signal::SIGKILL).map_err(Into::into);
        // SAFETY: between fork and exec it makes one system call, and neither allocates nor locks.
        unsafe { command.pre_exec(die_with_us) };
        let program = command.get_program().to_owned();
        let mut process = command.spawn().with_context(|| format!("{} does not start", program.display()))?;
        let (stdout, stderr) = (process.stdout.take(), process.stderr.take());
        let (tell, lines) = channel();
        thread::spawn(move || {
            let lines = stdout.into_iter().flat_map(|stdout| BufReader::new(stdout).lines());
            lines.map_while(Result::ok).all(|line| tell.send(line).is_ok())
        });
        let stderr = thread::spawn(move || {
            let mut text = Vec::new();
            stderr.map(|mut stderr| stderr.read_to_end(&mut text));
            String::from_utf8_lossy(&text).into_owned()
        });
        let stdin = process.stdin.take();
        Ok(Self { process, stdin, lines, last_line: None, stderr: Some(stderr) })
    }

    /// Its next line, or none where it has ended or says nothing for so long.
    pub fn line(&mut self, limit: Duration) -> Result<Option<String>> {
        let until = Instant::now() + limit;
        loop {
            go_on()?;
            let left = until.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left.min(LOOK)) {
                Ok(line) => {
                    self.last_line = Some(line.clone());
                    return Ok(Some(line));
                }
                Err(RecvTimeoutError::Timeout) if !left.is_zero() => {}
                Err(_) => return Ok(None),
            }
        }
    }

    /// Waits for a line that begins like this, and answers the rest of it.
    pub fn line_with(&mut self, start: &str, limit: Duration) -> Result<String> {
        let until = Instant::now() + limit;
        while let Some(line) = self.line(until.saturating_duration_since(Instant::now()))? {
            if let Some(rest) = line.strip_prefix(start) {
                return Ok(rest.trim().to_owned());
            }
        }
        match self.wait(Instant::now() + LOOK)? {
            Some(status) => bail!("{status} before a line {start:?}{}", self.complaint()),
            None => bail!("no line {start:?} within {limit:?}{}", self.complaint()),
        }
    }

    /// The latest of the lines that it has said meanwhile.
    pub fn latest_line(&mut self) -> Option<&str> {
        self.last_line = self.lines.try_iter().last().or(self.last_line.take());
        self.last_line.as_deref()
    }

    /// Says a line to it: go on.
    pub fn nod(&mut self) -> Result<()> {
        let stdin = self.stdin.as_mut().context("its standard input is closed")?;
        Ok(stdin.write_all(b"\n").and_then(|()| stdin.flush())?)
    }

    /// Waits until it has ended and answers its last line as figures, and what it complained about.
    pub fn answer(mut self, limit: Duration) -> Result<(Answer, String)> {
        let until = Instant::now() + limit;
        while self.line(until.saturating_duration_since(Instant::now()))?.is_some() {}
        let Some(status) = self.wait(until)? else {
            bail!("it took longer than {limit:?} and was killed{}", self.complaint());
        };
        if !status.success() {
            bail!("{status}{}", self.complaint());
        }
        let line = self.last_line.take().unwrap_or_default();
        let answer = serde_json::from_str(&line)
            .with_context(|| format!("its last line is {line:?}{}", self.complaint()))?;
        Ok((answer, self.complaint()))
    }

    /// Waits until it has ended well; for programs that answer nothing.
    pub fn success(mut self, limit: Duration) -> Result<()> {
        match self.wait(Instant::now() + limit)? {
            Some(status) if status.success() => Ok(()),
            Some(status) => bail!("{status}{}", self.complaint()),
            None => bail!("it took longer than {limit:?} and was killed"),
        }
    }

    fn wait(&mut self, until: Instant) -> Result<Option<ExitStatus>> {
        loop {
            go_on()?;
            if let Some(status) = self.process.try_wait()? {
                return Ok(Some(status));
            }
            if Instant::now() >= until {
                return Ok(None);
            }
            thread::sleep(Duration::from_millis(2));
        }
    }

    /// Kills it (SIGKILL), and whatever it has started.
    pub fn kill(&mut self) {
        if let Ok(None) = self.process.try_wait()
            && let Ok(pid) = i32::try_from(self.process.id())
        {
            killpg(Pid::from_raw(pid), Signal::SIGKILL).ok();
        }
        self.process.wait().ok();
    }

    /// The end of what it wrote to standard error, after a colon. It is killed for that.
    fn complaint(&mut self) -> String {
        self.kill();
        let text = self.stderr.take().and_then(|stderr| stderr.join().ok()).unwrap_or_default();
        let said = |line: &&str| !line.is_empty() && !line.starts_with("note: run with");
        let lines: Vec<_> = text.lines().map(str::trim).filter(said).collect();
        match &lines[lines.len().saturating_sub(4)..] {
            [] => String::new(),
            last => format!(": {}", last.join(" / ")),
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.kill();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Child {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Child::start(command).unwrap()
    }

    #[test]
    fn the_last_line_is_the_answer() {
        let (answer, complaint) =
            shell("echo ready; echo '{\"rate\":2.5}'; echo oh >&2").answer(Duration::from_secs(5)).unwrap();
        assert_eq!(answer, Answer::from([("rate".into(), 2.5)]));
        assert_eq!(complaint, ": oh");
    }

    #[test]
    fn what_fails_or_takes_too_long_is_an_error_that_says_why() {
        let failed = shell("echo why >&2; exit 3").answer(Duration::from_secs(5)).unwrap_err().to_string();
        assert!(failed.contains("status: 3") && failed.contains("why"), "{failed}");
        let garbled = shell("echo no figures").answer(Duration::from_secs(5)).unwrap_err().to_string();
        assert!(garbled.contains("no figures"), "{garbled}");
        let began = Instant::now();
        let late = shell("sleep 60 & sleep 60").answer(Duration::from_millis(100)).unwrap_err().to_string();
        assert!(late.contains("longer than 100ms"), "{late}");
        assert!(began.elapsed() < Duration::from_secs(10), "its own child is killed too");
    }

    #[test]
    fn it_hears_a_nod_and_is_heard_line_by_line() {
        let mut child = shell("echo ready; read x; echo started 7; sleep 60");
        assert_eq!(child.line(Duration::from_secs(5)).unwrap().as_deref(), Some("ready"));
        child.nod().unwrap();
        assert_eq!(child.line_with("started", Duration::from_secs(5)).unwrap(), "7");
        assert_eq!(child.line(Duration::from_millis(20)).unwrap(), None);
        let ended = shell("exit 4").line_with("started", Duration::from_secs(5)).unwrap_err().to_string();
        assert!(ended.contains("status: 4 before"), "{ended}");
    }
}
