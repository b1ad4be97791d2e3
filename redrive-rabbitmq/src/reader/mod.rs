//! Reading: one channel at a time, whose deliveries are known by its epoch.

mod book;
mod carver;
mod opening;
mod place;
mod pump;
mod session;
mod source;
mod taking;

pub(crate) use carver::Carver;
pub(crate) use place::others_read;
pub(crate) use pump::{Reader, Reading, Sight};
pub(crate) use session::{NotReleased, Session};
pub(crate) use source::RabbitSource;
