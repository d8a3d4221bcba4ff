//! The writing thread: whatever waits shares one transaction, and is answered after its commit.
//!
//! One thread per open store owns the one writing connection. Nothing that an application does to its runtime stops
//! it, no future that may be dropped owns a transaction, and the workers' heartbeats are made here.

use super::{
    blames_one, busy,
    desk::Desk,
    files::Files,
    inbox::{Message, Queued, Want, give_back},
    wake::{AFTER_A_COMMIT, Gate, LOOKS},
};
use crate::{
    job::WorkerId,
    store::{Claim, StoreError},
    time::{Clock, NEVER},
};
use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::Ordering,
        mpsc::{Receiver, RecvTimeoutError, Sender},
    },
    thread::{self, Thread},
    time::{Duration, Instant},
};
use tokio::sync::watch;

/// Rows that one transaction writes at most …
const BATCH_ROWS: usize = 10_000;
/// … and how long it takes up new acts, so that the lock is held for less than 50 ms, claims and commit included.
const HOLD: Duration = Duration::from_millis(20);
/// Jobs that one claim is given at most; who wants more asks again.
const CLAIM_ROWS: usize = 2_000;
/// Between commits while others write to the file, so that they get their turn.
const COURTESY: Duration = Duration::from_micros(200);
/// How long at most those who were answered together are waited for, since they tend to come again together.
const PATIENCE: Duration = Duration::from_micros(200);
/// How long a foreign commit counts as "others write to the file".
const COMPANY: Duration = Duration::from_secs(2);
/// How often a commit of others is looked for, and an unanswered claim tried again, whatever the notifications say.
const SAFETY: Duration = Duration::from_millis(500);
/// The same where there are no notifications.
const WITHOUT_WATCH: Duration = Duration::from_millis(20);
/// How long a store that is closed tries to write what it was told before.
const LAST_TRIES: Duration = Duration::from_millis(500);

/// The writing thread's own things.
pub(super) struct Writer {
    pub(super) desk: Desk,
    pub(super) files: Files,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) messages: Receiver<Message>,
    pub(super) myself: Sender<Message>,
    pub(super) changed: watch::Sender<u64>,
    pub(super) gate: Arc<Gate>,
    pub(super) watcher: Option<Thread>,
    pub(super) state: Turns,
}

/// What the writing thread carries from turn to turn.
#[derive(Default)]
pub(super) struct Turns {
    acts: VecDeque<Queued>,
    wants: Vec<Want>,
    beats: Vec<(WorkerId, Duration, Instant)>,
    leaving: Vec<WorkerId>,
    closing: bool,
    /// Rows may have become claimable since the wants were last tried.
    stirred: bool,
    data_version: i64,
    foreign_at: Option<Instant>,
    committed_at: Option<Instant>,
    /// How many acts the last commit answered, and how long it took.
    answered: (usize, Duration),
    /// When the looks after the latest poke began, and how many were made.
    looking: Option<(Instant, usize)>,
    complained_at: Option<Instant>,
    moved: Option<StoreError>,
}

impl Turns {
    fn withdraw(&mut self, worker: WorkerId) {
        for want in self.wants.extract_if(.., |want| want.claim.worker == worker) {
            want.reply.send(Ok(Vec::new())).ok();
        }
    }
}

impl Writer {
    /// Runs until the store is closed.
    pub(super) fn run(mut self) {
        // What was committed before is nobody's news; should the look fail, the first turn says why.
        self.foreign_commit().ok();
        self.state.foreign_at = None;
        loop {
            self.gather();
            self.look_for_foreign_commits();
            self.turn();
            let idle = self.state.acts.is_empty();
            if self.state.closing && idle {
                break;
            }
        }
        for want in self.state.wants.drain(..) {
            want.reply.send(Err(StoreError::Closed)).ok();
        }
    }

    // ---- what is there to do ----------------------------------------------------------------

    /// Waits for a message or a timer, then takes all messages that are there.
    fn gather(&mut self) {
        self.state.wants.retain(|want| !want.reply.is_closed());
        let hungry = self.is_hungry();
        if self.gate.hungry.swap(hungry, Ordering::AcqRel) != hungry
            && let Some(watcher) = self.watcher.as_ref().filter(|_| hungry)
        {
            watcher.unpark();
        }
        if self.state.acts.is_empty()
            && !self.state.closing
            && !self.state.wants.iter().any(|want| want.fresh)
        {
            match self.messages.recv_timeout(self.until_next_timer()) {
                Ok(message) => self.take(message),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => self.state.closing = true,
            }
        }
        self.be_courteous();
        self.take_all();
        self.await_the_same();
    }

