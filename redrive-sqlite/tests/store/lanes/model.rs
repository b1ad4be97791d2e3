//! What order per key means, in the plainest words: a list of messages and who is in front of whom.

use std::collections::BTreeMap;

/// Where a message stands in its lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// In the queue, or in hand for the first time.
    Queued,
    /// Kept untried behind others, or let go and not tried since.
    Follower,
    /// Tried, and not at its end: everything else of its lane waits for it.
    Head,
    /// Taken out by a person: nobody waits for it.
    Out,
    /// At its end.
    Done,
}

#[derive(Debug)]
struct Message {
    lane: usize,
    place: Place,
    /// The message that it waits for by its own wish.
    follows: Option<String>,
}

/// Everything that was ever published, in order.
#[derive(Debug, Default)]
pub(super) struct Model {
    messages: BTreeMap<String, Message>,
    count: usize,
}

impl Model {
    /// The next id: ids sort by their arrival.
    pub(super) fn publish(&mut self, lane: usize) -> String {
        self.count += 1;
        let id = format!("m{:04}", self.count);
        self.messages.insert(id.clone(), Message { lane, place: Place::Queued, follows: None });
        id
    }

    pub(super) fn place(&self, id: &str) -> Place {
        self.messages[id].place
    }

    pub(super) fn lane(&self, id: &str) -> usize {
        self.messages[id].lane
    }

    pub(super) fn put(&mut self, id: &str, place: Place) {
        let message = self.messages.get_mut(id).unwrap();
        message.place = place;
        if matches!(place, Place::Done | Place::Out) {
            message.follows = None;
        }
        if place == Place::Done {
            self.let_followers_go(id);
        }
    }

    /// Whoever waits for it by name need not any more.
    pub(super) fn let_followers_go(&mut self, id: &str) {
        for other in self.messages.values_mut().filter(|other| other.follows.as_deref() == Some(id)) {
            other.follows = None;
        }
    }

    pub(super) fn follow(&mut self, id: &str, first: Option<&str>) {
        self.messages.get_mut(id).unwrap().follows = first.map(str::to_owned);
    }

    /// It is a message's turn: is anybody in front?
    pub(super) fn has_its_turn(&self, id: &str) {
        let message = &self.messages[id];
        if let Some(first) = &message.follows {
            panic!("{id} is tried before {first}, which it follows: {self:#?}");
        }
        for (other, found) in self.messages.iter().filter(|(other, _)| *other != id) {
            if found.lane != message.lane {
                continue;
            }
            let in_front = match (found.place, message.place) {
                (Place::Head, _) => true,
                (Place::Out | Place::Done, _) => false,
                // Its turn came before; who has come back into the lane since then waits for it too.
                (_, Place::Head) => false,
                // One that was taken out comes back when it comes back.
                (Place::Follower, Place::Out) => true,
                (Place::Queued, Place::Out) => false,
                (Place::Follower | Place::Queued, _) => **other < *id,
            };
            assert!(!in_front, "{id} is tried before {other}: {self:#?}");
        }
    }

    pub(super) fn unfinished(&self) -> Vec<&str> {
        let open = self.messages.iter().filter(|(_, message)| message.place != Place::Done);
        open.map(|(id, _)| id.as_str()).collect()
    }
}
