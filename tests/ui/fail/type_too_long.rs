use jobq::prelude::*;

#[job(type = "a_name_that_goes_on_and_on_until_it_has_more_than_sixty_four_bytes")]
async fn sweep() {}

fn main() {}