    /// Those who were answered together come again together: one commit for them instead of two by halves. A lone
    /// caller waits for nobody.
    fn await_the_same(&mut self) {
        let (answered, took) = self.state.answered;
        let began = Instant::now();
        let patience = PATIENCE.min(took / 2);
        while (1..answered).contains(&self.state.acts.len()) && began.elapsed() < patience {
            thread::yield_now();
            self.take_all();
        }
    }

    fn take_all(&mut self) {
        while let Ok(message) = self.messages.try_recv() {
            self.take(message);
        }
    }

    fn take(&mut self, message: Message) {
        let state = &mut self.state;
        match message {
            Message::Act(act) => state.acts.push_back(act),
            Message::Want(want) => state.wants.push(want),
            Message::Withdraw(worker) => state.withdraw(worker),
            Message::Beat(worker, every) => {
                let every = every.min(NEVER);
                state.beats.push((worker, every, Instant::now() + every));
            }
            Message::Leave(worker) => {
                state.beats.retain(|(beating, ..)| *beating != worker);
                state.withdraw(worker);
                state.leaving.push(worker);
            }
            Message::Poke => {
                self.gate.poked.store(false, Ordering::Release);
                state.looking = Some((Instant::now(), 0));
            }
            Message::Close => state.closing = true,
        }
    }

    fn until_next_timer(&self) -> Duration {
        let now = Instant::now();
        let beat = self.state.beats.iter().map(|(.., next)| *next).min();
        let look = self.state.looking.and_then(|(began, made)| Some(began + *LOOKS.get(made)?));
        let safety =
            self.is_hungry().then(|| now + if self.watcher.is_some() { SAFETY } else { WITHOUT_WATCH });
        let next = [beat, look, safety].into_iter().flatten().min();
        next.map_or(Duration::from_secs(3600), |next| next.saturating_duration_since(now))
    }

    /// While others write to the file, leaves them a gap after each commit; what comes meanwhile joins the batch.
    fn be_courteous(&self) {
        let company = self.state.foreign_at.is_some_and(|at| at.elapsed() < COMPANY);
        if let Some(at) = self.state.committed_at.filter(|_| company) {
            thread::sleep(COURTESY.saturating_sub(at.elapsed()));
        }
    }

    /// Whether commits of other connections are to be heard of.
    fn is_hungry(&self) -> bool {
        !self.state.wants.is_empty() || self.gate.listeners.load(Ordering::Acquire) > 0
    }

    /// Sees whether another connection has committed, which may have brought work for an unanswered claim.
    fn look_for_foreign_commits(&mut self) {
        if !self.is_hungry() {
            self.state.looking = None;
            return;
        }
        if let Some((began, made)) = self.state.looking {
            let made = made + LOOKS[made..].iter().take_while(|at| began.elapsed() >= **at).count();
            self.state.looking = (made < LOOKS.len()).then_some((began, made));
        }
        match self.foreign_commit() {
            // The event may have been of a later commit than the one that is seen: its own is still to come.
            Ok(true) => {
                if let Some((_, made)) = &mut self.state.looking {
                    *made = (*made).max(AFTER_A_COMMIT);
                }
            }
            Ok(false) => {}
            Err(error) => self.complain("the database can't be read", &error),
        }
    }

    fn foreign_commit(&mut self) -> rusqlite::Result<bool> {
        let version = self.desk.db.prepare_cached("PRAGMA data_version")?.query_row([], |row| row.get(0))?;
        let moved = std::mem::replace(&mut self.state.data_version, version) != version;
        if moved {
            self.desk.doubt();
            self.state.stirred = true;
            self.state.foreign_at = Some(Instant::now());
            self.changed.send_modify(|count| *count += 1);
        }
        Ok(moved)
    }

    // ---- one transaction --------------------------------------------------------------------

    fn turn(&mut self) {
        if let Some(moved) = self.state.moved.clone().or_else(|| self.files.check().err()) {
            return self.refuse_all(moved);
        }
        let batch = self.cut_batch();
        if batch.is_empty()
            && !self.beat_is_due()
            && self.state.leaving.is_empty()
            && !self.a_claim_would_find()
        {
            return self.answer_the_impatient();
        }
        if let Some(batch) = self.begin(batch) {
            self.write(batch);
        }
    }

    /// What fits into one transaction, oldest first.
    fn cut_batch(&mut self) -> Vec<Queued> {
        let (mut rows, mut count) = (0, 0);
        for act in &self.state.acts {
            rows += act.rows;
            if count > 0 && rows > BATCH_ROWS {
                break;
            }
            count += 1;
        }
        self.state.acts.drain(..count).collect()
    }

    fn beat_is_due(&self) -> bool {
        let now = Instant::now();
        self.state.beats.iter().any(|(.., next)| *next <= now)
    }

