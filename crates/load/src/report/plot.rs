//! Plots as inline SVG: lines over an axis, with limits, windows and published curves. Colours are CSS classes, so
//! the page adapts them to light, dark and paper. All texts use the page's units, and every point has a tooltip.

mod bars;
mod scale;

use std::fmt::Write as _;

pub(crate) use bars::{bar, interval, limited_bar, spark, strip};
pub(crate) use scale::{AxisKind, AxisScale};

use crate::report::markup::{coordinate, escape};

const WIDTH: f64 = 520.0;
const HEIGHT: f64 = 292.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 18.0;
const TOP: f64 = 16.0;
const BOTTOM: f64 = 46.0;
/// The width of the area next to the axis for points without a position on it.
const UNPLACED: f64 = 106.0;
/// The gap between those points and the axis.
const GAP: f64 = 26.0;
/// Lines with more points are thinned out: screens have no more columns.
const POINTS_MAX: usize = 600;

/// Labels up to this many letters share a line of the legend.
const SHORT_LABEL: usize = 7;

/// An axis of a chart.
#[derive(Clone, Debug)]
pub(crate) struct Axis {
    pub(crate) kind: AxisKind,
    pub(crate) title: &'static str,
    pub(crate) format: fn(f64) -> String,
}

/// A point. Without x it is drawn next to the axis.
#[derive(Clone, Debug)]
pub(crate) struct Point {
    pub(crate) x: Option<f64>,
    pub(crate) y: f64,
    /// The tooltip.
    pub(crate) says: String,
}

/// How a line is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stroke {
    /// A measured line.
    Solid,
    /// A measured line without marks at its points.
    Plain,
    /// A published line.
    Dashed,
}

/// A line and its entry in the legend.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) label: String,
    /// A figure behind the label in the legend, or nothing.
    pub(crate) figure: String,
    /// The CSS class with the colour.
    pub(crate) class: String,
    pub(crate) stroke: Stroke,
    pub(crate) points: Vec<Point>,
}

/// A level across the whole chart.
#[derive(Clone, Debug)]
pub(crate) struct Level {
    pub(crate) y: f64,
    pub(crate) label: String,
}

/// A chart: title, drawing, legend.
#[derive(Clone, Debug)]
pub(crate) struct Chart {
    pub(crate) title: String,
    /// A sentence below the title, or nothing.
    pub(crate) note: String,
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    pub(crate) lines: Vec<Line>,
    pub(crate) levels: Vec<Level>,
    /// A shaded part of the x axis and its name.
    pub(crate) window: Option<(f64, f64, &'static str)>,
}

/// The scales of a chart and their positions in the drawing.
struct Frame {
    x: AxisScale,
    y: AxisScale,
    /// The right end of the x axis.
    right: f64,
    unplaced: bool,
}

impl Frame {
    fn of(chart: &Chart) -> Frame {
        let points = || chart.lines.iter().flat_map(|line| &line.points).filter(|point| point.y.is_finite());
        let unplaced = points().any(|point| point.x.is_none());
        let xs = points().filter_map(|point| point.x).chain(chart.window.iter().flat_map(|it| [it.0, it.1]));
        let ys = points().map(|point| point.y).chain(chart.levels.iter().map(|level| level.y));
        Frame {
            x: AxisScale::new(chart.x.kind, xs),
            y: AxisScale::new(chart.y.kind, ys),
            right: WIDTH - RIGHT - if unplaced { UNPLACED } else { 0.0 },
            unplaced,
        }
    }

    fn x(&self, value: f64) -> f64 {
        LEFT + self.x.place(value) * (self.right - LEFT)
    }

    fn y(&self, value: f64) -> f64 {
        HEIGHT - BOTTOM - self.y.place(value) * (HEIGHT - BOTTOM - TOP)
    }
}

impl Chart {
    /// Renders the chart as a `figure` element.
    pub(crate) fn render(&self) -> String {
        let mut out = String::from("<figure class=\"chart\"><figcaption>");
        let _ = write!(out, "<h3>{}</h3>", escape(&self.title));
        if !self.note.is_empty() {
            let _ = write!(out, "<p>{}</p>", escape(&self.note));
        }
        out.push_str("</figcaption>");
        out.push_str(&self.svg());
        if self.lines.len() > 1 || self.lines.iter().any(|line| !line.figure.is_empty()) {
            out.push_str(&self.legend());
        }
        out.push_str("</figure>\n");
        out
    }

