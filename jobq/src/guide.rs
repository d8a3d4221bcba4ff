//! The guide: one chapter for each thing that jobs can do, each with an example that is compiled and run.

#[doc = include_str!("guide/context.md")]
pub mod context {}
#[doc = include_str!("guide/outcomes.md")]
pub mod outcomes {}
#[doc = include_str!("guide/results.md")]
pub mod results {}
#[doc = include_str!("guide/stopping.md")]
pub mod stopping {}
#[doc = include_str!("guide/unique.md")]
pub mod unique {}
#[doc = include_str!("guide/limits.md")]
pub mod limits {}
#[doc = include_str!("guide/cron.md")]
pub mod cron {}
#[doc = include_str!("guide/events.md")]
pub mod events {}
#[doc = include_str!("guide/flows.md")]
pub mod flows {}
#[doc = include_str!("guide/transactions.md")]
pub mod transactions {}
#[doc = include_str!("guide/secrets.md")]
pub mod secrets {}
#[doc = include_str!("guide/versions.md")]
#[expect(clippy::test_attr_in_doctest, reason = "the test is what the chapter shows")]
pub mod versions {}
#[doc = include_str!("guide/schema.md")]
pub mod schema {}
#[doc = include_str!("guide/testing.md")]
pub mod testing {}
