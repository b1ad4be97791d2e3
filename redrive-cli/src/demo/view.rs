//! Showing the demo: a picture that is drawn over where stderr is a terminal, lines otherwise.

use std::io::{IsTerminal as _, Write as _};
use std::time::Duration;

use super::figures::{Course, Figures};
use super::frame::{frame, one_line};
use super::script::{self, scene};
use crate::terminal;

/// Events that the picture shows.
const EVENTS: usize = 5;
/// Parked orders are told together, once in so much of the script.
const PARKED_EVERY: Duration = Duration::from_secs(3);
/// A line every so much of the script, where there is no terminal.
const LINE_EVERY: Duration = Duration::from_secs(5);

/// What is shown, and what has been seen.
pub(crate) struct View {
    draws: bool,
    course: Course,
    events: Vec<String>,
    seen: Option<Figures>,
    /// Parked orders that were told, and when the next may be.
    parked: (u64, Duration),
    next_line: Duration,
    /// Lines of the last picture, which the next one is drawn over.
    lines: usize,
    counting: String,
}

impl View {
    pub(crate) fn new(headless: bool) -> Self {
        let draws = !headless && std::io::stderr().is_terminal();
        if draws {
            write("\x1b[?25l");
        }
        Self {
            draws,
            course: Course::default(),
            events: Vec::new(),
            seen: None,
            parked: (0, Duration::ZERO),
            next_line: Duration::ZERO,
            lines: 0,
            counting: String::new(),
        }
    }

    /// Shows the figures of this moment, and says what has happened since the last.
    pub(crate) fn show(&mut self, figures: &Figures) {
        self.course.add(figures);
        for event in news(self.seen.as_ref(), figures) {
            self.event(figures.at, &event);
        }
        self.seen = Some(figures.clone());
        let (told, next) = self.parked;
        if figures.parked > told && figures.at >= next {
            self.parked = (figures.parked, figures.at + PARKED_EVERY);
            let orders = match figures.parked - told {
                1 => "an order is".to_owned(),
                more => format!("{more} orders are"),
            };
            self.event(figures.at, &format!("{orders} parked for a person; the others go on"));
        }
        if self.draws {
            let width = terminal::stderr_width();
            self.draw(&frame(figures, &self.course, &self.events, width));
        } else if figures.at >= self.next_line {
            self.next_line = figures.at + LINE_EVERY;
            terminal::say(&one_line(figures));
        }
    }

    fn event(&mut self, at: Duration, text: &str) {
        let event = format!("{:>3} s  {text}", at.as_secs());
        if self.draws {
            let over = (self.events.len() + 1).saturating_sub(EVENTS);
            self.events.drain(..over);
            self.events.push(event);
        } else {
            terminal::say(&event);
        }
    }

    fn draw(&mut self, picture: &str) {
        let mut text = String::new();
        if self.lines > 0 {
            text.push_str(&format!("\x1b[{}A", self.lines));
        }
        for line in picture.lines() {
            text.push_str(&format!("\x1b[2K{line}\n"));
        }
        // What the last picture had more.
        text.push_str("\x1b[J");
        self.lines = picture.lines().count();
        write(&text);
    }

    /// A line that is written over by the next one; nothing where there is no terminal.
    pub(crate) fn count_down(&mut self, text: String) {
        if self.draws && text != self.counting {
            write(&format!("\r\x1b[2K{text}"));
            self.counting = text;
        }
    }
}

impl Drop for View {
    fn drop(&mut self) {
        if self.draws {
            write("\r\x1b[2K\x1b[?25h");
        }
    }
}

/// Where nobody listens, nothing is left to do.
fn write(text: &str) {
    let mut stderr = anstream::stderr().lock();
    let _ = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
}

/// What has happened between two moments.
fn news(before: Option<&Figures>, now: &Figures) -> Vec<String> {
    let mut news = Vec::new();
    let scene = scene(now.at);
    if before.is_none_or(|before| script::scene(before.at).from != scene.from) {
        news.push(scene.told.to_owned());
    }
    let Some(before) = before else { return news };
    // It looks every few seconds whether the downstream is back; that it is not is no news.
    match (before.is_held(), now.is_held()) {
        (false, true) => news.push("breaker open: the flow holds".to_owned()),
        (true, false) => news.push("breaker closed: the flow goes on".to_owned()),
        _ => {}
    }
    news
}

#[cfg(test)]
mod tests {
    use redrive::core::guard::BreakerState;

    use super::*;

    fn at(second: u64, breaker: BreakerState) -> Figures {
        Figures { at: Duration::from_secs(second), breaker: Some(breaker), ..Figures::default() }
    }

    #[test]
    fn news_are_told_once() {
        let calm = at(13, BreakerState::Closed);
        let down = at(14, BreakerState::Open);
        assert_eq!(news(None, &calm).len(), 1);
        assert_eq!(news(Some(&calm), &calm), Vec::<String>::new());
        let told = news(Some(&calm), &down);
        assert_eq!(told.len(), 2, "{told:?}");
        let probing = at(17, BreakerState::HalfOpen);
        assert_eq!(news(Some(&down), &probing), Vec::<String>::new());
        assert_eq!(news(Some(&probing), &down), Vec::<String>::new());
        assert_eq!(news(Some(&at(43, BreakerState::HalfOpen)), &at(43, BreakerState::Closed)).len(), 1);
    }
}