    /// Asks without the write lock whether a claim that is new, or may have got work, would find some.
    fn a_claim_would_find(&mut self) -> bool {
        let stirred = self.state.stirred;
        let (desk, clock) = (&mut self.desk, &self.clock);
        let found = self.state.wants.iter().filter(|want| want.fresh || stirred).any(|want| {
            // A look that fails is no answer; the transaction will say what is wrong.
            let now = if want.fresh { want.now } else { clock.now() };
            desk.has_work(&want.claim.set, now).unwrap_or(true)
        });
        // Where something was found the claims are still to be made, and `stirred` tells for whom.
        self.state.stirred &= found;
        found
    }

    /// Claims that do not stand are answered with nothing; the others have now been tried.
    fn answer_the_impatient(&mut self) {
        for want in self.state.wants.extract_if(.., |want| !want.claim.standing) {
            want.reply.send(Ok(Vec::new())).ok();
        }
        self.state.wants.iter_mut().for_each(|want| want.fresh = false);
    }

    /// Takes the write lock, trying about every millisecond: SQLite's own waiting backs off so far that it starves
    /// beside a busy writer. Acts whose deadline passes are answered `Busy`. `None`: nothing is left to write.
    fn begin(&mut self, mut batch: Vec<Queued>) -> Option<Vec<Queued>> {
        let had_acts = !batch.is_empty();
        let began = Instant::now();
        loop {
            match self.desk.db.prepare_cached("BEGIN IMMEDIATE").and_then(|mut begin| begin.execute([])) {
                Ok(_) => return Some(batch),
                Err(error) if busy(&error) => self.state.foreign_at = Some(Instant::now()),
                Err(error) => {
                    self.complain("the database can't be written", &error);
                    self.fail_all(batch, error.into());
                    return None;
                }
            }
            self.take_all();
            self.expire(&mut batch);
            let nothing_left = batch.is_empty() && self.state.acts.is_empty();
            let given_up = self.state.closing && began.elapsed() > LAST_TRIES;
            if given_up || (nothing_left && had_acts) {
                self.fail(batch, StoreError::Closed);
                return None;
            }
            if began.elapsed() > Duration::from_secs(5) && self.may_complain() {
                let holder = self.files.holder();
                self.complain("the write lock is not to be had", &holder);
            }
            thread::sleep(Duration::from_micros(fastrand::u64(500..1500)));
        }
    }

    fn expire(&mut self, batch: &mut Vec<Queued>) {
        let now = Instant::now();
        let expired = |act: &Queued| act.deadline.is_some_and(|deadline| deadline <= now);
        let mut late: Vec<Queued> = batch.extract_if(.., |act| expired(act)).collect();
        let mut rest = Vec::from(std::mem::take(&mut self.state.acts));
        late.extend(rest.extract_if(.., |act| expired(act)));
        self.state.acts = rest.into();
        if !late.is_empty() {
            let holder = self.files.holder();
            for act in late {
                let waited = act.since.elapsed();
                act.act.answer(Some(StoreError::Busy { waited, holder: holder.clone() }));
            }
        }
    }

    fn write(&mut self, mut batch: Vec<Queued>) {
        match self.fill_and_commit(&mut batch) {
            Ok(()) => {
                self.state.committed_at = Some(Instant::now());
                if let Err(moved) = self.files.check() {
                    self.fail(batch, moved.clone());
                    return self.refuse_all(moved);
                }
                self.deliver(batch);
            }
            Err(error) => {
                self.roll_back();
                if batch.len() > 1 && blames_one(&error) {
                    for act in batch {
                        if let Some(alone) = self.begin(vec![act]) {
                            self.write(alone);
                        }
                    }
                } else if batch.len() == 1 && blames_one(&error) {
                    // Waiting mends it not: the file does not take this act as it is.
                    self.fail(batch, StoreError::Invalid(error.to_string()));
                } else {
                    self.complain("a write failed", &error);
                    self.fail_all(batch, error.into());
                }
            }
        }
    }

    /// Writes as much of the batch as fits into the time; the rest comes first in the next one.
    fn fill_and_commit(&mut self, batch: &mut Vec<Queued>) -> rusqlite::Result<()> {
        let began = Instant::now();
        self.foreign_commit()?;
        self.desk.begin();
        let mut applied = 0;
        while applied < batch.len() && (applied == 0 || began.elapsed() < HOLD) {
            batch[applied].act.apply(&mut self.desk)?;
            applied += 1;
        }
        for rest in batch.drain(applied..).rev() {
            self.state.acts.push_front(rest);
        }
        self.desk.lay()?;
        self.fill_wants()?;
        let due = Instant::now();
        match self.beat(due) {
            // Nobody's act is to blame for it, and the lock on its byte still tells that the worker lives.
            Err(error) if blames_one(&error) => self.complain("workers can't be seen to live", &error),
            beaten => beaten?,
        }
        self.desk.db.prepare_cached("COMMIT")?.execute([])?;
        self.state.answered = (batch.len(), began.elapsed());
        // A beat that fell due during the commit was not made, and comes with the next one.
        for (_, every, next) in self.state.beats.iter_mut().filter(|(.., next)| *next <= due) {
            *next = due + *every;
        }
        for worker in self.state.leaving.drain(..) {
            self.desk.side_car.free(worker.0);
        }
        Ok(())
    }

