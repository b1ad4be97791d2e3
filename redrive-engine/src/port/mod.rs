//! What the engine asks of the outside: a broker, a ledger, a clock.
//!
//! The invariant "never release the original before its copy is durably accepted" lives inside
//! [`Broker::settle`] and nowhere else.

mod audit;
mod broker;
mod clock;
mod control;
mod delivery;
mod entry;
mod error;
mod filter;
mod lane;
mod ledger;
mod record;
mod replay;
mod settlement;

pub use audit::{Actor, AuditLine};
pub use broker::{
    Broker, Capabilities, Depth, NewMessage, Published, QueueInfo, Room, Source, Subscription, Topology,
};
pub use clock::{Clock, SystemClock};
pub use control::{Control, ControlKind, Order, Quarantine, QuarantineError};
pub use delivery::{Carried, Delivery, SourceRef, Tag};
pub use entry::{
    Counts, Entry, EntryId, EntryState, ErrorShown, Group, HistoryLine, MessageShown, Payload, SafeToReplay,
    SourceShown, StateCount,
};
pub use error::{PortError, Refusal};
pub use filter::{Cursor, Filter, Found, Page};
pub use lane::{Asked, LaneName, Standing};
pub use ledger::{Deed, DeedReport, Ledger, Problem, Retention, Selection};
pub use record::{AttemptRecord, HeldRecord, Record};
pub use replay::{NewReplay, Replay, ReplayItem, ReplayOutcome, ReplayPlan, ReplayState, ReplayStep};
pub use settlement::{Outcome, Settlement};
