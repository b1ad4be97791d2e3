//! Bodies that a ledger left to a broker, brought home.

use crate::port::{Broker, Fetched, Ledger, Pointer, PortError};

/// Bodies that are in hand at once, and their bytes; one that is larger is fetched alone.
const AT_ONCE: usize = 100;
const BYTES: u64 = 8 << 20;

/// Fetches the bodies of these entries from their broker and keeps them in the ledger, durably. What is gone there is noted
/// as gone; what cannot be read now is an error, and the rest of them is left as it is.
pub async fn bring_bodies(
    ledger: &dyn Ledger,
    broker: &dyn Broker,
    pointers: &[Pointer],
) -> Result<(), PortError> {
    let mut rest = pointers;
    while !rest.is_empty() {
        let (now, later) = rest.split_at(portion(rest));
        let places: Vec<_> = now.iter().map(|pointer| pointer.place.clone()).collect();
        let found = broker.fetch_all(&places).await?;
        let fetched = now.iter().zip(found).map(|(pointer, message)| Fetched {
            entry: pointer.entry,
            place: pointer.place.clone(),
            body: message.and_then(|message| message.body),
        });
        let gone = ledger.keep_bodies(fetched.collect()).await?;
        if let Some(first) = now.first().filter(|_| gone > 0) {
            let flow = first.flow.as_str();
            tracing::warn!(flow, bodies = gone, "bodies are gone where the ledger left them");
        }
        rest = later;
    }
    Ok(())
}

/// How many of these are fetched at once: at least one.
fn portion(pointers: &[Pointer]) -> usize {
    let mut bytes = 0_u64;
    let fit = pointers.iter().take(AT_ONCE).take_while(|pointer| {
        bytes = bytes.saturating_add(pointer.size);
        bytes <= BYTES
    });
    fit.count().max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::port::{EntryId, SourceRef};

    fn of_size(size: u64) -> Pointer {
        let place = SourceRef { kind: "kafka".into(), name: "t".into(), partition: Some(0), offset: Some(1) };
        Pointer { entry: EntryId::nil(), flow: "orders".to_owned(), place, size }
    }

    #[test]
    fn what_is_fetched_at_once_is_bounded_by_number_and_size_and_is_never_nothing() {
        assert_eq!(portion(&vec![of_size(10); 500]), AT_ONCE);
        assert_eq!(portion(&vec![of_size(BYTES / 2); 5]), 2);
        assert_eq!(portion(&[of_size(BYTES * 2), of_size(1)]), 1);
        assert_eq!(portion(&[of_size(u64::MAX), of_size(u64::MAX)]), 1);
    }
}
