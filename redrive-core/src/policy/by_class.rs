//! A schedule for all classes, or one for each.

use std::collections::BTreeMap;
use std::fmt;

use serde::de;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{Class, Schedule};

/// A layer's schedules: one for all classes that are retried, or one by class.
///
/// As text it is a schedule; as a map its keys are `default` and class names.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ByClass {
    /// The schedule for every retried class that has none of its own.
    pub general: Option<Schedule>,
    /// The schedules of single classes. The only way to retry a permanent failure.
    pub classes: BTreeMap<Class, Schedule>,
    /// Whether it stands for the whole layer, so that nothing below it shows through.
    whole: bool,
}

impl ByClass {
    /// Adds a schedule for one class.
    #[must_use]
    pub fn and(mut self, class: Class, schedule: Schedule) -> Self {
        self.classes.insert(class, schedule);
        self.whole = false;
        self
    }

    /// One schedule for all.
    pub fn general(schedule: Schedule) -> Self {
        Self { general: Some(schedule), classes: BTreeMap::new(), whole: true }
    }

    /// The schedule for a class: its own, else the general one if the class is retried at all.
    pub fn get(&self, class: Class) -> Option<&Schedule> {
        self.classes.get(&class).or(if class.is_retried() { self.general.as_ref() } else { None })
    }

    /// Every schedule with the key it stands under.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &Schedule)> {
        let general = self.general.iter().map(|schedule| ("default", schedule));
        general.chain(self.classes.iter().map(|(class, schedule)| (class.as_str(), schedule)))
    }

    /// Every schedule, to be changed.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Schedule> {
        self.general.iter_mut().chain(self.classes.values_mut())
    }

    /// Lays this over `base`: a single schedule replaces all of it, a map replaces what it names.
    #[must_use]
    pub fn over(self, base: Self) -> Self {
        if self.whole {
            return self;
        }
        let mut classes = base.classes;
        classes.extend(self.classes);
        Self { general: self.general.or(base.general), classes, whole: false }
    }
}

impl Serialize for ByClass {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.general {
            Some(schedule) if self.whole && self.classes.is_empty() => schedule.serialize(serializer),
            _ => serializer.collect_map(self.iter()),
        }
    }
}

impl<'de> Deserialize<'de> for ByClass {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;

        impl<'de> de::Visitor<'de> for Visitor {
            type Value = ByClass;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a schedule such as 10s, 1m x3, or a map from classes to schedules")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<ByClass, E> {
                text.parse().map(ByClass::general).map_err(E::custom)
            }

            fn visit_map<A: de::MapAccess<'de>>(self, mut map: A) -> Result<ByClass, A::Error> {
                let mut by_class = ByClass::default();
                while let Some(key) = map.next_key::<String>()? {
                    let schedule = map.next_value()?;
                    if key == "default" {
                        by_class.general = Some(schedule);
                    } else {
                        by_class.classes.insert(key.parse().map_err(de::Error::custom)?, schedule);
                    }
                }
                if by_class == ByClass::default() {
                    return Err(de::Error::custom("an empty map retries nothing; leave the key out"));
                }
                Ok(by_class)
            }
        }

        deserializer.deserialize_any(Visitor)
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for ByClass {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "SchedulesByClass".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let schedule = generator.subschema_for::<Schedule>();
        let mut keys = serde_json::Map::new();
        for key in ["default"].into_iter().chain(Class::ALL.iter().map(|class| class.as_str())) {
            keys.insert(key.to_owned(), schedule.clone().into());
        }
        schemars::json_schema!({
            "anyOf": [schedule, { "type": "object", "properties": keys, "additionalProperties": false }],
            "description": "one schedule for all classes that are retried, or one by class"
        })
    }
}
