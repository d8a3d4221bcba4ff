use jobq::prelude::*;

#[job]
async fn a_function_whose_name_goes_on_and_on_until_it_has_more_than_sixty_four_bytes() {}

fn main() {}
