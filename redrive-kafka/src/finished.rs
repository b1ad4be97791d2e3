//! How far the flow is in its delay topics.
//!
//! Where roles run apart, the retry group passes records of several hops and leaves them to the delay group, which passes
//! all others: what waits is what one of the two has not passed.

use redrive_engine::port::PortError;

use crate::look::{self, Look};
use crate::position::Position;

/// What of each partition of a delay topic nobody waits for any more; nothing where nobody has begun. Blocks.
pub(crate) fn of_waiting(
    look: &Look,
    topic: &str,
    partitions: i32,
) -> Result<Vec<Option<Position>>, PortError> {
    let groups = &look.flow().groups;
    let committed =
        |group: &str| look.ask_here(group, |consumer| look::committed(consumer, topic, partitions));
    // The delay group is asked first: what it has moved since was not passed by the retry group in its new place.
    let (delay, retry) = (committed(&groups.delay)?, committed(&groups.retry)?);
    let both = |(retry, delay): (Option<Position>, Option<Position>)| match (retry, delay) {
        (Some(retry), Some(delay)) => Some(retry.and(&delay)),
        (retry, None) => retry,
        // It has taken over from a retry group that had not begun either.
        (None, Some(_)) => None,
    };
    Ok(retry.into_iter().zip(delay).map(both).collect())
}
