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
    let groups = &look.flow().groups;
    let topics: Vec<Arc<str>> = found.iter().map(|(topic, _)| Arc::clone(topic)).collect();
    // Each group has its own part of a topic, and may be done with it before the other is. What is left to the delay group
    // comes to the retry group in the end, by this topic or another.
    let to_delay = left_to(look, &groups.delay, topics.clone()).await?;
    let to_retry = match look.flow().role {
        Role::Delay => vec![Left::Unread; found.len()],
        _ => left_to(look, &groups.retry, topics).await?,
    };
    let delays = look.flow().role == Role::Delay;
    let waiting: Vec<_> = found
        .into_iter()
        .zip(to_delay.into_iter().zip(to_retry))
        .filter(|((_, level), (to_delay, to_retry))| {
            // A topic without a level in its name may be another system's: it is ours when our group has read it.
            let unread = |left: &Left| *left == Left::Unread && level.is_some();
            *to_delay == Left::Some
                || if delays { unread(to_delay) } else { *to_retry == Left::Some || unread(to_retry) }
        })
        .map(|(topic, _)| topic)
        .collect();
    for (topic, _) in &waiting {
        let flow = &*look.flow().flow;
        tracing::info!(flow, topic = &**topic, "messages wait by an earlier schedule; they are read too");
    }
    look.delays().read_also(waiting);
    Ok(())
}

/// What a group has to do in a topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Left {
    /// Nothing.
    Nothing,
    /// What lies behind its positions.
    Some,
    /// All that lies there: it has no position.
    Unread,
}

async fn left_to(look: &Arc<Look>, group: &str, topics: Vec<Arc<str>>) -> Result<Vec<Left>, PortError> {
    look.ask_as(group.to_owned(), move |consumer| {
        let mut all = Vec::with_capacity(topics.len());
        for topic in &topics {
            let (mut begun, mut behind, mut unread) = (false, false, false);
            let partitions = look::shape(consumer, topic)?.map_or(0, |shape| shape.partitions);
            for (partition, position) in (0..).zip(look::committed(consumer, topic, partitions)?) {
                let Some((low, end)) = look::ends(consumer, topic, partition)? else { continue };
                begun |= position.is_some();
                match position {
                    Some(position) => behind |= position.lowest.max(low) < end,
                    None => unread |= low < end,
                }
            }
            all.push(match (begun, behind || unread) {
                (_, false) => Left::Nothing,
                (true, true) => Left::Some,
                (false, true) => Left::Unread,
            });
        }
        Ok(all)
    })
    .await
}
