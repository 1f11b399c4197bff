//! The text format of Prometheus, version 0.0.4.

use std::fmt::{self, Write as _};

use crate::metrics::registry::Family;
use crate::metrics::series::{Label, Scrape, Value};

impl Scrape {
    /// The content type of [`Scrape::text`].
    pub const CONTENT_TYPE: &'static str = "text/plain; version=0.0.4; charset=utf-8";

    /// Returns the metrics in Prometheus' text format.
    #[must_use]
    pub fn text(&self) -> String {
        let mut out = String::new();
        for (family, series) in self.families() {
            // A String takes any text.
            let _ = writeln!(out, "# HELP {} {}", family.name, Help(family.help));
            let _ = writeln!(out, "# TYPE {} {}", family.name, family.kind.name());
            for series in series {
                write_series(&mut out, family, &series.labels, &series.value);
            }
        }
        out
    }
}

fn write_series(out: &mut String, family: &Family, labels: &[Label], value: &Value) {
    match value {
        Value::Integer(value) => line(out, family, "", labels, None, value),
        Value::Real(value) => line(out, family, "", labels, None, value),
        Value::Histogram(buckets) => {
            for (bound, count) in &buckets.cumulative {
                line(out, family, "_bucket", labels, Some(bound), count);
            }
            line(out, family, "_bucket", labels, Some(&"+Inf"), &buckets.count);
            line(out, family, "_sum", labels, None, &buckets.sum);
            line(out, family, "_count", labels, None, &buckets.count);
        }
    }
}

/// Appends one line: name, labels, value.
fn line(
    out: &mut String,
    family: &Family,
    suffix: &str,
    labels: &[Label],
    bound: Option<&dyn fmt::Display>,
    value: &dyn fmt::Display,
) {
    out.push_str(family.name);
    out.push_str(suffix);
    let mut separator = '{';
    for (name, label) in family.labels.iter().zip(labels) {
        out.push(separator);
        out.push_str(name);
        out.push_str("=\"");
        escape(label.as_str(), out);
        out.push('"');
        separator = ',';
    }
    if let Some(bound) = bound {
        let _ = write!(out, "{separator}le=\"{bound}\"");
        separator = ',';
    }
    if separator == ',' {
        out.push('}');
    }
    let _ = writeln!(out, " {value}");
}

/// Appends the value of a label: backslashes, quotes and ends of lines are escaped.
fn escape(text: &str, out: &mut String) {
    for character in text.chars() {
        match character {
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            '\n' => out.push_str("\\n"),
            other => out.push(other),
        }
    }
}

/// A help text, in which quotes are not escaped.
struct Help(&'static str);

impl fmt::Display for Help {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|character| match character {
            '\\' => f.write_str("\\\\"),
            '\n' => f.write_str("\\n"),
            other => f.write_char(other),
        })
    }
}