    fn svg(&self) -> String {
        let frame = Frame::of(self);
        let mut out = format!(
            "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\">",
            escape(&format!("{}: {} over {}", self.title, self.y.title, self.x.title))
        );
        self.window(&frame, &mut out);
        self.axes(&frame, &mut out);
        self.levels(&frame, &mut out);
        // Published lines are drawn below measured ones.
        for dashed in [true, false] {
            for line in self.lines.iter().filter(|line| (line.stroke == Stroke::Dashed) == dashed) {
                draw(line, &frame, &mut out);
            }
        }
        self.level_names(&frame, &mut out);
        out.push_str("</svg>");
        out
    }

    fn window(&self, frame: &Frame, out: &mut String) {
        let Some((from, to, name)) = self.window else { return };
        let (left, right) = (frame.x(from), frame.x(to));
        let _ = write!(
            out,
            "<rect class=\"window\" x=\"{}\" y=\"{TOP}\" width=\"{}\" height=\"{}\"/>\
             <text class=\"window-name\" x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>",
            coordinate(left),
            coordinate((right - left).max(1.0)),
            coordinate(HEIGHT - BOTTOM - TOP),
            coordinate(right - 6.0),
            coordinate(HEIGHT - BOTTOM - 8.0),
            escape(name)
        );
    }

    fn axes(&self, frame: &Frame, out: &mut String) {
        for tick in &frame.y.ticks {
            let y = frame.y(*tick);
            let _ = write!(
                out,
                "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{}\" y1=\"{y}\" y2=\"{y}\"/>\
                 <text class=\"tick\" x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>",
                coordinate(WIDTH - RIGHT),
                coordinate(LEFT - 8.0),
                coordinate(y + 4.0),
                escape(&(self.y.format)(*tick)),
                y = coordinate(y)
            );
        }
        let bottom = HEIGHT - BOTTOM;
        for tick in &frame.x.ticks {
            let x = coordinate(frame.x(*tick));
            let _ = write!(
                out,
                "<line class=\"notch\" x1=\"{x}\" x2=\"{x}\" y1=\"{bottom}\" y2=\"{}\"/>\
                 <text class=\"tick\" x=\"{x}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
                bottom + 4.0,
                bottom + 19.0,
                escape(&(self.x.format)(*tick))
            );
        }
        let right = coordinate(frame.right);
        let _ = write!(
            out,
            "<line class=\"axis\" x1=\"{LEFT}\" x2=\"{right}\" y1=\"{bottom}\" y2=\"{bottom}\"/>"
        );
        let middle = coordinate((LEFT + frame.right) / 2.0);
        let title = escape(self.x.title);
        let _ = write!(
            out,
            "<text class=\"name\" x=\"{middle}\" y=\"{}\" text-anchor=\"middle\">{title}</text>",
            HEIGHT - 6.0
        );
        if frame.unplaced {
            let (left, right) = (frame.right + GAP, WIDTH - RIGHT);
            let _ = write!(
                out,
                "<line class=\"axis\" x1=\"{left}\" x2=\"{right}\" y1=\"{bottom}\" y2=\"{bottom}\"/>\
                 <text class=\"tick\" x=\"{}\" y=\"{}\" text-anchor=\"middle\">not stated</text>",
                (left + right) / 2.0,
                bottom + 19.0
            );
        }
    }

    fn levels(&self, frame: &Frame, out: &mut String) {
        for level in self.levels.iter().filter(|level| frame.y.holds(level.y)) {
            let (y, right) = (coordinate(frame.y(level.y)), coordinate(WIDTH - RIGHT));
            let _ = write!(out, "<line class=\"level\" x1=\"{LEFT}\" x2=\"{right}\" y1=\"{y}\" y2=\"{y}\"/>");
        }
    }

