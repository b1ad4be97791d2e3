//! What `redrive demo` is told.

use clap::Args;

/// So much faster a demo without people is, unless it is told otherwise.
const HEADLESS: f64 = 10.0;

#[derive(Debug, Args)]
#[command(
    after_help = "Needs nothing: queue, ledger and downstream are its own, in a folder that is removed at the end, \
                  also after Ctrl-C.

Examples:
  redrive demo
  redrive demo --speed 3
  redrive demo --headless     nobody looks: no waits, the summary on stdout, 0 when all came out as promised"
)]
pub(crate) struct DemoArguments {
    /// Wait for nobody, and run ten times as fast: for tests
    #[arg(long)]
    pub(crate) headless: bool,
    /// So many times faster than the minute it takes
    #[arg(long, value_name = "TIMES", value_parser = speed)]
    pub(crate) speed: Option<f64>,
}

impl DemoArguments {
    pub(crate) fn speed(&self) -> f64 {
        self.speed.unwrap_or(if self.headless { HEADLESS } else { 1.0 })
    }
}

fn speed(text: &str) -> Result<f64, String> {
    let speed: f64 = text.parse().map_err(|_| "expected a number such as 2 or 0.5".to_owned())?;
    if (0.5..=20.0).contains(&speed) { Ok(speed) } else { Err("expected 0.5 to 20".to_owned()) }
}
