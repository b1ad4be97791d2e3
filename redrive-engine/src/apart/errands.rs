//! Small duties between the two stores, looked at about once a second.

use std::sync::atomic::Ordering;
use std::time::Duration;

use redrive_core::Reason;
use redrive_core::headers::Trail;
use tokio_util::sync::CancellationToken;

use super::bodies::Watch;
use super::duties::Duty;
use super::overdue::Look;
use super::{Inner, log};
use crate::port::{
    Delivery, EntryState, HeaderRules, HeldRecord, NewMessage, Outcome, PortError, Published, REROUTE_TO,
    Record, Refusal, Resolved, Settlement, Subscription,
};

/// How many are looked at in one go.
const STEP: usize = 200;
/// The longest address that a message is sent to.
const LONGEST_ADDRESS: usize = 1_024;
const AGAIN: Duration = Duration::from_millis(500);

/// What was done once since the reading began.
#[derive(Debug, Default, Clone, Copy)]
struct Begun {
    taken_over: bool,
    looked: bool,
}

/// Runs until nobody reads any more.
pub(super) async fn run(inner: &Inner, subscription: &Subscription, stop: CancellationToken) {
    let mut begun = Begun::default();
    let mut overdue = Look::begin(inner.now());
    let mut bodies = Watch::default();
    loop {
        let errands = async {
            inner.run_errands(subscription, &mut begun, &mut overdue).await;
            inner.save_bodies(&mut bodies).await;
        };
        tokio::select! {
            biased;
            () = stop.cancelled() => break,
            () = errands => {}
        }
        tokio::select! {
            () = stop.cancelled() => break,
            () = tokio::time::sleep(inner.options.every) => {}
        }
    }
    inner.duties.end();
}

impl Inner {
    /// Every duty once, whatever becomes of the others.
    async fn run_errands(&self, subscription: &Subscription, begun: &mut Begun, overdue: &mut Look) {
        let done = |duty, result| self.duties.done(&self.flow, duty, result).is_some();
        done(Duty::ReadResolved, self.read_resolved(subscription).await);
        let taken_over = if begun.taken_over {
            self.adopt(subscription).await
        } else {
            // Whoever was here before may have died before the ledger knew.
            self.adopt_shelves(subscription, self.missed.load(Ordering::Acquire)).await
        };
        begun.taken_over |= done(Duty::TakeOver, taken_over);
        begun.looked |=
            done(Duty::FindOverdue, self.look_for_overdue(subscription, begun.looked, overdue).await);
        done(Duty::KeepResolved, self.hand_resolved_on().await);
    }

    /// What people brought to an end is kept at the broker too, where a rebuild finds it.
    async fn hand_resolved_on(&self) -> Result<(), PortError> {
        let name = format!("resolved/{}", self.flow);
        loop {
            let kept = self.ledger.position(&name).await?.and_then(|text| text.parse::<u64>().ok());
            let resolved = self.ledger.resolved(&self.flow, kept.unwrap_or(0), STEP).await?;
            let Some((last, _)) = resolved.last() else { return Ok(()) };
            let last = last.to_string();
            let resolved: Vec<Resolved> = resolved.into_iter().map(|(_, resolved)| resolved).collect();
            self.outer.keep_resolved(&resolved).await?;
            self.ledger.keep_position(&name, &last).await?;
            self.note_resolved(resolved).await;
        }
    }

    /// Dead letters of other systems, and what the ledger was not told.
    async fn adopt(&self, subscription: &Subscription) -> Result<(), PortError> {
        let missed = self.projection.missed();
        if !self.options.adopts && missed.is_none() {
            return Ok(());
        }
        self.adopt_shelves(subscription, missed.is_some()).await?;
        if let Some(missed) = missed {
            self.projection.made_good(missed);
        }
        Ok(())
    }

    async fn send_elsewhere(
        &self,
        target: &str,
        delivery: &Delivery,
        rules: &HeaderRules,
    ) -> Result<(), PortError> {
        let message = &delivery.message;
        let mut headers = message.headers.clone();
        rules.clear(&mut headers);
        headers.remove(REROUTE_TO);
        let copy = NewMessage {
            id: Some(message.id.to_string()),
            key: message.key.clone(),
            body: message.body.clone(),
            headers,
            content_type: message.content_type.as_ref().map(ToString::to_string),
            due: None,
        };
        let published = match self.outer.publish(target, vec![copy.clone()]).await?.into_iter().next() {
            // The same id lies there already: it goes under another.
            Some(Published::Refused(Refusal::Duplicate(_))) => {
                self.outer.publish(target, vec![NewMessage { id: None, ..copy }]).await?.into_iter().next()
            }
            published => published,
        };
        match published {
            Some(Published::Accepted(_)) => Ok(()),
            Some(Published::Refused(refusal)) => Err(refusal.into()),
            None => Err(PortError::Unavailable("the broker did not answer".to_owned())),
        }
    }

    /// What becomes of a message whose address does not take it: a person looks at it.
    fn not_taken(&self, delivery: Delivery, target: &str, why: &Refusal) -> Settlement {
        let entry = self.mint();
        let mut trail = Trail::clone(&delivery.trail);
        trail.entry_id = Some(entry.to_string().into());
        let record = Record {
            entry,
            flow: self.flow.clone(),
            state: EntryState::Parked,
            at: self.now(),
            due_at: None,
            attempt: None,
            succeeded: None,
            earlier: Vec::new(),
            attempts: 0,
            message_type: None,
            entity: None,
            tenant: None,
            correlation_id: None,
            causation_id: None,
            owner: None,
            held: Some(Box::new(HeldRecord {
                behind: None,
                reason: Reason::from_static("REROUTE_REFUSED"),
                because: format!("it was rerouted to {target}, which does not take it: {why}"),
            })),
            replay: None,
        };
        Settlement {
            trail: Some(Box::new(trail)),
            record: Some(Box::new(record)),
            ..Settlement::plain(delivery, Outcome::Park)
        }
    }
}

/// Sends a message of the ledger's queue to the address that a person named, and then releases it there.
pub(super) async fn reroute(inner: &Inner, delivery: Delivery, rules: &HeaderRules, stop: CancellationToken) {
    let target = delivery.message.headers.get_text(REROUTE_TO, LONGEST_ADDRESS);
    let target = target.map(|text| text.to_string()).unwrap_or_default();
    let wait = || async {
        tokio::select! {
            () = stop.cancelled() => false,
            () = tokio::time::sleep(AGAIN) => true,
        }
    };
    let settlement = loop {
        match inner.send_elsewhere(&target, &delivery, rules).await {
            Ok(()) => break Settlement::plain(delivery, Outcome::Ack),
            Err(PortError::Refused(refusal)) => {
                log::not_taken(&inner.flow, &delivery, &refusal);
                break inner.not_taken(delivery, &target, &refusal);
            }
            Err(_) if wait().await => {}
            // It is not settled, and comes again.
            Err(_) => return,
        }
    };
    loop {
        let answer = inner.home.settle(std::slice::from_ref(&settlement)).await.pop();
        if !matches!(answer, Some(Err(PortError::Unavailable(_)))) || !wait().await {
            return;
        }
    }
}
