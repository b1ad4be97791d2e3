//! Which waiting copies the flow's readers have passed.

use std::collections::HashMap;
use std::sync::Arc;

use redrive_engine::port::{PortError, SourceRef};

use crate::finished;
use crate::look::{self, Look};
use crate::position::Position;
use crate::record::KIND;

/// Whether each of these copies was handed out and settled, or is gone: by what the flow's groups have committed.
pub(crate) async fn passed(look: &Arc<Look>, copies: &[SourceRef]) -> Result<Vec<bool>, PortError> {
    let delays = look.delays();
    let waits = |copy: &SourceRef| &*copy.kind == KIND && delays.waits_in(&copy.name);
    let copies: Vec<Option<SourceRef>> =
        copies.iter().map(|copy| Some(copy.clone()).filter(|copy| waits(copy))).collect();
    if copies.iter().all(Option::is_none) {
        return Ok(vec![false; copies.len()]);
    }
    let inner = Arc::clone(look);
    look.ask(move |consumer| {
        let mut topics: HashMap<Arc<str>, Vec<Option<Position>>> = HashMap::new();
        let mut lows: HashMap<(Arc<str>, i32), i64> = HashMap::new();
        let mut answers = Vec::with_capacity(copies.len());
        for copy in copies {
            let place = copy.and_then(|copy| Some((copy.name, copy.partition?, copy.offset?)));
            let Some((topic, partition, offset)) = place else {
                answers.push(false);
                continue;
            };
            if !topics.contains_key(&topic) {
                let partitions = look::shape(consumer, &topic)?.map_or(0, |shape| shape.partitions);
                let committed = match partitions {
                    0 => Vec::new(),
                    partitions => finished::of_waiting(&inner, &topic, partitions)?,
                };
                topics.insert(Arc::clone(&topic), committed);
            }
            let committed = topics.get(&topic).map(Vec::as_slice).unwrap_or_default();
            let Some(position) = usize::try_from(partition).ok().and_then(|place| committed.get(place))
            else {
                // The topic, or the partition, is gone, and the copy with it.
                answers.push(true);
                continue;
            };
            if position.as_ref().is_some_and(|position| position.is_behind(offset)) {
                answers.push(true);
                continue;
            }
            let key = (topic, partition);
            let low = match lows.get(&key) {
                Some(low) => *low,
                None => {
                    let low = look::ends(consumer, &key.0, partition)?.map_or(i64::MAX, |(low, _)| low);
                    lows.insert(key, low);
                    low
                }
            };
            answers.push(offset < low);
        }
        Ok(answers)
    })
    .await
}

#[cfg(test)]
mod tests;
