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
mod header_rules;
mod lane;
mod ledger;
mod record;
mod replay;
mod settlement;

pub use audit::{Actor, AuditLine};
pub use broker::{
    Broker, BrokerAlarm, Capabilities, Depth, NewMessage, Published, QueueInfo, Resolved, Revoked, Room,
    Settled, Shelved, Shelves, Source, SourceRange, Subscription, Topology, Whereabouts,
};
pub use clock::{Clock, SystemClock};
pub use control::{Control, ControlKind, Order, Quarantine, QuarantineError};
pub use delivery::{Carried, Delivery, DeliveryParts, SourceRef, Tag};
pub use entry::{
    Counts, Entry, EntryId, EntryState, ErrorShown, Group, HistoryLine, MessageShown, Payload, SafeToReplay,
    SourceShown, StateCount,
};
pub use error::{PortError, Refusal};
pub use filter::{Cursor, Filter, Found, Page};
pub use header_rules::{Doubt, HeaderRules};
pub use lane::{Asked, LaneName, ReadAt, Standing};
pub use ledger::{
    BODY_AT, Copied, Deed, DeedReport, Expected, Fetched, Keeper, Learned, Ledger, Overdue, Pointer, Problem,
    REROUTE_TO, Recorded, Retention, Selection, Taken, home_of,
};
pub use record::{AttemptRecord, HeldRecord, Record, SucceededRecord};
pub use replay::{NewReplay, Replay, ReplayItem, ReplayOutcome, ReplayPlan, ReplayState, ReplayStep};
pub use settlement::{Outcome, Settlement};
