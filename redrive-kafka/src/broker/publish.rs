//! Publishing: messages of others, into a topic at once, or into what waits.

use std::collections::BTreeSet;
use std::sync::Arc;

use redrive_core::{Message, Text};
use redrive_engine::port::{
    Carried, Delivery, DeliveryParts, NewMessage, Outcome, PortError, Published, Refusal, Settlement,
    SourceRef, Tag,
};

use super::{KafkaBroker, blocking};
use crate::client;
use crate::copy::{Copy, topic_of};
use crate::record::KIND;

impl KafkaBroker {
    /// Publishes messages to a topic; those with a due time wait in the flow's own.
    pub(super) async fn publish_to(
        &self,
        target: &str,
        messages: Vec<NewMessage>,
    ) -> Result<Vec<Published>, PortError> {
        let topic: Arc<str> = topic_of(target).into();
        let now = self.clock.now();
        if !self.topics.knows(&topic) {
            let (topics, asked) = (Arc::clone(&self.topics), [Arc::clone(&topic)]);
            blocking("cannot look a topic up", move || topics.look(&asked)).await?;
        }
        if !self.topics.knows(&topic) {
            let missing = Refusal::NotFound { what: "topic", name: topic.to_string() };
            return Ok(vec![Published::Refused(missing); messages.len()]);
        }
        let mut answers: Vec<Published> = Vec::with_capacity(messages.len());
        let mut sent: Vec<usize> = Vec::new();
        let mut copies: Vec<Copy> = Vec::new();
        for message in messages {
            let due = message.due.filter(|due| *due > now);
            let (id, delivery) = self.delivery(&topic, message);
            let copy = match due {
                None => Ok(plain_copy(&topic, delivery)),
                Some(_) if !self.flow.topics.iter().any(|own| *own == *topic) => Err(Refusal::Invalid(
                    format!("only messages of the flow's own topics can wait; `{topic}` is none"),
                )),
                Some(until) => {
                    let settlement = Settlement::plain(delivery, Outcome::Delay { until });
                    let made = self.copies.of(&settlement, now);
                    made.and_then(|mut all| {
                        all.pop().ok_or_else(|| Refusal::State("nothing to write".to_owned()))
                    })
                }
            };
            match copy {
                Ok(copy) => {
                    sent.push(answers.len());
                    copies.push(copy);
                    answers.push(Published::Accepted(id));
                }
                Err(refusal) => answers.push(Published::Refused(refusal)),
            }
        }
        let unknown: BTreeSet<Arc<str>> = copies
            .iter()
            .map(|copy| &copy.topic)
            .filter(|topic| !self.topics.knows(topic))
            .cloned()
            .collect();
        if !unknown.is_empty() {
            let (topics, asked) = (Arc::clone(&self.topics), unknown.into_iter().collect::<Vec<_>>());
            blocking("cannot look topics up", move || topics.look(&asked)).await?;
            let there = |copy: &Copy| self.topics.knows(&copy.topic);
            for (place, copy) in sent.iter().zip(&copies).filter(|(_, copy)| !there(copy)) {
                let missing = Refusal::NotFound { what: "topic", name: copy.topic.to_string() };
                answers[*place] = Published::Refused(missing);
            }
            let keep: Vec<bool> = copies.iter().map(there).collect();
            let mut kept = keep.iter();
            copies.retain(|_| *kept.next().unwrap_or(&false));
            let mut kept = keep.iter();
            sent.retain(|_| *kept.next().unwrap_or(&false));
        }
        if copies.is_empty() {
            return Ok(answers);
        }
        for (place, written) in sent.into_iter().zip(self.write(copies).await?) {
            match written {
                Ok(_) => {}
                Err(error) if error.rdkafka_error_code().is_some_and(client::is_for_good) => {
                    answers[place] =
                        Published::Refused(Refusal::State(format!("`{topic}` does not take it: {error}")));
                }
                Err(error) => return Err(client::away("a message was not acknowledged", &error)),
            }
        }
        Ok(answers)
    }

    /// A message as if it had been read, and its id.
    fn delivery(&self, topic: &Arc<str>, new: NewMessage) -> (String, Delivery) {
        let NewMessage { id, key, body, mut headers, content_type, due: _ } = new;
        let known = headers.message_id().map(|id| id.to_string());
        let id = id.or_else(|| known.clone()).unwrap_or_else(|| uuid::Uuid::now_v7().to_string());
        if known.as_ref() != Some(&id) {
            headers.remove("ce_id");
            headers.set("message-id", id.clone());
        }
        if let Some(kind) = content_type.filter(|_| !headers.contains("content-type")) {
            headers.push("content-type", kind);
        }
        let message = Message { id: Text::from(id.clone()), key, body, headers, content_type: None };
        let source = SourceRef { kind: KIND.into(), name: Arc::clone(topic), partition: None, offset: None };
        let ready_at = self.clock.now();
        let delivery = Delivery::from(DeliveryParts {
            tag: Tag::APART,
            message,
            trail: Carried::default(),
            source,
            ready_at,
            redelivered: false,
        });
        (id, delivery)
    }
}

fn plain_copy(topic: &Arc<str>, delivery: Delivery) -> Copy {
    let Message { key, body, headers, .. } = delivery.into_parts().message;
    Copy {
        topic: Arc::clone(topic),
        partition: None,
        key,
        body,
        headers,
        timestamp: None,
        carries_body: false,
    }
}
