//! Writing: every message of a batch is sent, then all confirmations are awaited.
//!
//! A message that was asked to be returned is confirmed too, and the client library gives what came back to whichever
//! confirmation arrives next. So a channel is used by one batch at a time, and what came back is known by its content: a
//! batch with a message that found no queue can never pass it for a good one.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use lapin::message::BasicReturnMessage;
use lapin::options::{BasicPublishOptions, ConfirmSelectOptions};
use lapin::types::ShortString;
use lapin::{BasicProperties, Channel, Confirmation, PublisherConfirm};
use redrive_engine::port::PortError;
use tokio::sync::Semaphore;

use crate::link::{self, Link};
use crate::mending::Mending;
use crate::trouble::No;
use crate::{RabbitFlow, metrics, trouble};

/// How many batches are under way at once.
const CHANNELS: usize = 4;
/// How many messages, and roughly how many bytes, one batch has on a channel.
const MESSAGES: usize = 512;
const BYTES: usize = 16 << 20;

/// A message to write.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Letter {
    pub(crate) exchange: ShortString,
    pub(crate) key: ShortString,
    pub(crate) properties: BasicProperties,
    pub(crate) body: Bytes,
    /// Whether it is to come back when no queue takes it.
    pub(crate) mandatory: bool,
}

/// Why a message is not there.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum NotTaken {
    /// No queue takes it: there is none, or none is bound.
    Returned,
    /// The broker said no: the queue is full, mostly.
    Nacked,
    /// The broker takes no such message: it is too large, or a property says what none may.
    Refused(String),
    /// There is no such exchange, which ended the channel with all that was under way on it.
    NoExchange(PortError),
    /// Nobody knows.
    Away(PortError),
}

/// Writes for a flow.
#[derive(Debug)]
pub(crate) struct Outbox {
    link: Arc<Link>,
    mending: Mending,
    flow: Arc<str>,
    confirm_timeout: Duration,
    turns: Semaphore,
    idle: Mutex<Vec<Channel>>,
}

impl Outbox {
    /// Writes over this connection.
    pub(crate) fn new(flow: &RabbitFlow, link: Arc<Link>, mending: Mending) -> Self {
        Self {
            link,
            mending,
            flow: Arc::clone(&flow.flow),
            confirm_timeout: flow.confirm_timeout,
            turns: Semaphore::new(CHANNELS),
            idle: Mutex::default(),
        }
    }

    /// Whether a queue is one of those that are there again, as far as the last look told.
    pub(crate) fn has_made(&self, queue: &str) -> bool {
        self.mending.has_made(queue)
    }

    /// How large a message's header may be.
    pub(crate) fn frame_max(&self) -> usize {
        self.link.frame_max()
    }

    /// Writes all of them; the answers stand in their order. What of the flow's own was missing is there again afterwards,
    /// where it can be made.
    pub(crate) async fn write(&self, letters: &[Letter]) -> Vec<Result<(), NotTaken>> {
        let mut answers = Vec::with_capacity(letters.len());
        let mut rest = letters;
        while !rest.is_empty() {
            let (some, others) = rest.split_at(share(rest));
            let mut written = self.write_some(some).await;
            self.tell_apart(some, &mut written).await;
            answers.extend(written);
            rest = others;
        }
        let missing = letters.iter().zip(&answers).any(|(letter, answer)| match answer {
            Err(NotTaken::Returned) => self.mending.is_own(letter),
            Err(NotTaken::NoExchange(_)) => true,
            _ => false,
        });
        if missing || self.mending.has_failed() {
            self.mending.mend().await;
        }
        answers
    }

