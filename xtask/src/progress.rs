//! Where a task stands: a bar on a terminal, one line a step elsewhere.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use crate::error::{Error, Result};
use crate::interrupt;

/// The steps of a task, run one after the other until one fails.
pub(crate) struct Steps {
    bar: Option<ProgressBar>,
    total: usize,
    done: Vec<Step>,
}

/// A step that ran.
#[derive(Debug, Clone)]
pub(crate) struct Step {
    pub(crate) name: &'static str,
    pub(crate) took: Duration,
    pub(crate) passed: bool,
}

impl Steps {
    /// A task of so many steps.
    pub(crate) fn new(total: usize) -> Self {
        interrupt::watch();
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new(total as u64);
            if let Ok(style) =
                ProgressStyle::with_template("{spinner} [{bar:24}] {pos}/{len} {msg} ({elapsed})")
            {
                bar.set_style(style.progress_chars("=> "));
            }
            bar.enable_steady_tick(Duration::from_millis(120));
            bar
        });
        Self { bar, total, done: Vec::new() }
    }

    /// Runs a step whose output is hidden.
    pub(crate) fn run<T>(&mut self, name: &'static str, step: impl FnOnce() -> Result<T>) -> Result<T> {
        match &self.bar {
            Some(bar) => bar.set_message(name),
            None => self.say(name),
        }
        self.timed(name, step)
    }

    /// Runs a step that writes to the terminal itself; the bar stands aside.
    pub(crate) fn run_shown<T>(&mut self, name: &'static str, step: impl FnOnce() -> Result<T>) -> Result<T> {
        if let Some(bar) = &self.bar {
            bar.disable_steady_tick();
            bar.finish_and_clear();
        }
        self.say(name);
        let outcome = self.timed(name, step);
        if let Some(bar) = &self.bar
            && self.done.len() < self.total
        {
            bar.reset();
            bar.set_position(self.done.len() as u64);
            bar.enable_steady_tick(Duration::from_millis(120));
        }
        outcome
    }

    /// Says something between two steps.
    pub(crate) fn note(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| eprintln!("{text}")),
            None => eprintln!("{text}"),
        }
    }

    /// Names the packages that were installed, if any.
    pub(crate) fn note_installed(&self, packages: &[&str]) {
        if !packages.is_empty() {
            self.note(&format!("installed {}", packages.join(" ")));
        }
    }

    /// What ran so far.
    pub(crate) fn done(&self) -> &[Step] {
        &self.done
    }

    /// Takes the bar off the terminal.
    pub(crate) fn clear(&self) {
        if let Some(bar) = &self.bar {
            bar.disable_steady_tick();
            bar.finish_and_clear();
        }
    }

    fn say(&self, name: &str) {
        eprintln!("[{}/{}] {name}", self.done.len() + 1, self.total);
    }

    fn timed<T>(&mut self, name: &'static str, step: impl FnOnce() -> Result<T>) -> Result<T> {
        let start = Instant::now();
        let outcome = interrupt::check().and_then(|()| step());
        let outcome = match outcome {
            // A child that was told to end fails in its own way; what happened is the interruption.
            Err(Error::Failed(_)) if interrupt::check().is_err() => Err(Error::Interrupted),
            other => other,
        };
        self.done.push(Step { name, took: start.elapsed(), passed: outcome.is_ok() });
        if let Some(bar) = &self.bar {
            bar.inc(1);
        }
        outcome
    }
}

impl Drop for Steps {
    fn drop(&mut self) {
        self.clear();
    }
}

/// A duration as people read it: `0.4 s`, `12.3 s`, `3m 05s`.
pub(crate) fn human(duration: Duration) -> String {
    let seconds = duration.as_secs_f64();
    if seconds < 60.0 {
        return format!("{seconds:.1} s");
    }
    let whole = duration.as_secs();
    format!("{}m {:02}s", whole / 60, whole % 60)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::failed;

    #[test]
    fn a_failed_step_is_on_the_record_with_those_before_it() {
        let mut steps = Steps::new(3);
        assert!(steps.run("first", || Ok(())).is_ok());
        assert!(steps.run("second", || Err::<(), _>(failed("no"))).is_err());
        let done: Vec<_> = steps.done().iter().map(|step| (step.name, step.passed)).collect();
        assert_eq!(done, [("first", true), ("second", false)]);
    }

    #[test]
    fn durations_read_well() {
        assert_eq!(human(Duration::from_millis(420)), "0.4 s");
        assert_eq!(human(Duration::from_secs(185)), "3m 05s");
    }
}