    /// The standing claims, after everything else of the transaction, so that an enqueue and its claim are one commit.
    fn fill_wants(&mut self) -> rusqlite::Result<()> {
        let stirred = std::mem::take(&mut self.state.stirred) | self.desk.stirred;
        let moment = self.desk.moment;
        for want in self.state.wants.iter_mut().filter(|want| want.fresh || stirred) {
            let now = if want.fresh { want.now } else { moment.unwrap_or_else(|| self.clock.now()) };
            let Claim { worker, set, limit, .. } = &want.claim;
            want.found = Ok(self.desk.claim(*worker, set, CLAIM_ROWS.min(*limit), now)?);
        }
        // What is left to park is looked at with the next turn.
        self.state.stirred = self.desk.unfinished;
        if let Some(damage) = self.desk.damage() {
            self.complain("jobs were left out that can't be claimed", &damage);
        }
        Ok(())
    }

    fn beat(&mut self, due: Instant) -> rusqlite::Result<()> {
        let wall = self.clock.now();
        for (worker, ..) in self.state.beats.iter().filter(|(.., next)| *next <= due) {
            self.desk.beat(*worker, wall)?;
        }
        self.desk.bury(&self.state.leaving, wall)
    }

    // ---- answers ----------------------------------------------------------------------------

    fn deliver(&mut self, batch: Vec<Queued>) {
        for act in batch {
            act.act.answer(None);
        }
        let answered =
            |want: &mut Want| !matches!(&want.found, Ok(found) if found.is_empty() && want.claim.standing);
        for want in self.state.wants.extract_if(.., answered) {
            if let Err(Ok(undelivered)) = want.reply.send(want.found) {
                give_back(&self.myself, undelivered, self.clock.now());
            }
        }
        self.state.wants.iter_mut().for_each(|want| want.fresh = false);
        if self.desk.touched {
            self.changed.send_modify(|count| *count += 1);
        }
        self.state.complained_at = None;
    }

    fn fail(&mut self, batch: Vec<Queued>, error: StoreError) {
        for act in batch {
            act.act.answer(Some(error.clone()));
        }
    }

    /// The database itself is in trouble: whoever waits is told, and may come again later.
    fn fail_all(&mut self, batch: Vec<Queued>, error: StoreError) {
        self.fail(batch, error.clone());
        for want in self.state.wants.drain(..) {
            want.reply.send(Err(error.clone())).ok();
        }
        // A store that fails at once would otherwise be asked again at once.
        thread::sleep(Duration::from_millis(fastrand::u64(5..15)));
    }

    fn refuse_all(&mut self, error: StoreError) {
        let batch = self.state.acts.drain(..).collect();
        self.fail_all(batch, error.clone());
        if self.state.moved.replace(error.clone()).is_none() {
            tracing::error!(%error, "jobq stops writing");
        }
        self.let_go();
    }

    /// No more beats: the workers of this store must not look alive for as long as the process lives.
    fn let_go(&mut self) {
        let beating = self.state.beats.drain(..).map(|(worker, ..)| worker);
        for worker in beating.chain(self.state.leaving.drain(..)) {
            self.desk.side_car.free(worker.0);
        }
    }

    fn roll_back(&mut self) {
        self.desk.undo();
        self.state.stirred = true;
        self.state.wants.iter_mut().for_each(|want| want.found = Ok(Vec::new()));
        // After a full disk or an I/O error SQLite has rolled back already; its complaint then would hide the cause.
        if !self.desk.db.is_autocommit() {
            self.desk.db.execute_batch("ROLLBACK").ok();
        }
    }

    /// Says so in the log, every ten seconds at most.
    fn complain(&mut self, what: &str, why: &dyn std::fmt::Display) {
        if self.may_complain() {
            self.state.complained_at = Some(Instant::now());
            tracing::warn!(database = %self.files.path.display(), "{what}: {why}");
        }
    }

    fn may_complain(&self) -> bool {
        self.state.complained_at.is_none_or(|at| at.elapsed() > Duration::from_secs(10))
    }
}

/// However the thread ends, by a panic of the program's own clock too: nobody beats any more, so nobody is to look alive.
impl Drop for Writer {
    fn drop(&mut self) {
        self.gate.closed.store(true, Ordering::Release);
        self.let_go();
    }
}
