//! What people should know of, for as long as it is so.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::port::BrokerAlarm;

/// The alarms of a flow's broker: each by its name and by what it is about, a topic or a queue mostly.
#[derive(Debug, Default)]
pub struct Alarms {
    all: Mutex<BTreeMap<(&'static str, String), String>>,
    /// Whether there are any: asked after every batch that went well.
    any: AtomicBool,
}

impl Alarms {
    fn book(&self) -> MutexGuard<'_, BTreeMap<(&'static str, String), String>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Something is the matter; the last word on it counts.
    pub fn raise(&self, name: &'static str, about: &str, why: String) {
        self.book().insert((name, about.to_owned()), why);
        self.any.store(true, Ordering::Release);
    }

    /// It is over.
    pub fn clear(&self, name: &'static str, about: &str) {
        self.clear_all(|known, other| known == name && other == about);
    }

    /// All that fit are over.
    pub fn clear_all(&self, over: impl Fn(&'static str, &str) -> bool) {
        if !self.any.load(Ordering::Acquire) {
            return;
        }
        let mut all = self.book();
        all.retain(|(name, about), _| !over(name, about));
        self.any.store(!all.is_empty(), Ordering::Release);
    }

    /// All of them, one of each name.
    pub fn all(&self) -> Vec<BrokerAlarm> {
        let mut alarms: Vec<BrokerAlarm> =
            self.book().iter().map(|((name, _), why)| BrokerAlarm { name, why: why.clone() }).collect();
        alarms.dedup_by_key(|alarm| alarm.name);
        alarms
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_alarm_about_one_place_outlives_good_news_of_another() {
        let alarms = Alarms::default();
        alarms.raise("copy_refused", "a", "too large".to_owned());
        alarms.raise("copy_refused", "b", "not allowed".to_owned());
        alarms.clear_all(|_, about| about == "b");
        let names = |alarms: &Alarms| alarms.all().into_iter().map(|one| one.why).collect::<Vec<_>>();
        assert_eq!(names(&alarms), ["too large"]);
        alarms.clear("copy_refused", "a");
        assert_eq!(alarms.all(), []);
    }
}
