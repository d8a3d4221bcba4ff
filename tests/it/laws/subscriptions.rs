//! What programs say of the events that their jobs follow from.

use super::{ground::*, on_every_store};
use jobq::{store::Subscribed, time::Millis};

on_every_store![what_a_program_says_takes_the_place_of_what_it_said_and_others_keep_theirs];

async fn say(g: &Ground, program: &str, follows: &[(&str, &str)], now: Millis) {
    let follows = follows.iter().map(|(event, job_type)| (event.to_string(), job_type.to_string()));
    g.store.subscribe(program.into(), follows.collect(), now).await.unwrap();
}

async fn said(g: &Ground) -> Vec<(String, String, String, Millis)> {
    let all = g.store.subscriptions().await.unwrap().into_iter();
    all.map(|Subscribed { event, job_type, program, seen_at }| (event, job_type, program, seen_at)).collect()
}

fn row(event: &str, job_type: &str, program: &str, seen_at: Millis) -> (String, String, String, Millis) {
    (event.into(), job_type.into(), program.into(), seen_at)
}

async fn what_a_program_says_takes_the_place_of_what_it_said_and_others_keep_theirs(g: &Ground) {
    assert_eq!(said(g).await, []);
    say(g, "web", &[("paid", "ship"), ("joined", "greet"), ("joined", "bill")], NOW).await;
    say(g, "back", &[("joined", "bill")], NOW + 1).await;
    let expected = [
        row("joined", "bill", "back", NOW + 1),
        row("joined", "bill", "web", NOW),
        row("joined", "greet", "web", NOW),
        row("paid", "ship", "web", NOW),
    ];
    assert_eq!(said(g).await, expected, "by event, job type and program");
    say(g, "web", &[("joined", "greet")], NOW + 2).await;
    assert_eq!(said(g).await, [expected[0].clone(), row("joined", "greet", "web", NOW + 2)]);
    say(g, "back", &[], NOW + 3).await;
    say(g, "web", &[], NOW + 3).await;
    assert_eq!(said(g).await, []);
}
