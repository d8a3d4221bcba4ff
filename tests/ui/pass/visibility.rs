//! The payload and its fields are seen as far as the function, and no further.
#![deny(warnings)]

mod jobs {
    use jobq::prelude::*;

    #[job]
    pub async fn everywhere(n: u8) {
        let _ = n;
    }

    pub mod inner {
        use jobq::prelude::*;

        #[job]
        pub(crate) async fn in_the_crate(n: u8) {
            let _ = n;
        }

        #[job]
        pub(super) async fn above(n: u8) {
            let _ = n;
        }

        #[job]
        pub(in crate::jobs) async fn in_a_path(n: u8) {
            let _ = n;
        }

        #[job]
        async fn here(n: u8) {
            let _ = n;
        }

        pub(super) fn from_here() -> u8 {
            let _ = here.enqueue(1);
            Here { n: 1 }.n
        }
    }

    pub fn above() {
        let _ = (inner::above.enqueue(1), inner::Above { n: 1 });
        let _ = (inner::in_a_path.enqueue(1), inner::InAPath { n: 1 });
        let _ = inner::from_here();
    }
}

fn main() {
    use jobq::prelude::*;
    let _ = (jobs::everywhere.enqueue(1), jobs::Everywhere { n: 1 });
    let _ = (jobs::inner::in_the_crate.enqueue(1), jobs::inner::InTheCrate { n: 1 });
    jobs::above();
}
