//! What to measure, and for how long.

use std::fmt;

use clap::{Parser, ValueEnum};

#[derive(Parser)]
#[command(name = "pressure", about = "What order, guards and poison cost, and how an outage ends")]
pub(crate) struct Arguments {
    /// Measure only these parts
    #[arg(long, value_enum, value_delimiter = ',', value_name = "PART")]
    only: Vec<Part>,
    /// Rounds of each ratio
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    rounds: u32,
    /// Less of everything, to see that it works: the figures mean little
    #[arg(long)]
    quick: bool,
    /// One JSON object a figure
    #[arg(long)]
    pub(crate) json: bool,
    /// Given by cargo to every benchmark
    #[arg(long, hide = true)]
    bench: bool,
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

impl Arguments {
    pub(crate) fn parts(&self) -> Vec<Part> {
        if self.only.is_empty() { Part::value_variants().to_vec() } else { self.only.clone() }
    }

    pub(crate) fn rounds(&self) -> u32 {
        if self.quick { 1 } else { self.rounds }
    }

    /// So many, or a twentieth of it in a quick run.
    pub(crate) fn scaled(&self, count: u64) -> u64 {
        if self.quick { count / 20 } else { count }
    }
}
