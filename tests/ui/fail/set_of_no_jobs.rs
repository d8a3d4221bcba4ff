//! A worker's set is of job functions: one, or a tuple.

use jobq::prelude::*;

async fn plain(to: String) -> Result<(), JobError> {
    drop(to);
    Ok(())
}

#[job]
async fn mail(to: String) -> Result<(), JobError> {
    drop(to);
    Ok(())
}

fn of_names(queue: &JobQueue) {
    drop(Worker::new(queue).jobs("mail"));
}

fn of_an_array(queue: &JobQueue) {
    drop(Worker::new(queue).jobs([mail]));
}

fn of_a_plain_function(queue: &JobQueue) {
    drop(Worker::new(queue).jobs((mail, plain)));
}

fn main() {}
