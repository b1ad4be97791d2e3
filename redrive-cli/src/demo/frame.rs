//! One picture of the demo, as lines of text.

use std::fmt::Write as _;

use anstyle::{AnsiColor, Style};
use redrive::core::guard::BreakerState;

use super::figures::{Course, Figures, spark};
use super::script::{LENGTH, Mood, SCENES, scene};
use crate::terminal::{BOLD, DIM};

const RED: Style = AnsiColor::Red.on_default().bold();
const YELLOW: Style = AnsiColor::Yellow.on_default();
const GREEN: Style = AnsiColor::Green.on_default();
const CYAN: Style = AnsiColor::Cyan.on_default();
const PLAIN: Style = Style::new();
/// Columns of a sparkline.
const COLUMNS: usize = 30;

/// A line whose parts have colours, and that is cut where the terminal ends.
#[derive(Debug, Default)]
struct Line(Vec<(Style, String)>);

impl Line {
    fn with(mut self, style: Style, text: impl Into<String>) -> Self {
        self.0.push((style, text.into()));
        self
    }

    fn print(&self, into: &mut String, width: usize) {
        let mut left = width;
        for (style, text) in &self.0 {
            let shown: String = text.chars().take(left).collect();
            left -= shown.chars().count();
            let _ = write!(into, "{style}{shown}{style:#}");
        }
        into.push('\n');
    }
}

/// The picture. Each line ends with a line break, and none is wider than `width`.
pub(crate) fn frame(figures: &Figures, course: &Course, events: &[String], width: usize) -> String {
    let now = scene(figures.at);
    let line = Line::default;
    let of = |style, name: &str, count: u64, values: &[u64], note: String| {
        line()
            .with(DIM, format!("  {name:<10}"))
            .with(BOLD, format!("{count:>6}  "))
            .with(style, format!("{:<COLUMNS$}", spark(values)))
            .with(DIM, format!("  {note}"))
    };
    let mut lines = vec![
        line()
            .with(BOLD, "redrive demo")
            .with(DIM, format!("  {} s of {}  ", figures.at.as_secs(), LENGTH.as_secs()))
            .with(colour(now.mood), now.told),
        line(),
        line()
            .with(DIM, format!("  {:<10}", "orders"))
            .with(BOLD, format!("{:>6}", figures.placed))
            .with(PLAIN, "  placed"),
        of(GREEN, "delivered", figures.delivered, &course.delivered, "taken by the downstream".to_owned()),
        of(
            CYAN,
            "attempts",
            figures.attempts,
            &course.attempts,
            format!("{} of them failed", figures.failed),
        ),
        of(
            YELLOW,
            "queued",
            figures.ready + figures.waiting,
            &course.queued,
            format!("{} wait for a retry", figures.waiting),
        ),
        line()
            .with(DIM, format!("  {:<10}", "parked"))
            .with(if figures.parked > 0 { YELLOW } else { BOLD }, format!("{:>6}", figures.parked))
            .with(PLAIN, "  for a person")
            .with(DIM, format!("   dead {}   recovered {}", figures.dead, figures.recovered)),
        breaker(figures.breaker),
    ];
    lines.push(match figures.alarms.as_slice() {
        [] => line().with(DIM, format!("  {:<10}{:>6}", "alarms", "none")),
        alarms => {
            line().with(DIM, format!("  {:<10}", "alarms")).with(RED, format!("  {}", alarms.join("; ")))
        }
    });
    lines.extend([line(), timeline(figures), line()]);
    lines.extend(events.iter().map(|event| line().with(DIM, format!("  {event}"))));
    let mut text = String::new();
    for line in lines {
        line.print(&mut text, width);
    }
    text
}

fn colour(mood: Mood) -> Style {
    match mood {
        Mood::Calm => GREEN,
        Mood::Blips | Mood::Limited => YELLOW,
        Mood::Down => RED,
    }
}

fn breaker(state: Option<BreakerState>) -> Line {
    let (style, name, note) = match state {
        Some(BreakerState::Open) => (RED, "open", "the flow holds; nothing is called, nothing is charged"),
        Some(BreakerState::HalfOpen) => {
            (YELLOW, "half", "a few calls find out whether the downstream is back")
        }
        Some(BreakerState::Closed) => (GREEN, "closed", ""),
        None => (PLAIN, "off", ""),
    };
    Line::default()
        .with(DIM, format!("  {:<10}", "breaker"))
        .with(style, format!("{name:>6}"))
        .with(DIM, format!("  {note}"))
}

/// The scenes in their order, the present one set off.
fn timeline(figures: &Figures) -> Line {
    let now = scene(figures.at);
    let mut line = Line::default().with(PLAIN, "  ");
    for (at, scene) in SCENES.iter().enumerate() {
        if at > 0 {
            line = line.with(DIM, " ─ ");
        }
        line = if scene.from == now.from {
            line.with(colour(scene.mood).invert(), format!(" {} ", scene.name))
        } else {
            line.with(DIM, scene.name)
        };
    }
    line
}

/// The same in one line, where there is no terminal to draw on.
pub(crate) fn one_line(figures: &Figures) -> String {
    let breaker = match figures.breaker {
        Some(BreakerState::Open) => "open",
        Some(BreakerState::HalfOpen) => "half open",
        Some(BreakerState::Closed) => "closed",
        None => "off",
    };
    format!(
        "{:>3} s  {} placed, {} delivered, {} attempts ({} failed), {} queued ({} wait), {} parked, {} dead, breaker {breaker}",
        figures.at.as_secs(),
        figures.placed,
        figures.delivered,
        figures.attempts,
        figures.failed,
        figures.ready + figures.waiting,
        figures.waiting,
        figures.parked,
        figures.dead,
    )
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn plain(text: &str) -> String {
        anstream::adapter::strip_str(text).to_string()
    }

    fn outage() -> (Figures, Course) {
        let mut course = Course::default();
        let mut figures = Figures::default();
        for second in 0..=30 {
            let calm = second < 14;
            figures = Figures {
                at: Duration::from_secs(second),
                placed: second * 20,
                delivered: second.min(14) * 20,
                attempts: second.min(14) * 22 + second.saturating_sub(14),
                failed: 40,
                ready: second.saturating_sub(14) * 20,
                waiting: 9,
                in_hand: 8,
                parked: 16,
                dead: 0,
                recovered: 12,
                breaker: Some(if calm { BreakerState::Closed } else { BreakerState::Open }),
                alarms: if calm { vec![] } else { vec!["breaker_open: messages are held".to_owned()] },
            };
            course.add(&figures);
        }
        (figures, course)
    }

    #[test]
    fn a_picture_of_the_outage() {
        let (figures, course) = outage();
        let events = ["14 s  the downstream is down".to_owned(), "14 s  breaker open".to_owned()];
        insta::assert_snapshot!(plain(&frame(&figures, &course, &events, 100)));
    }

    #[test]
    fn no_line_is_wider_than_the_terminal() {
        let (figures, course) = outage();
        for width in [40, 60, 80] {
            let text = plain(&frame(&figures, &course, &["a long event ".repeat(20)], width));
            assert!(text.lines().all(|line| line.chars().count() <= width), "{text}");
        }
    }

    #[test]
    fn a_line_says_the_same() {
        let (figures, _) = outage();
        insta::assert_snapshot!(one_line(&figures));
    }
}
