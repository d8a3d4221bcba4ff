//! Nothing that a user names breaks what is written for a job.
#![deny(warnings)]
#![allow(dead_code, unused_macros)]

mod shadows {
    use ::jobq::job;

    mod jobq {}
    mod serde {}
    mod std {}
    mod core {}
    mod inventory {}
    struct String;
    struct Box;
    struct Duration;
    struct Formatter;
    struct Defaults;
    struct JobEntry;
    enum Option {
        Some,
        None,
    }
    trait Debug {}
    trait Serialize {}
    trait Deserialize {}
    macro_rules! format {
        () => {};
    }
    macro_rules! line {
        () => {};
    }
    type Outcome = Result<(), ::jobq::JobError>;
    const X: u8 = 1;

    #[job(label = "of {ctx}", queue = "q", timeout = "1s", retain = "1d", max_attempts = 2, backoff = fixed("1s"))]
    pub async fn text(ctx: u8, job: u8, lent: u8, text: u8, f: u8) -> Outcome {
        let _ = (ctx, job, lent, text, f);
        Ok(())
    }
}

mod a {
    pub mod run {
        use jobq::prelude::*;

        #[job(type = "a:run")]
        pub async fn run(run: u8) -> Result<u8, JobError> {
            Ok(run)
        }
    }
}

use jobq::prelude::*;

/// One name for the function, a parameter, a module and a local.
#[job(payload = Mine)]
async fn fetch(fetch: u8) -> Result<u8, JobError> {
    let run = a::run::run(fetch).await?;
    Ok(run)
}

/// Calls itself, enqueues itself.
#[job]
async fn again(n: u8) -> Result<u8, JobError> {
    let later = again.enqueue(n).priority(1);
    drop(later);
    if n == 0 { Ok(0) } else { again(n - 1).await }
}

/// A local job, within a function.
fn local() {
    #[job]
    async fn local(n: u8) {
        let _ = n;
    }
    let _ = (local.enqueue(1), Local { n: 1 });
}

macro_rules! jobs {
    ($($name:ident($($field:ident: $ty:ty),*);)*) => { $(
        #[job]
        async fn $name($($field: $ty),*) {
            $(let _ = $field;)*
        }
    )* };
}
jobs! {
    one(n: Vec<u8>);
    two(a: u8, b: Option<String>);
}

async fn user() -> Result<(), JobError> {
    let fetch = fetch(1).await?;
    let again = again(fetch).await?;
    let _ = (again, one.enqueue(vec![]), two.enqueue((1, None)), shadows::text.enqueue((1, 2, 3, 4, 5)));
    Ok(())
}

fn main() {
    local();
    drop(user());
}
