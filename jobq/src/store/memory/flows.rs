//! Flows in memory: what their rules ask of the store.

use super::tables::Tables;
use crate::{
    job::{FlowId, JobId, NewJob},
    state::JobState,
    store::{
        FlowRow, NewFlow,
        flows::{self, End, Flow, Flows, Member},
    },
    time::Millis,
};
use std::{collections::BTreeMap, convert::Infallible};

/// How long a flow that has ended is known without any job of it.
const DAY: Millis = 86_400_000;

/// All flows, and the parts that jobs have in them, by their rows.
#[derive(Default)]
pub(super) struct FlowTables {
    flows: BTreeMap<i64, (Flow, Millis)>,
    members: BTreeMap<i64, (i64, Option<String>)>,
    last: i64,
}

impl FlowTables {
    /// A job is gone.
    pub(super) fn forget(&mut self, job: i64) {
        self.members.remove(&job);
    }

    /// Flows that ended a day ago, and have neither a job nor a flow inside, go.
    pub(super) fn forget_the_ended(&mut self, now: Millis) {
        let held = |flow: i64| {
            self.members.values().any(|member| member.0 == flow)
                || self.flows.values().any(|(other, _)| other.parent == Some(flow))
        };
        let ended = self
            .flows
            .iter()
            .filter(|(row, (flow, _))| flow.joined_at.is_some_and(|at| at <= now - DAY) && !held(**row));
        let ended: Vec<i64> = ended.map(|(row, _)| *row).collect();
        ended.iter().for_each(|row| drop(self.flows.remove(row)));
    }
}

/// The rules can't fail here.
fn done<T>(answer: Result<T, Infallible>) -> T {
    match answer {
        Ok(done) => done,
    }
}

impl Tables {
    pub(super) fn lay_flow(&mut self, new: NewFlow, now: Millis) -> (i64, Vec<JobId>) {
        done(flows::lay(self, new, None, now))
    }

    /// What follows from the end of a job that may be one of a flow; nothing where it has not ended.
    pub(super) fn flow_on(&mut self, id: JobId, now: Millis) {
        let Some((end, output)) = self.get(id).and_then(|job| Some((End::of(job.state)?, job.result))) else {
            return;
        };
        done(flows::ended(self, id.row(), end, output.as_deref(), now));
    }

    pub(super) fn flow_back(&mut self, id: JobId, was: JobState) {
        done(flows::retried(self, id.row(), was));
    }

    pub(super) fn flow_row(&self, id: FlowId) -> Option<FlowRow> {
        let row = id.row();
        let (flow, created_at) = self.flows.flows.get(&row).filter(|_| id.is_of(self.tag))?;
        let states = || {
            let jobs = self.flows.members.iter().filter(move |(_, member)| member.0 == row);
            jobs.filter_map(|(job, _)| self.state_of(*job))
        };
        let within = self.flows.flows.values().filter(|(flow, _)| flow.parent == Some(row));
        let within = within.filter(|(flow, _)| flow.joined_at.is_none()).count();
        Some(FlowRow {
            id,
            total: flow.total,
            outcome: flow.outcome,
            live: (states().filter(|state| !state.is_terminal()).count() + within) as u64,
            dead: states().filter(|state| *state == JobState::Dead).count() as u64,
            parent: flow.parent.map(|parent| FlowId::compose(parent, self.tag)),
            follow: flows::first(flow.follow.as_deref()),
            created_at: *created_at,
            joined_at: flow.joined_at,
        })
    }
}

impl Flows for Tables {
    type Error = Infallible;

    fn member(&mut self, job: i64) -> Result<Option<Member>, Infallible> {
        let member = self.flows.members.get(&job);
        Ok(member.map(|(flow, links)| Member { flow: *flow, links: links.clone() }))
    }

    fn pass(&mut self, job: i64) -> Result<(), Infallible> {
        if let Some((_, links)) = self.flows.members.get_mut(&job) {
            *links = Some(String::new());
        }
        Ok(())
    }

    fn lay(
        &mut self,
        jobs: Vec<(NewJob, Option<String>)>,
        flow: i64,
        now: Millis,
    ) -> Result<Vec<JobId>, Infallible> {
        let mut ids = Vec::with_capacity(jobs.len());
        for (job, links) in jobs {
            let id = self.insert(job, now);
            self.join(id, FlowId::compose(flow, self.tag));
            self.flows.members.insert(id.row(), (flow, links));
            ids.push(id);
        }
        Ok(ids)
    }

    fn found(&mut self, flow: &Flow, now: Millis) -> Result<i64, Infallible> {
        self.flows.last += 1;
        self.flows.flows.insert(self.flows.last, (flow.clone(), now));
        Ok(self.flows.last)
    }

    fn flow(&mut self, flow: i64) -> Result<Option<Flow>, Infallible> {
        Ok(self.flows.flows.get(&flow).map(|(flow, _)| flow.clone()))
    }

    fn keep(&mut self, row: i64, flow: &Flow) -> Result<(), Infallible> {
        if let Some((kept, _)) = self.flows.flows.get_mut(&row) {
            *kept = flow.clone();
        }
        Ok(())
    }
}