    /// Draws the names of levels above all lines.
    fn level_names(&self, frame: &Frame, out: &mut String) {
        for level in self.levels.iter().filter(|level| frame.y.holds(level.y)) {
            let y = frame.y(level.y);
            // At the top, the name goes below the line.
            let y = if y < TOP + 14.0 { y + 15.0 } else { y - 7.0 };
            let (x, y, name) = (coordinate(LEFT + 6.0), coordinate(y), escape(&level.label));
            let _ = write!(out, "<text class=\"level-name\" x=\"{x}\" y=\"{y}\">{name}</text>");
        }
    }

    fn legend(&self) -> String {
        // Short labels share a line.
        let short = self.lines.iter().all(|line| line.label.chars().count() <= SHORT_LABEL);
        let mut out = format!("<ul class=\"legend{}\">", if short { " short" } else { "" });
        for line in &self.lines {
            let dashed = if line.stroke == Stroke::Dashed { " stroke-dasharray=\"5 3\"" } else { "" };
            let _ = write!(
                out,
                "<li><svg class=\"swatch {}\" viewBox=\"0 0 24 10\" aria-hidden=\"true\"><path d=\"M1 5H23\"{dashed}/>{}</svg>\
                 <span>{}</span><b>{}</b></li>",
                line.class,
                mark(line, 12.0, 5.0, ""),
                escape(&line.label),
                escape(&line.figure)
            );
        }
        out.push_str("</ul>");
        out
    }
}

/// Draws a line and its marks.
fn draw(line: &Line, frame: &Frame, out: &mut String) {
    let finite = line.points.iter().filter(|point| point.y.is_finite());
    let (placed, unplaced): (Vec<&Point>, Vec<&Point>) = finite.partition(|point| point.x.is_some());
    let every = placed.len().div_ceil(POINTS_MAX).max(1);
    let places: Vec<(f64, f64, &str)> = placed
        .into_iter()
        .step_by(every)
        .filter_map(|point| Some((frame.x(point.x?), frame.y(point.y), point.says.as_str())))
        .collect();
    let dashed = if line.stroke == Stroke::Dashed { " dashed" } else { "" };
    let _ = write!(out, "<g class=\"line {}{dashed}\">", line.class);
    if places.len() > 1 {
        out.push_str("<path d=\"");
        for (i, (x, y, _)) in places.iter().enumerate() {
            let _ = write!(out, "{}{} {}", if i == 0 { 'M' } else { 'L' }, coordinate(*x), coordinate(*y));
        }
        out.push_str("\"/>");
    }
    for (x, y, says) in places {
        out.push_str(&mark(line, x, y, says));
    }
    let middle = (frame.right + GAP + WIDTH - RIGHT) / 2.0;
    for point in unplaced {
        let y = frame.y(point.y);
        let (left, right) = (coordinate(middle - 20.0), coordinate(middle + 20.0));
        let _ = write!(out, "<path d=\"M{left} {y}H{right}\"/>", y = coordinate(y));
        out.push_str(&mark(line, middle, y, &point.says));
    }
    out.push_str("</g>");
}

/// Draws the mark of a point: round for measured points, square for published ones.
fn mark(line: &Line, x: f64, y: f64, says: &str) -> String {
    let title = if says.is_empty() { String::new() } else { format!("<title>{}</title>", escape(says)) };
    let class = if says.is_empty() { "" } else { " class=\"mark\"" };
    match line.stroke {
        Stroke::Solid => {
            format!(
                "<circle{class} cx=\"{}\" cy=\"{}\" r=\"3.5\">{title}</circle>",
                coordinate(x),
                coordinate(y)
            )
        }
        Stroke::Dashed => format!(
            "<rect{class} x=\"{}\" y=\"{}\" width=\"7\" height=\"7\" rx=\"1\">{title}</rect>",
            coordinate(x - 3.5),
            coordinate(y - 3.5)
        ),
        Stroke::Plain if says.is_empty() => String::new(),
        Stroke::Plain => {
            format!(
                "<circle class=\"mark faint\" cx=\"{}\" cy=\"{}\" r=\"2\">{title}</circle>",
                coordinate(x),
                coordinate(y)
            )
        }
    }
}
