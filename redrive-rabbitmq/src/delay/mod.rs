//! Where messages wait, and the way of a due time through queues of constant time to live.

mod levels;
mod plan;

pub(crate) use levels::{begins_with, follows, stay as level_stay};
pub(crate) use plan::Delays;
