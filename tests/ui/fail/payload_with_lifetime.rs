use jobq::prelude::*;

use std::borrow::Cow;

#[job]
async fn send(email: Cow<'_, str>) {
    let _ = email;
}

fn main() {}
