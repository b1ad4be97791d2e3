//! The contract: what a flow does on any broker with any ledger.
//!
//! Every adapter passes the same scenarios with the same assertions. They are written against the engine's ports and
//! its [`Flow`](redrive_engine::Flow) alone, so that the next adapter only plugs in: it implements [`Fixture`] and
//! writes `testkit::contract_tests!(its fixture)`, which makes one test of each scenario.
//!
//! Three habits keep the suite true on every store:
//! - What the ledger shows is awaited ([`eventually`]), never read at once: it may be a projection.
//! - Time is counted in [ticks](Fixture::tick), and no assertion says that something was quick.
//! - What an adapter cannot do is skipped by its [`Capabilities`]; the scenario says so, and the summary of a run names it.

#![expect(clippy::missing_panics_doc, reason = "a scenario that fails panics; that is how a test says so")]

pub mod apart;
pub mod blocking;
pub mod breaking;
pub mod budgets;
pub mod bytes;
pub mod classes;
pub mod clocks;
pub mod controls;
pub mod deeds;
pub mod exits;
mod fixture;
pub mod following;
pub mod forwarding;
pub mod guards;
pub mod headers;
pub mod histories;
pub mod hooks;
pub mod lanes;
pub mod layers;
pub mod ledger;
pub mod once;
pub mod orders;
pub mod publishing;
pub mod replays;
mod stage;
pub mod stopping;
mod tests;
pub mod unseen;
pub mod verdicts;

pub use fixture::{Fixture, Ports, eventually};
pub use stage::Stage;

#[doc(no_inline)]
pub use redrive_engine::port::Capabilities;

/// Says that a scenario does not apply to an adapter. The summary of `cargo xtask test` names it, so that a skip is seen.
pub fn not_applicable(scenario: &str, why: &str) {
    crate::services::does_not_apply(scenario, why);
}

/// Whether nobody keeps order here: then scenarios about it do not apply.
fn no_lanes(fixture: &impl Fixture) -> bool {
    let none = !fixture.capabilities().lanes;
    if none {
        not_applicable("lanes", "the ledger keeps none");
    }
    none
}
