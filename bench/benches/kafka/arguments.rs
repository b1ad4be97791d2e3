//! What to measure, and for how long.

use std::fmt;
use std::ops::Deref;

use bench::Asked;
use clap::{Parser, ValueEnum};

#[derive(Parser)]
#[command(name = "kafka", about = "The figures of a flow on Kafka")]
pub(crate) struct Arguments {
    #[command(flatten)]
    asked: Asked<Part>,
    /// Given by this benchmark to a process of its own: one side of the no-op
    #[arg(long, hide = true, num_args = 4)]
    pub(crate) side: Option<Vec<String>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Part {
    Noop,
    Retries,
    Poison,
    Lanes,
    Lateness,
    Kill,
    Standstill,
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Noop => "no-op and memory",
            Self::Retries => "retries",
            Self::Poison => "poison",
            Self::Lanes => "lanes",
            Self::Lateness => "lateness",
            Self::Kill => "kills in mid back-off",
            Self::Standstill => "after a kill",
        })
    }
}

impl Deref for Arguments {
    type Target = Asked<Part>;

    fn deref(&self) -> &Asked<Part> {
        &self.asked
    }
}

impl Arguments {
    /// Rounds of each ratio: three, since a group is joined in each.
    pub(crate) fn rounds(&self) -> u32 {
        self.asked.rounds_or(3)
    }
}
