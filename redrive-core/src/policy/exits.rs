//! Where messages go when nothing is left to try.

use std::collections::BTreeMap;
use std::fmt;

use serde::de;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{Class, Exit, Reason};

/// The exits of a policy: a default, and one by class or by reason.
///
/// A reason's exit comes before its class's, a class's before the default. Where nobody said anything, a spent
/// budget leads to the dead letters, and permanent failures, poison and exhausted unknown ones are parked.
///
/// ```
/// use redrive_core::policy::Exits;
/// use redrive_core::{Class, Exit, Reason};
///
/// let exits: Exits = serde_json::from_str(r#"{ "default": "dead_letter", "POISON": "park", "STALE": "discard" }"#)?;
/// assert_eq!(exits.of(Class::Transient, &Reason::new("STALE")?), Exit::Discard);
/// assert_eq!(Exits::default().of(Class::Unknown, &Reason::UNKNOWN_FAILURE), Exit::Park);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Exits {
    /// The exit for all that is not named.
    pub default: Option<Exit>,
    /// Exits by class.
    pub classes: BTreeMap<Class, Exit>,
    /// Exits by reason.
    pub reasons: BTreeMap<Reason, Exit>,
}

impl Exits {
    /// The exit for a failure of this class and reason.
    pub fn of(&self, class: Class, reason: &Reason) -> Exit {
        let named = self.reasons.get(reason).or_else(|| self.classes.get(&class)).copied();
        named.or(self.default).unwrap_or(match class {
            Class::Transient | Class::Contention => Exit::DeadLetter,
            Class::PermanentTechnical | Class::PermanentBusiness | Class::Poison | Class::Unknown => {
                Exit::Park
            }
        })
    }

    /// Lays these over `base`: what they name replaces it.
    #[must_use]
    pub fn over(self, mut base: Self) -> Self {
        base.classes.extend(self.classes);
        base.reasons.extend(self.reasons);
        Self { default: self.default.or(base.default), ..base }
    }

    /// Every exit with the key it stands under.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Exit)> {
        let default = self.default.iter().map(|exit| ("default", *exit));
        let classes = self.classes.iter().map(|(class, exit)| (class.as_str(), *exit));
        default.chain(classes).chain(self.reasons.iter().map(|(reason, exit)| (reason.as_str(), *exit)))
    }
}

impl Serialize for Exits {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

impl<'de> Deserialize<'de> for Exits {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;

        impl<'de> de::Visitor<'de> for Visitor {
            type Value = Exits;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map from `default`, classes or reasons to exits")
            }

            fn visit_map<A: de::MapAccess<'de>>(self, mut map: A) -> Result<Exits, A::Error> {
                let mut exits = Exits::default();
                while let Some(key) = map.next_key::<String>()? {
                    let exit = map.next_value()?;
                    if key == "default" {
                        exits.default = Some(exit);
                    } else if let Ok(class) = key.parse() {
                        exits.classes.insert(class, exit);
                    } else {
                        exits.reasons.insert(key.parse().map_err(de::Error::custom)?, exit);
                    }
                }
                Ok(exits)
            }
        }

        deserializer.deserialize_map(Visitor)
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for Exits {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Exits".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let exit = generator.subschema_for::<Exit>();
        schemars::json_schema!({
            "type": "object",
            "properties": { "default": exit },
            "patternProperties": { "^[A-Z][A-Z0-9_]{0,63}$": exit },
            "additionalProperties": false,
            "description": "where messages go when nothing is left to try, by class or reason"
        })
    }
}
