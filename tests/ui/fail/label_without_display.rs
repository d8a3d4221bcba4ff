use jobq::prelude::*;

#[job(label = "Mail to {emails}")]
async fn send(emails: Vec<String>) {
    let _ = emails;
}

fn main() {}
