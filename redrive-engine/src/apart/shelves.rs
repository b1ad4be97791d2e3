//! Reading what the broker keeps: for a ledger that was lost or left behind, for dead letters of other systems, and to send
//! what was published once more.

use std::collections::HashSet;
use std::sync::atomic::Ordering;

use redrive_core::Text;
use redrive_core::headers::{Origin, Replay, Trail};

use super::record::{entry_of, found};
use super::{Inner, Rebuilt, Reread, log};
use crate::port::{
    Actor, EntryId, EntryState, HeaderRules, NewMessage, PortError, Published, Recorded, Resolved, Shelved,
    Shelves, SourceRange, SourceRef, Subscription,
};

/// How many messages are read in one go.
const STEP: usize = 200;

/// What was read in one go, each with its place among them.
type Step = Vec<(usize, Shelved)>;

/// What stands in the ledger when a process has told it everything before it ended.
const WELL: &str = "well";

impl Inner {
    /// How far the shelves have been read. What other systems wrote is left out as long as nobody asks for it, and so is
    /// read from the beginning when somebody does.
    fn position_name(&self) -> &'static str {
        if self.options.adopts { "shelves" } else { "own" }
    }

    /// Takes in what came to lie at the broker since the last look, where the ledger knows nothing newer. When it may have
    /// missed something, a broker without positions is looked at from the beginning.
    pub(super) async fn adopt_shelves(
        &self,
        subscription: &Subscription,
        missed: bool,
    ) -> Result<(), PortError> {
        let name = format!("{}/{}", self.position_name(), self.flow);
        let kept = self.ledger.position(&name).await?;
        if !missed || !self.options.looks_anew {
            return self.adopt_from(subscription, &name, kept).await;
        }
        // What was taken in last, and may not be released, is known by where that look stood.
        if kept.is_some() {
            self.adopt_from(subscription, &name, kept).await?;
        }
        self.adopt_from(subscription, &name, None).await
    }

    async fn adopt_from(
        &self,
        subscription: &Subscription,
        name: &str,
        from: Option<String>,
    ) -> Result<(), PortError> {
        let mut shelves = self.outer.shelves(subscription, from.as_deref()).await?;
        let mut kept = from;
        loop {
            let step = shelves.next(STEP).await?;
            if step.is_empty() {
                break;
            }
            let mut step: Step = step.into_iter().enumerate().collect();
            step.retain(|(_, shelved)| self.options.adopts || !shelved.foreign);
            self.take_in(subscription, &mut *shelves, step).await?;
            let position = shelves.position();
            self.ledger.keep_position(name, &position).await?;
            kept = Some(position);
        }
        let position = shelves.position();
        if kept.as_deref() != Some(&*position) {
            self.ledger.keep_position(name, &position).await?;
        }
        Ok(())
    }

    /// Looks whether the last process told the ledger everything, and says that this one has not yet.
    pub(super) async fn begins(&self) -> Result<(), PortError> {
        if self.options.looks_anew {
            let name = self.ended_name();
            let well = self.ledger.position(&name).await?.as_deref() == Some(WELL);
            self.missed.store(!well, Ordering::Release);
            self.ledger.keep_position(&name, "").await?;
        }
        Ok(())
    }

    /// Says that the ledger knows everything, if it does.
    pub(super) async fn ends(&self) {
        let knows = self.projection.is_empty() && self.projection.missed().is_none();
        if self.options.looks_anew && knows {
            // When it cannot be kept, the next process looks once more than it has to.
            _ = self.ledger.keep_position(&self.ended_name(), WELL).await;
        }
    }

    fn ended_name(&self) -> String {
        format!("ended/{}", self.flow)
    }

    /// Tells the ledger of what was found, without what people resolved, and the shelves of what it does not take. Answers
    /// with how many it took.
    async fn take_in(
        &self,
        subscription: &Subscription,
        shelves: &mut dyn Shelves,
        step: Step,
    ) -> Result<u64, PortError> {
        let step = self.not_passed(step).await?;
        if step.is_empty() {
            return Ok(0);
        }
        let entries: Vec<EntryId> = step.iter().map(|(_, shelved)| entry_of(&shelved.delivery)).collect();
        let resolved = self.resolutions(subscription, &entries).await?;
        let (places, recorded): (Vec<usize>, Vec<Recorded>) = step
            .into_iter()
            .zip(resolved)
            .filter(|(_, resolved)| resolved.is_none_or(EntryState::is_unresolved))
            .map(|((place, shelved), resolved)| {
                (place, found(self, shelved, resolved == Some(EntryState::Parked)))
            })
            .unzip();
        // What is being settled right now is told first: it is older than what was found.
        drop(self.moving.write().await);
        if recorded.is_empty() {
            return Ok(0);
        }
        let answers = self.projection.record(&*self.ledger, &self.flow, &recorded).await?;
        let mut taken = 0;
        for ((place, recorded), answer) in places.into_iter().zip(&recorded).zip(answers) {
            match answer {
                Ok(_) => taken += 1,
                Err(PortError::Refused(refusal)) => {
                    log::not_adopted(&self.flow, &recorded.settlement.delivery, &refusal);
                    shelves.refuse(place, &refusal);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(taken)
    }

    /// Reads what people resolved, unless it has been read.
    pub(super) async fn read_resolved(&self, subscription: &Subscription) -> Result<(), PortError> {
        self.resolutions(subscription, &[]).await.map(drop)
    }

    /// What people did about these entries, by what the broker keeps of it, in their order.
    ///
    /// It is read once: what is resolved later stands in the ledger, which is asked first.
    pub(super) async fn resolutions(
        &self,
        subscription: &Subscription,
        entries: &[EntryId],
    ) -> Result<Vec<Option<EntryState>>, PortError> {
        let mut known = self.resolved.lock().await;
        let known = match &mut *known {
            Some(known) => known,
            none => {
                let read = self.outer.resolved(subscription).await?;
                none.insert(read.into_iter().map(|resolved| (resolved.entry, resolved.state)).collect())
            }
        };
        Ok(entries.iter().map(|entry| known.get(entry).copied()).collect())
    }

    /// These were resolved just now.
    pub(super) async fn note_resolved(&self, resolved: Vec<Resolved>) {
        if let Some(known) = &mut *self.resolved.lock().await {
            known.extend(resolved.into_iter().map(|resolved| (resolved.entry, resolved.state)));
        }
    }

    /// Without what waits no more: its copy was handed out since.
    async fn not_passed(&self, step: Step) -> Result<Step, PortError> {
        let waits = |(_, shelved): &&(usize, Shelved)| shelved.state == EntryState::Waiting;
        let places: Vec<SourceRef> =
            step.iter().filter(waits).map(|(_, shelved)| shelved.delivery.source.clone()).collect();
        if places.is_empty() {
            return Ok(step);
        }
        let mut passed = self.outer.passed(&places).await?.into_iter();
        let stays = |one: &(usize, Shelved)| !(waits(&one) && passed.next().unwrap_or(false));
        let mut step = step;
        step.retain(stays);
        Ok(step)
    }

    pub(super) async fn rebuild(
        &self,
        subscription: &Subscription,
        actor: &Actor,
    ) -> Result<Rebuilt, PortError> {
        *self.resolved.lock().await = None;
        let mut done = Rebuilt::default();
        let mut seen = HashSet::new();
        let mut shelves = self.outer.shelves(subscription, None).await?;
        loop {
            let step = shelves.next(STEP).await?;
            if step.is_empty() {
                break;
            }
            done.looked_at += step.len() as u64;
            let entries: Vec<EntryId> = step.iter().map(|shelved| entry_of(&shelved.delivery)).collect();
            let resolved = self.resolutions(subscription, &entries).await?;
            let ended = |state: &Option<EntryState>| state.is_some_and(|state| !state.is_unresolved());
            let resolved = entries.iter().zip(&resolved).filter(|(_, state)| ended(state));
            done.resolved += resolved.filter(|(entry, _)| seen.insert(**entry)).count() as u64;
            let step = step.into_iter().enumerate().collect();
            done.told += self.take_in(subscription, &mut *shelves, step).await?;
        }
        for name in ["shelves", "own"] {
            self.ledger.keep_position(&format!("{name}/{}", self.flow), &shelves.position()).await?;
        }
        self.ledger.note(actor, "ledger rebuild", &self.flow, done.told, self.now()).await?;
        Ok(done)
    }

    pub(super) async fn replay_source(
        &self,
        subscription: &Subscription,
        range: &SourceRange,
        actor: &Actor,
    ) -> Result<Reread, PortError> {
        let id = self.mint();
        let mut done = Reread { id, messages: 0 };
        let sent = self.send_again(subscription, range, actor, &mut done).await;
        let subject = format!("{} {}: {range:?}", self.flow, subscription.source);
        // What was sent is in the audit, also when not all could be.
        if sent.is_ok() || done.messages > 0 {
            self.ledger.note(actor, "replay source", &subject, done.messages, self.now()).await?;
        }
        sent.map(|()| done)
    }

    async fn send_again(
        &self,
        subscription: &Subscription,
        range: &SourceRange,
        actor: &Actor,
        done: &mut Reread,
    ) -> Result<(), PortError> {
        let at_home = self.at_home(subscription);
        self.home.apply(&self.home.plan(&at_home).await?).await?;
        let mut shelves = self.outer.reread(subscription, range).await?;
        loop {
            let step = shelves.next(STEP).await?;
            if step.is_empty() {
                return Ok(());
            }
            let rules = &subscription.headers;
            let messages = step.into_iter().map(|shelved| again(shelved, done.id, actor, rules)).collect();
            for published in self.home.publish(&self.queue, messages).await? {
                match published {
                    Published::Accepted(_) => done.messages += 1,
                    Published::Refused(refusal) => return Err(refusal.into()),
                }
            }
        }
    }
}

/// A message as it was published, with a word on who sends it again.
fn again(shelved: Shelved, replay: EntryId, actor: &Actor, rules: &HeaderRules) -> NewMessage {
    let delivery = shelved.delivery.into_parts();
    let mut message = delivery.message;
    let trail = Trail {
        origin: Origin {
            topic: Some(Text::from(&*delivery.source.name)),
            partition: delivery.source.partition,
            offset: delivery.source.offset,
            timestamp: Some(delivery.ready_at),
        },
        replay: Some(Replay {
            id: Some(replay.to_string().into()),
            by: Some(Text::from(actor.who.as_str())),
            reason: Some(Text::from(actor.why.as_str())),
            death_count: 0,
        }),
        ..Trail::default()
    };
    rules.write(&trail.bounded(), &mut message.headers, message.body.as_deref());
    NewMessage {
        id: Some(message.id.to_string()),
        key: message.key,
        body: message.body,
        headers: message.headers,
        content_type: message.content_type.map(|text| text.to_string()),
        due: None,
    }
}
