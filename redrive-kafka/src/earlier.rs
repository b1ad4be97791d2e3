//! Messages that wait by a schedule or a delay mode that the flow does not have any more.
//!
//! A level is a topic, so another schedule means other topics. Nobody would read what waits in those of the old one: they
//! are found by their names, and read like the others until nothing is left in them.

use std::sync::Arc;

use redrive_engine::port::PortError;

use crate::look::{self, Look};
use crate::options::Role;

/// Looks for topics of earlier schedules in which something waits, and has them read too.
pub(crate) async fn read_also(look: &Arc<Look>, topics: &[String]) -> Result<(), PortError> {
    let found = look.delays().of_earlier(look.flow(), topics.iter().map(String::as_str));
    if found.is_empty() {
        return Ok(());
    }
    // Each group has its own part of a topic, and may be done with it before the other is.
    let groups = &look.flow().groups;
    let group = if look.flow().role == Role::Delay { &groups.delay } else { &groups.retry };
    let waiting = look
        .ask_as(group.clone(), move |consumer| {
            let mut waiting = Vec::new();
            for (topic, level) in found {
                let Some(shape) = look::shape(consumer, &topic)? else { continue };
                let mut begun = false;
                let mut left = false;
                for (partition, position) in (0..).zip(look::committed(consumer, &topic, shape.partitions)?) {
                    let Some((low, end)) = look::ends(consumer, &topic, partition)? else { continue };
                    begun |= position.is_some();
                    left |= position.map_or(low, |position| position.lowest.max(low)) < end;
                }
                // A topic without a level in its name may be another system's: it is ours when our group has read it.
                if left && (level.is_some() || begun) {
                    waiting.push((topic, level));
                }
            }
            Ok(waiting)
        })
        .await?;
    for (topic, _) in &waiting {
        let flow = &*look.flow().flow;
        tracing::info!(flow, topic = &**topic, "messages wait by an earlier schedule; they are read too");
    }
    look.delays().read_also(waiting);
    Ok(())
}
