//! What to measure, and for how long.

use std::fmt;
use std::ops::Deref;

use bench::Asked;
use clap::{Parser, ValueEnum};

#[derive(Parser)]
#[command(name = "embedded", about = "The figures of the embedded queue")]
pub(crate) struct Arguments {
    #[command(flatten)]
    asked: Asked<Part>,
    /// Messages that wait in the large file
    #[arg(long, default_value_t = 10_000_000, value_parser = clap::value_parser!(u32).range(100_000..))]
    waiting: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Part {
    Throughput,
    Http,
    Lateness,
    Waiting,
    Start,
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Throughput => "throughput",
            Self::Http => "HTTP handler",
            Self::Lateness => "lateness",
            Self::Waiting => "waiting messages",
            Self::Start => "start",
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
    pub(crate) fn waiting(&self) -> u32 {
        if self.quick { self.waiting.min(200_000) } else { self.waiting }
    }
}