    /// Refuses where the user may not write. Whether it may is found out with a message for a queue that there is none of:
    /// it comes back.
    pub(crate) async fn may_write(&self) -> Result<(), PortError> {
        let doing = "cannot write to RabbitMQ's default exchange";
        let channel = self.channel().await?;
        let options = BasicPublishOptions { mandatory: true, immediate: false };
        let nowhere = format!("redrive-{}", uuid::Uuid::now_v7());
        let sent = async {
            let properties = BasicProperties::default();
            confirmed(channel.basic_publish("".into(), nowhere.into(), options, &[], properties).await).await
        };
        let answer = tokio::time::timeout(self.confirm_timeout, sent).await;
        // What came back must not be taken for one of another batch.
        tokio::spawn(async move { link::close(&channel).await });
        match answer {
            Ok(Err(error)) if trouble::no(&error) == Some(No::Forbidden) => {
                Err(trouble::asked(doing, &error))
            }
            // One that is short of memory, or goes away now, is dealt with when there is something to write.
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// A message that the broker refuses ends the channel with all that are under way on it. Which one it was is found out
    /// by sending them one by one; behind it the broker took none, so that what is behind goes together again.
    async fn tell_apart(&self, letters: &[Letter], answers: &mut [Result<(), NotTaken>]) {
        let is_refused = |answer: &Result<(), NotTaken>| matches!(answer, Err(NotTaken::Refused(_)));
        let mut doubtful: Vec<usize> =
            (0..letters.len()).filter(|place| is_refused(&answers[*place])).collect();
        if letters.len() < 2 {
            return;
        }
        doubtful.reverse();
        while let Some(place) = doubtful.pop() {
            let Some(alone) = self.write_some(std::slice::from_ref(&letters[place])).await.pop() else {
                return;
            };
            answers[place] = alone;
            match &answers[place] {
                Err(NotTaken::Refused(_)) => {
                    let behind: Vec<Letter> =
                        doubtful.iter().rev().map(|place| letters[*place].clone()).collect();
                    let written = self.write_some(&behind).await;
                    for (place, answer) in doubtful.iter().rev().zip(written) {
                        answers[*place] = answer;
                    }
                    doubtful.retain(|place| is_refused(&answers[*place]));
                }
                Err(NotTaken::Away(error)) => {
                    let error = error.clone();
                    for place in &doubtful {
                        answers[*place] = Err(NotTaken::Away(error.clone()));
                    }
                    return;
                }
                _ => {}
            }
        }
    }

    async fn write_some(&self, letters: &[Letter]) -> Vec<Result<(), NotTaken>> {
        let Ok(_turn) = self.turns.acquire().await else {
            return vec![Err(away("the broker is closed")); letters.len()];
        };
        if self.link.is_blocked() {
            return vec![
                Err(away("RabbitMQ takes no messages: it is short of memory or disk"));
                letters.len()
            ];
        }
        let channel = match self.channel().await {
            Ok(channel) => channel,
            Err(error) => return vec![Err(NotTaken::Away(error)); letters.len()],
        };
        let sending = self.send(&channel, letters);
        let Ok(answers) = tokio::time::timeout(self.confirm_timeout, sending).await else {
            // A confirmation that comes later must not be taken for another's.
            tokio::spawn(async move { link::close(&channel).await });
            let why = format!("RabbitMQ did not confirm within {:?}", self.confirm_timeout);
            return vec![Err(away(&why)); letters.len()];
        };
        if channel.status().connected() {
            self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(channel);
        }
        answers
    }

    async fn send(&self, channel: &Channel, letters: &[Letter]) -> Vec<Result<(), NotTaken>> {
        let sent = join_all(letters.iter().map(|letter| {
            let options = BasicPublishOptions { mandatory: letter.mandatory, immediate: false };
            let Letter { exchange, key, properties, body, .. } = letter;
            channel.basic_publish(exchange.clone(), key.clone(), options, body, properties.clone())
        }))
        .await;
        let confirmed = join_all(sent.into_iter().map(confirmed)).await;
        let mut back: Vec<BasicReturnMessage> = Vec::new();
        let mut answers: Vec<Result<(), NotTaken>> = Vec::with_capacity(letters.len());
        for one in confirmed {
            answers.push(match one {
                Ok(Confirmation::Ack(returned)) => {
                    back.extend(returned);
                    Ok(())
                }
                Ok(Confirmation::Nack(returned)) => {
                    back.extend(returned);
                    metrics::nacked(&self.flow);
                    Err(NotTaken::Nacked)
                }
                Ok(Confirmation::NotRequested) => Err(away("RabbitMQ confirms nothing on this channel")),
                Err(error) => {
                    let away = trouble::away("RabbitMQ did not take a message", &error);
                    Err(match trouble::no(&error) {
                        Some(No::NotFound) => NotTaken::NoExchange(away),
                        Some(No::Differs) => NotTaken::Refused(trouble::shown(&error)),
                        _ => NotTaken::Away(away),
                    })
                }
            });
        }
        for returned in back {
            metrics::returned(&self.flow);
            let delivery = returned.delivery;
            let came_back = Letter {
                exchange: delivery.exchange,
                key: delivery.routing_key,
                properties: delivery.properties,
                body: delivery.data.into(),
                mandatory: true,
            };
            note_returned(letters, &came_back, &mut answers);
        }
        answers
    }

    async fn channel(&self) -> Result<Channel, PortError> {
        loop {
            let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
            match idle {
                Some(channel) if channel.status().connected() => return Ok(channel),
                Some(_) => {}
                None => break,
            }
        }
        let channel = self.link.channel().await?;
        let select = channel.confirm_select(ConfirmSelectOptions::default());
        match tokio::time::timeout(self.confirm_timeout, select).await {
            Ok(Ok(())) => Ok(channel),
            Ok(Err(error)) => Err(trouble::away("RabbitMQ does not confirm", &error)),
            Err(_) => Err(PortError::Unavailable("RabbitMQ does not answer".to_owned())),
        }
    }
}

async fn confirmed(sent: lapin::Result<PublisherConfirm>) -> lapin::Result<Confirmation> {
    sent?.await
}

fn away(why: &str) -> NotTaken {
    NotTaken::Away(PortError::Unavailable(why.to_owned()))
}

/// Something came back. What is alike goes to the same place, and fares alike. When the broker wrote it in other words than
/// it was sent with, all that went to the same address are taken to have come back: better twice than not at all.
fn note_returned(letters: &[Letter], came_back: &Letter, answers: &mut [Result<(), NotTaken>]) {
    let same_address = |letter: &Letter| letter.exchange == came_back.exchange && letter.key == came_back.key;
    let same = |letter: &Letter| {
        same_address(letter) && letter.body == came_back.body && letter.properties == came_back.properties
    };
    let (known, addressed) = (letters.iter().any(same), letters.iter().any(same_address));
    for (letter, answer) in letters.iter().zip(answers) {
        let fits = if known { same(letter) } else { same_address(letter) || !addressed };
        if fits {
            *answer = Err(NotTaken::Returned);
        }
    }
}

/// How many of these go in one batch.
fn share(letters: &[Letter]) -> usize {
    let mut bytes = 0;
    let fits = letters.iter().take(MESSAGES).take_while(|letter| {
        bytes += letter.body.len();
        bytes <= BYTES
    });
    fits.count().max(1)
}

#[cfg(test)]
mod tests {
    use lapin::types::{AMQPValue, FieldTable};

    use super::*;

    fn letter(key: &str, body: &'static str, share: f64) -> Letter {
        let mut headers = FieldTable::default();
        headers.insert("share".into(), AMQPValue::Double(share));
        Letter {
            exchange: "".into(),
            key: key.into(),
            properties: BasicProperties::default().with_headers(headers),
            body: body.into(),
            mandatory: true,
        }
    }

    fn returned(letters: &[Letter], came_back: &Letter) -> Vec<bool> {
        let mut answers = vec![Ok(()); letters.len()];
        note_returned(letters, came_back, &mut answers);
        answers.iter().map(Result::is_err).collect()
    }

    #[test]
    fn what_came_back_is_known_by_its_content() {
        let letters = [letter("a", "1", 1.0), letter("a", "2", 1.0), letter("b", "1", 1.0)];
        assert_eq!(returned(&letters, &letters[1].clone()), [false, true, false]);
    }

    #[test]
    fn what_cannot_be_told_apart_is_taken_to_have_come_back() {
        // A number that is none is not equal to itself.
        let letters = [letter("a", "1", f64::NAN), letter("a", "2", 1.0), letter("b", "1", 1.0)];
        assert_eq!(returned(&letters, &letters[0].clone()), [true, true, false]);
        assert_eq!(returned(&letters, &letter("c", "1", 1.0)), [true, true, true]);
    }

    #[test]
    fn a_batch_ends_where_it_becomes_large() {
        let large = Letter { body: vec![0; BYTES - 1].into(), ..letter("a", "", 1.0) };
        assert_eq!(share(&[large.clone(), large.clone(), large]), 1);
        assert_eq!(share(&vec![letter("a", "1", 1.0); MESSAGES + 1]), MESSAGES);
    }
}
