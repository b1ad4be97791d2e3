//! A plot as SVG: panels over one axis of minutes, with bands above them. Just what the pages need.

use std::fmt;

const WIDTH: f64 = 860.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 40.0;
const BAND: f64 = 22.0;
const PANEL: f64 = 150.0;
const GAP: f64 = 34.0;

pub(crate) struct Plot {
    pub(crate) title: String,
    /// The last minute.
    pub(crate) until: f64,
    pub(crate) bands: Vec<Band>,
    pub(crate) panels: Vec<Panel>,
}

/// Stretches of time with something in common, in minutes.
pub(crate) struct Band {
    pub(crate) name: String,
    pub(crate) colour: &'static str,
    pub(crate) spans: Vec<(f64, f64)>,
}

/// A line over time.
pub(crate) struct Panel {
    pub(crate) name: String,
    pub(crate) colour: &'static str,
    /// The upper end of its axis.
    pub(crate) most: f64,
    /// A level worth a line of its own.
    pub(crate) mark: Option<(f64, String)>,
    /// Minutes and values.
    pub(crate) points: Vec<(f64, f64)>,
}

impl Plot {
    fn x(&self, minute: f64) -> f64 {
        LEFT + (WIDTH - LEFT - RIGHT) * minute / self.until.max(1.0)
    }

    fn panels_begin(&self) -> f64 {
        TOP + BAND * self.bands.len() as f64 + GAP / 2.0
    }

    fn height(&self) -> f64 {
        self.panels_begin() + (PANEL + GAP) * self.panels.len() as f64 + 12.0
    }

    fn band(&self, f: &mut fmt::Formatter<'_>, band: &Band, top: f64) -> fmt::Result {
        let Band { name, colour, spans } = band;
        for (from, to) in spans {
            let (left, right) = (self.x(*from), self.x(*to));
            let (width, height) = ((right - left).max(1.0), BAND - 6.0);
            writeln!(
                f,
                r#"<rect x="{left:.1}" y="{top:.1}" width="{width:.1}" height="{height}" fill="{colour}" opacity="0.75"/>"#
            )?;
        }
        let (x, y) = (LEFT + (WIDTH - LEFT - RIGHT) / 2.0, top + 12.0);
        writeln!(f, r##"<text x="{x:.1}" y="{y:.1}" text-anchor="middle" fill="#fff">{name}</text>"##)
    }

    fn panel(&self, f: &mut fmt::Formatter<'_>, panel: &Panel, top: f64) -> fmt::Result {
        let Panel { name, colour, most, mark, points } = panel;
        let y = |value: f64| top + PANEL * (1.0 - value / most);
        let (bottom, right) = (top + PANEL, WIDTH - RIGHT);
        writeln!(f, r#"<text x="{LEFT}" y="{:.1}" fill="{colour}">{name}</text>"#, top - 6.0)?;
        for quarter in 0..=4 {
            let value = most * f64::from(quarter) / 4.0;
            let at = y(value);
            writeln!(f, r##"<path d="M{LEFT} {at:.1}H{right}" stroke="#ddd"/>"##)?;
            writeln!(
                f,
                r#"<text x="{:.1}" y="{:.1}" text-anchor="end">{value:.0}</text>"#,
                LEFT - 8.0,
                at + 4.0
            )?;
        }
        if let Some((value, what)) = mark {
            let at = y(*value);
            writeln!(f, r##"<path d="M{LEFT} {at:.1}H{right}" stroke="#c62828" stroke-dasharray="6 4"/>"##)?;
            writeln!(f, r#"<text x="{right}" y="{:.1}" text-anchor="end">{what}</text>"#, at - 4.0)?;
        }
        write!(f, r#"<path fill="none" stroke="{colour}" stroke-width="1.5" d=""#)?;
        for (nth, (minute, value)) in points.iter().enumerate() {
            let step = if nth == 0 { 'M' } else { 'L' };
            write!(f, "{step}{:.1} {:.1}", self.x(*minute), y(*value).max(top))?;
        }
        writeln!(f, r#""/>"#)?;
        for minute in (0..).step_by(10).map(f64::from).take_while(|minute| *minute <= self.until) {
            let at = self.x(minute);
            writeln!(f, r##"<path d="M{at:.1} {bottom:.1}v4" stroke="#333"/>"##)?;
            writeln!(
                f,
                r#"<text x="{at:.1}" y="{:.1}" text-anchor="middle">{minute:.0} min</text>"#,
                bottom + 16.0
            )?;
        }
        Ok(())
    }
}

impl fmt::Display for Plot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let height = self.height();
        writeln!(
            f,
            r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0}" font-family="sans-serif" font-size="12" fill="#333">"##
        )?;
        writeln!(f, "<title>{}</title>", self.title)?;
        writeln!(f, r##"<rect width="{WIDTH}" height="{height:.0}" fill="#fff"/>"##)?;
        writeln!(f, r#"<text x="{LEFT}" y="22" font-size="16">{}</text>"#, self.title)?;
        for (nth, band) in self.bands.iter().enumerate() {
            self.band(f, band, TOP + BAND * nth as f64)?;
        }
        for (nth, panel) in self.panels.iter().enumerate() {
            self.panel(f, panel, self.panels_begin() + 16.0 + (PANEL + GAP) * nth as f64)?;
        }
        writeln!(f, "</svg>")
    }
}
