//! What happens when: the orders that are placed, and the temper of the downstream. All of it follows from the time
//! of the script, so that a demo that runs faster is the same demo.

use std::time::Duration;

/// How long the script is.
pub(crate) const LENGTH: Duration = Duration::from_secs(60);
/// Orders are placed until then, so that the last ones are through when the script ends.
const LAST_ORDER: u32 = 56;
const ORDERS_A_SECOND: u32 = 20;
/// Orders in all.
pub(crate) const ORDERS: u32 = LAST_ORDER * ORDERS_A_SECOND;
/// The schema that everybody understands, and the one that a new release of the shop writes.
pub(crate) const SCHEMA: u64 = 2;
pub(crate) const NEW_SCHEMA: u64 = 3;
/// So many calls a second the downstream takes while it limits them; less than come.
pub(crate) const LIMIT: u32 = 14;
/// How long the ones beyond are asked to wait.
pub(crate) const RETRY_AFTER: Duration = Duration::from_secs(2);

/// Orders whose bodies were cut off on their way.
const POISON: [u32; 3] = [8 * ORDERS_A_SECOND, 30 * ORDERS_A_SECOND, 52 * ORDERS_A_SECOND];

/// How the downstream behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mood {
    Calm,
    /// Every fourth call fails.
    Blips,
    /// Every call fails.
    Down,
    /// Calls beyond the limit are told to come back later.
    Limited,
}

/// A part of the script.
#[derive(Debug)]
pub(crate) struct Scene {
    /// The second in which it begins.
    pub(crate) from: u64,
    pub(crate) mood: Mood,
    pub(crate) name: &'static str,
    pub(crate) told: &'static str,
}

pub(crate) const SCENES: [Scene; 7] = [
    Scene { from: 0, mood: Mood::Calm, name: "calm", told: "orders come in, 20 a second" },
    Scene { from: 6, mood: Mood::Blips, name: "blips", told: "the downstream fails every fourth call" },
    Scene {
        from: 10,
        mood: Mood::Calm,
        name: "new schema",
        told: "a release of the shop writes some orders in schema version 3",
    },
    Scene {
        from: 14,
        mood: Mood::Down,
        name: "outage",
        told: "the downstream is down: it answers 503 for 30 seconds",
    },
    Scene { from: 44, mood: Mood::Calm, name: "back", told: "the downstream is back" },
    Scene {
        from: 50,
        mood: Mood::Limited,
        name: "rate limit",
        told: "the downstream takes 14 calls a second, and answers 429 with Retry-After beyond",
    },
    Scene { from: 56, mood: Mood::Calm, name: "calm", told: "the limit is lifted, and no more orders come" },
];

/// The scene at a time.
pub(crate) fn scene(at: Duration) -> &'static Scene {
    SCENES.iter().rev().find(|scene| scene.from <= at.as_secs()).unwrap_or(&SCENES[0])
}

/// What is special about an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Good,
    /// No handler will ever be able to read it.
    Poison,
    /// The handler does not understand it yet.
    NewSchema,
}

/// An order, by its number from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Order(pub(crate) u32);

impl Order {
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        (0..ORDERS).map(Self)
    }

    /// How many orders have been placed by a time.
    pub(crate) fn placed_by(at: Duration) -> u32 {
        ((at.as_secs_f64() * f64::from(ORDERS_A_SECOND)) as u32).saturating_add(1).min(ORDERS)
    }

    pub(crate) fn kind(self) -> Kind {
        let release = 10 * ORDERS_A_SECOND..13 * ORDERS_A_SECOND;
        match self.0 {
            number if POISON.contains(&number) => Kind::Poison,
            number if release.contains(&number) && number % 4 == 0 => Kind::NewSchema,
            _ => Kind::Good,
        }
    }

    pub(crate) fn count(kind: Kind) -> usize {
        Self::all().filter(|order| order.kind() == kind).count()
    }

    pub(crate) fn id(self) -> String {
        format!("order-{:04}", self.0 + 1)
    }

    pub(crate) fn schema(self) -> u64 {
        if self.kind() == Kind::NewSchema { NEW_SCHEMA } else { SCHEMA }
    }

    pub(crate) fn body(self) -> String {
        let cents = 900 + u64::from(self.0) * 7_919 % 20_000;
        let body = format!("{{\"order\":{},\"schema\":{},\"cents\":{cents}}}", self.0 + 1, self.schema());
        match self.kind() {
            Kind::Poison => body[..body.len() / 2].to_owned(),
            Kind::Good | Kind::NewSchema => body,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_script_has_what_it_promises() {
        assert_eq!(Order::count(Kind::Poison), 3);
        assert_eq!(Order::count(Kind::NewSchema), 15);
        let down: Vec<_> = SCENES.windows(2).filter(|two| two[0].mood == Mood::Down).collect();
        assert_eq!(down.len(), 1);
        assert_eq!(down[0][1].from - down[0][0].from, 30);
        assert!(SCENES.is_sorted_by_key(|scene| scene.from));
    }

    #[test]
    fn orders_come_at_a_steady_rate_and_end() {
        assert_eq!(Order::placed_by(Duration::ZERO), 1);
        assert_eq!(Order::placed_by(Duration::from_secs(10)), 201);
        assert_eq!(Order::placed_by(Duration::from_secs(3_600)), ORDERS);
        assert_eq!(scene(Duration::from_secs(3_600)).name, "calm");
        assert_eq!(scene(Duration::from_millis(14_000)).mood, Mood::Down);
        assert_eq!(scene(Duration::from_millis(13_999)).mood, Mood::Calm);
    }
}
