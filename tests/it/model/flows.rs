//! Flows in the model test: what is drawn for them, and how both stores are told.

use super::{
    op::{Spec, TYPES, spec},
    pair::{Compared, Pair, alike, new_job},
};
use fastrand::Rng;
use jobq::{
    FlowId,
    job::NewJob,
    store::{FlowRow, LaidFlow, Link, NewFlow, StoreError, Strand},
};

/// How a strand starts, and the links after that.
type Start = (Spec, Vec<(usize, bool)>);

/// A flow to be laid; its links by their types, and whether each is for every element of the output.
#[derive(Clone, Debug)]
pub struct Drawn {
    pub strands: Vec<Start>,
    pub follow: Vec<(usize, bool)>,
    /// The last strands are a flow within it.
    pub within: usize,
}

pub fn drawn(random: &mut Rng) -> Drawn {
    let links = |random: &mut Rng| -> Vec<(usize, bool)> {
        (0..random.usize(0..3)).map(|_| (random.usize(..TYPES.len()), random.u8(..4) == 0)).collect()
    };
    let strands = (0..random.usize(0..4)).map(|_| (Spec { unique: None, ..spec(random) }, links(random)));
    let strands: Vec<_> = strands.collect();
    Drawn { within: random.usize(0..=strands.len()), strands, follow: links(random) }
}

fn link(&(job_type, each): &(usize, bool)) -> Link {
    Link {
        job_type: TYPES[job_type].into(),
        queue: "default".into(),
        priority: 0,
        max_attempts: 2,
        timeout: None,
        backoff: None,
        retain: None,
        label: None,
        version: 1,
        delay: None,
        each,
    }
}

impl Pair {
    pub(super) async fn lay_flow(&mut self, drawn: &Drawn) -> Compared {
        let count = self.jobs.len();
        let strand = |(at, (spec, links)): (usize, &Start)| {
            let job: NewJob = new_job(spec, count + at, self.now);
            Strand::Job(Box::new(job), links.iter().map(link).collect())
        };
        let mut strands: Vec<_> = drawn.strands.iter().enumerate().map(strand).collect();
        let within = strands.split_off(strands.len() - drawn.within.min(strands.len()));
        strands.push(Strand::Flow(NewFlow { strands: within, follow: Vec::new() }));
        let flow = NewFlow { strands, follow: drawn.follow.iter().map(link).collect() };
        let [model, other] = self.stores();
        let (model, other) =
            (model.enqueue_flow(flow.clone(), self.now).await, other.enqueue_flow(flow, self.now).await);
        if let (Ok(LaidFlow { jobs, .. }), Ok(LaidFlow { jobs: others, .. })) = (&model, &other) {
            for (model, other) in jobs.iter().zip(others) {
                self.place(*model, *other);
            }
        }
        let named = |laid: Result<LaidFlow, StoreError>| laid.map(|laid| (number(laid.id), laid.jobs.len()));
        if let (Ok(model), Ok(other)) = (&model, &other) {
            self.flows.push((model.id, other.id));
        }
        alike(named(model), named(other))?;
        self.meet_the_new().await
    }

    pub(super) async fn look_at_flows(&self) -> Compared {
        let [model, other] = self.stores();
        for (one, two) in &self.flows {
            let (one, two) = (model.flow(*one).await, other.flow(*two).await);
            alike(one.map(|row| row.map(nameless)), two.map(|row| row.map(nameless)))?;
        }
        Ok(())
    }
}

/// Both stores number their flows alike.
pub fn number(flow: FlowId) -> u128 {
    let text = flow.to_string().replace('-', "");
    u128::from_str_radix(&text, 16).expect("a UUID") >> 26
}

fn nameless(row: FlowRow) -> (u128, Option<u128>, FlowRow) {
    let none = "00000000-0000-8000-8000-000000000000".parse().unwrap();
    (number(row.id), row.parent.map(number), FlowRow { id: none, parent: None, ..row })
}
