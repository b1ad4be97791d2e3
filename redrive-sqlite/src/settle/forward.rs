//! Messages that go on in another queue.

use bytes::Bytes;
use redrive_engine::port::{Delivery, PortError, REROUTE_TO, Refusal};

use crate::codec;
use crate::fault::Done;
use crate::publish::{self, Insert, NewRow};
use crate::tx::Tx;

/// The number of a queue that takes one more message of this size.
pub(crate) fn open_target(tx: &mut Tx<'_>, target: &str, size: usize) -> Done<Result<u32, Refusal>> {
    let queue = match tx.queue(target) {
        Ok(queue) => queue,
        Err(crate::fault::Fault::Port(PortError::Refused(refusal))) => return Ok(Err(refusal)),
        Err(fault) => return Err(fault),
    };
    let meta = tx.meta(queue)?;
    Ok(publish::too_much(tx, target, meta, size).map_or(Ok(queue), Err))
}

/// Sends a message to another queue as a fresh one. It keeps its id when that is free there. `on_to` is the address of a
/// broker apart, when it only lies here until it is sent there.
pub(crate) fn forward(tx: &mut Tx<'_>, queue: u32, delivery: &Delivery, on_to: Option<&str>) -> Done<String> {
    let message = &delivery.message;
    let twin = tx.meta(queue)?.home;
    let mut all = message.headers.clone();
    tx.rules(delivery.tag.stream).clear(&mut all);
    if let Some(target) = on_to {
        all.remove(REROUTE_TO);
        all.push(REROUTE_TO, Bytes::copy_from_slice(target.as_bytes()));
    }
    let blob = codec::encode(&all);
    let mut id = message.id.to_string();
    let mut insert = Insert::new(tx)?;
    loop {
        let row = NewRow {
            mid: &id,
            due: Some(0),
            key: message.key.as_deref(),
            body: message.body.as_deref(),
            headers: blob.as_deref(),
            content_type: message.content_type.as_deref(),
            parent: None,
            twin,
        };
        if insert.row(tx, queue, &row)?.is_some() {
            return Ok(id);
        }
        id = tx.mint().hyphenated().to_string();
    }
}
