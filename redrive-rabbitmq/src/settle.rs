//! Ending deliveries: the copies of a batch are written and confirmed, then the originals are released.

use std::sync::Arc;

use redrive_engine::adapter::Alarms;
use redrive_engine::fail;
use redrive_engine::port::{Clock, Outcome, PortError, Refusal, Settled, Settlement, Tag};

use crate::RabbitFlow;
use crate::copy::{Copies, Copy, gone, is_elsewhere, not_taken};
use crate::outbox::{Letter, NotTaken, Outbox};
use crate::reader::{NotReleased, Reader, Session};

type Answer = Result<Settled, PortError>;

/// What settling needs.
#[derive(Debug)]
pub(crate) struct Settler {
    pub(crate) flow: Arc<RabbitFlow>,
    pub(crate) copies: Arc<Copies>,
    pub(crate) outbox: Arc<Outbox>,
    pub(crate) alarms: Arc<Alarms>,
    pub(crate) clock: Arc<dyn Clock>,
}

impl Settler {
    /// Ends them; the answers stand in their order.
    pub(crate) async fn settle(&self, batch: &[Settlement], reader: Option<&Arc<Reader>>) -> Vec<Answer> {
        let session = reader.and_then(|reader| reader.session());
        let mut answers: Vec<Option<Answer>> = vec![None; batch.len()];
        let (mut written, mut copies): (Vec<usize>, Vec<Copy>) = (Vec::new(), Vec::new());
        let mut released: Vec<usize> = Vec::new();
        let (now, frame_max) = (self.clock.now(), self.outbox.frame_max());
        for (place, settlement) in batch.iter().enumerate() {
            let tag = settlement.delivery.tag;
            if tag != Tag::APART && !session.as_ref().is_some_and(|session| session.has(tag)) {
                answers[place] = Some(Err(gone(tag)));
                continue;
            }
            if settlement.outcome == Outcome::Return {
                let back = reader.is_some_and(|reader| reader.give_back(&settlement.delivery));
                answers[place] = Some(if back { Ok(Settled::default()) } else { Err(gone(tag)) });
                continue;
            }
            if self.is_rejected(settlement) {
                answers[place] = Some(reject(session.as_ref(), tag).await);
                continue;
            }
            match self.copies.of(settlement, now, frame_max) {
                Ok(Some(copy)) => {
                    written.push(place);
                    copies.push(copy);
                }
                Ok(None) => released.push(place),
                Err(refusal) => answers[place] = Some(Err(self.no_copy(&settlement.outcome, refusal))),
            }
        }
        if !copies.is_empty() {
            let (letters, queues): (Vec<Letter>, Vec<Arc<str>>) =
                copies.into_iter().map(|copy| (copy.letter, copy.queue)).unzip();
            fail::point("rabbit.before_publish");
            let taken = self.outbox.write(&letters).await;
            fail::point("rabbit.after_publish");
            for ((place, queue), taken) in written.into_iter().zip(&queues).zip(taken) {
                match taken {
                    Ok(()) => {
                        let place_of_copy = self.copies.place(queue);
                        let elsewhere = is_elsewhere(&batch[place].outcome);
                        let copy = (!elsewhere).then_some(place_of_copy);
                        answers[place] = Some(Ok(Settled { copy, carries_body: false }));
                        released.push(place);
                    }
                    Err(why) => {
                        answers[place] = Some(Err(self.not_written(&batch[place].outcome, queue, why)));
                    }
                }
            }
            self.is_over(&queues, &answers);
        }
        if let Some(session) = &session {
            release(session, batch, &released, &mut answers).await;
        }
        fail::point("rabbit.after_ack");
        if let Some(reader) = reader {
            reader.after_settling();
        }
        answers.into_iter().map(|answer| answer.unwrap_or_else(|| Ok(Settled::default()))).collect()
    }

    /// Whether the queue's own dead-letter exchange takes it.
    fn is_rejected(&self, settlement: &Settlement) -> bool {
        let rejects = match settlement.outcome {
            Outcome::Delay { .. } => self.flow.rejects(),
            // A ring would bring it back for ever.
            Outcome::DeadLetter | Outcome::Park => !self.flow.shelves(),
            _ => false,
        };
        rejects && settlement.delivery.tag != Tag::APART
    }

    fn no_copy(&self, outcome: &Outcome, refusal: Refusal) -> PortError {
        let elsewhere = is_elsewhere(outcome);
        if !elsewhere {
            let why = format!("a copy cannot be made, and its message stays unsettled: {refusal}");
            self.alarms.raise("copy_refused", "", why);
        }
        not_taken(elsewhere, refusal)
    }

    fn not_written(&self, outcome: &Outcome, queue: &str, why: NotTaken) -> PortError {
        let elsewhere = is_elsewhere(outcome);
        let (alarm, refusal) = match why {
            NotTaken::NoExchange(error) | NotTaken::Away(error) => return error,
            NotTaken::Returned => {
                ("queue_missing", Refusal::NotFound { what: "queue", name: queue.to_owned() })
            }
            NotTaken::Refused(text) => (
                "copy_refused",
                Refusal::Invalid(format!("RabbitMQ does not take the copy for `{queue}`: {text}")),
            ),
            NotTaken::Nacked => (
                "copy_refused",
                Refusal::Limit(format!(
                    "the queue `{queue}` does not take the copy: it is full, or its disk is"
                )),
            ),
        };
        if !elsewhere {
            let why = format!("{refusal}; what is to go there stays unsettled until it does");
            self.alarms.raise(alarm, queue, why);
        }
        not_taken(elsewhere, refusal)
    }

    /// Queues take copies again, unless one of these was refused.
    fn is_over(&self, queues: &[Arc<str>], answers: &[Option<Answer>]) {
        let refused = answers.iter().any(|answer| matches!(answer, Some(Err(_))));
        if refused {
            return;
        }
        self.alarms.clear_all(|name, about| {
            matches!(name, "copy_refused" | "queue_missing")
                && (about.is_empty()
                    || queues.iter().any(|queue| **queue == *about)
                    // What comes after it was made again may go another way.
                    || (name == "queue_missing" && self.outbox.has_made(about)))
        });
    }
}

async fn reject(session: Option<&Arc<Session>>, tag: Tag) -> Answer {
    match session {
        Some(session) => match session.reject(tag.number).await {
            Ok(()) => Ok(Settled::default()),
            Err(_) => Err(gone(tag)),
        },
        None => Err(gone(tag)),
    }
}

/// Releases originals. Those whose channel is gone come again.
async fn release(session: &Session, batch: &[Settlement], places: &[usize], answers: &mut [Option<Answer>]) {
    let of_channel = |place: &&usize| batch[**place].delivery.tag != Tag::APART;
    let tags: Vec<u64> =
        places.iter().filter(of_channel).map(|place| batch[*place].delivery.tag.number).collect();
    if tags.is_empty() {
        return;
    }
    if let Err(why) = session.release(&tags).await {
        for place in places.iter().filter(of_channel) {
            answers[*place] = Some(Err(match &why {
                NotReleased::Lost => gone(batch[*place].delivery.tag),
                NotReleased::NotKept(error) => PortError::Unavailable(error.to_string()),
            }));
        }
    }
}
