use jobq::prelude::*;

#[job(cron = "@daily")]
async fn clean_up(ctx: &JobContext, days: u32) {
    println!("{}: {days}", ctx.id());
}

fn main() {}
