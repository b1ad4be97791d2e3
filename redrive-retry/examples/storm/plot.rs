//! The plots, as SVG.

use std::fmt::Write as _;

use redrive_retry::Jitter;

use super::{Herd, Outage, Protection};

const WIDTH: f64 = 860.0;
const LEFT: f64 = 60.0;
const RIGHT: f64 = 20.0;
const PANEL: f64 = 190.0;
const GAP: f64 = 62.0;
const COLOURS: [&str; 5] = ["#6b7280", "#dc2626", "#ea580c", "#2563eb", "#059669"];

/// One line of a panel.
struct Line<'a> {
    name: &'a str,
    points: Vec<(f64, f64)>,
}

/// Axes and lines.
struct Panel<'a> {
    title: &'a str,
    across: &'a str,
    most: (f64, f64),
    /// Marks on both axes.
    steps: (f64, f64),
    /// A part of the panel that is shaded, from and to.
    shade: Option<(f64, f64)>,
    lines: Vec<Line<'a>>,
}

impl Panel<'_> {
    fn draw(&self, svg: &mut String, top: f64, colours: &[&str]) {
        let (wide, high) = (WIDTH - LEFT - RIGHT, PANEL);
        let x = |value: f64| LEFT + value / self.most.0 * wide;
        let y = |value: f64| top + high - value.min(self.most.1) / self.most.1 * high;
        put(svg, &format!(r#"<text x="{LEFT}" y="{:.1}" class="title">{}</text>"#, top - 10.0, self.title));
        if let Some((from, to)) = self.shade {
            let (from, to) = (x(from), x(to));
            put(
                svg,
                &format!(
                    r#"<rect x="{from:.1}" y="{top:.1}" width="{:.1}" height="{high}" class="shade"/>"#,
                    to - from
                ),
            );
        }
        let mut mark = 0.0;
        while mark <= self.most.1 + 1e-9 {
            let at = y(mark);
            put(
                svg,
                &format!(
                    r#"<line x1="{LEFT}" y1="{at:.1}" x2="{:.1}" y2="{at:.1}" class="grid"/>"#,
                    LEFT + wide
                ),
            );
            put(
                svg,
                &format!(
                    r#"<text x="{:.1}" y="{:.1}" class="mark" text-anchor="end">{}</text>"#,
                    LEFT - 8.0,
                    at + 4.0,
                    number(mark)
                ),
            );
            mark += self.steps.1;
        }
        let mut mark = 0.0;
        while mark <= self.most.0 + 1e-9 {
            put(
                svg,
                &format!(
                    r#"<text x="{:.1}" y="{:.1}" class="mark" text-anchor="middle">{}</text>"#,
                    x(mark),
                    top + high + 16.0,
                    number(mark)
                ),
            );
            mark += self.steps.0;
        }
        put(
            svg,
            &format!(
                r#"<text x="{:.1}" y="{:.1}" class="mark" text-anchor="end">{}</text>"#,
                LEFT + wide,
                top + high + 32.0,
                self.across
            ),
        );
        for (line, colour) in self.lines.iter().zip(colours) {
            let points: String = line.points.iter().fold(String::new(), |mut all, (a, b)| {
                let _ = write!(all, "{:.1},{:.1} ", x(*a), y(*b));
                all
            });
            put(
                svg,
                &format!(
                    r#"<polyline points="{}" fill="none" stroke="{colour}" stroke-width="1.8"/>"#,
                    points.trim_end()
                ),
            );
        }
    }

    fn legend(&self, svg: &mut String, top: f64, colours: &[&str]) {
        for (place, (line, colour)) in self.lines.iter().zip(colours).enumerate() {
            let x = LEFT + (place % 3) as f64 * 260.0;
            let y = top + (place / 3) as f64 * 18.0;
            put(
                svg,
                &format!(
                    r#"<line x1="{x}" y1="{y}" x2="{:.1}" y2="{y}" stroke="{colour}" stroke-width="3"/>"#,
                    x + 22.0
                ),
            );
            put(
                svg,
                &format!(r#"<text x="{:.1}" y="{:.1}" class="mark">{}</text>"#, x + 28.0, y + 4.0, line.name),
            );
        }
    }
}

fn put(svg: &mut String, element: &str) {
    svg.push_str("  ");
    svg.push_str(element);
    svg.push('\n');
}

fn number(value: f64) -> String {
    if (value - value.round()).abs() < 1e-9 { format!("{value:.0}") } else { format!("{value:.1}") }
}

fn begin(height: f64, title: &str) -> String {
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{title}\">\n"
    );
    put(
        &mut svg,
        "<style>text { font: 12px sans-serif; fill: #374151 } .title { font-size: 14px; font-weight: bold } .mark { fill: #6b7280 } .grid { stroke: #e5e7eb } .shade { fill: #fee2e2 }</style>",
    );
    put(&mut svg, &format!(r##"<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>"##));
    svg
}

/// The outage: what arrives at the server, and what succeeds.
pub(crate) fn draw_outage(seen: &[Outage]) -> String {
    let seconds = seen.iter().map(|outage| outage.success.len()).max().unwrap_or(1) as f64;
    let lines = |values: fn(&Outage) -> &[f64], scale: f64| {
        seen.iter()
            .map(|outage| Line {
                name: Protection::name(outage.protection),
                points: values(outage)
                    .iter()
                    .enumerate()
                    .map(|(at, value)| (at as f64 + 0.5, value * scale))
                    .collect(),
            })
            .collect()
    };
    let shade = Some((Outage::STOPS as f64, Outage::GOES_ON as f64));
    let load = Panel {
        title: "Requests that arrive at the server, for each call that is made",
        across: "seconds; the server stands still in the shaded part",
        most: (seconds, 12.0),
        steps: (10.0, 2.0),
        shade,
        lines: lines(|outage| &outage.amplification, 1.0),
    };
    let success = Panel {
        title: "Calls that succeed, in percent of those begun in the same second",
        lines: lines(|outage| &outage.success, 100.0),
        most: (seconds, 100.0),
        steps: (10.0, 25.0),
        ..load_like(&load)
    };
    let height = 2.0 * (PANEL + GAP) + 60.0;
    let mut svg = begin(height, "Load and success of a server in trouble, by how its clients retry");
    load.draw(&mut svg, 30.0, &COLOURS);
    success.draw(&mut svg, 30.0 + PANEL + GAP, &COLOURS);
    success.legend(&mut svg, 30.0 + 2.0 * (PANEL + GAP) - 8.0, &COLOURS);
    svg + "</svg>\n"
}

fn load_like<'a>(panel: &Panel<'a>) -> Panel<'a> {
    let Panel { title, across, most, steps, shade, .. } = *panel;
    Panel { title, across, most, steps, shade, lines: Vec::new() }
}

/// The herd: when it comes back.
pub(crate) fn draw_herd(all: &[(&str, Herd)]) -> String {
    let herds: Vec<_> =
        all.iter().filter(|(_, herd)| [Jitter::None, Jitter::Full].contains(&herd.jitter)).collect();
    let shown = 4.0;
    let height = herds.len() as f64 * (PANEL + GAP) + 20.0;
    let mut svg = begin(height, "When a thousand clients come back that failed together, by jitter");
    for (place, (name, herd)) in herds.iter().enumerate() {
        let points =
            herd.arrived.iter().enumerate().map(|(at, count)| (at as f64 / 100.0, f64::from(*count)));
        let panel = Panel {
            title: &format!(
                "{name}: {} requests, all served after {:.1} s, up to {} at once",
                herd.requests(),
                herd.took(),
                herd.peak()
            ),
            across: "seconds; requests in each hundredth of a second",
            most: (shown, 1_000.0),
            steps: (0.5, 250.0),
            shade: None,
            lines: vec![Line { name, points: points.take_while(|(at, _)| *at <= shown).collect() }],
        };
        panel.draw(&mut svg, 30.0 + place as f64 * (PANEL + GAP), &COLOURS[place * 3 + 1..]);
    }
    svg + "</svg>\n"
}
