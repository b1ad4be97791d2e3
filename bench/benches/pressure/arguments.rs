//! What to measure, and for how long.

use std::fmt;
use std::ops::Deref;

use bench::Asked;
use clap::{Parser, ValueEnum};

#[derive(Parser)]
#[command(name = "pressure", about = "What order, guards and poison cost, and how an outage ends")]
pub(crate) struct Arguments {
    #[command(flatten)]
    asked: Asked<Part>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Part {
    Lanes,
    Order,
    Poison,
    Guards,
    Recovery,
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Lanes => "lanes",
            Self::Order => "order",
            Self::Poison => "poison",
            Self::Guards => "guards",
            Self::Recovery => "recovery",
        })
    }
}

impl Deref for Arguments {
    type Target = Asked<Part>;

    fn deref(&self) -> &Asked<Part> {
        &self.asked
    }
}
