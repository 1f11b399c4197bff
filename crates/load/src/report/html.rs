//! A self-contained page, to be mailed, printed and kept: it includes its styles, drawings and a short script. The
//! script only makes a box with figures follow the pointer.
//!
//! The order of the sections: results as fractions of their limits; conditions; rates and latencies over threads;
//! comparison with published figures; tables of all figures.

mod charts;
mod comparison;
mod conditions;
mod headline;
mod metadata;
mod overlay;
mod paired;
mod tables;
mod tiers;

use std::fmt::Write as _;

use crate::report::markup::escape;
use crate::report::{notes, subject, units};
use crate::result::{Report, Target};

const STYLE: &str = include_str!("html/page.css");
const SCRIPT: &str = include_str!("html/page.js");

/// Returns the report as a page of HTML.
#[must_use]
pub fn page(report: &Report) -> String {
    let report = &super::settled(report);
    let mut out = String::with_capacity(64 << 10);
    let _ = write!(
        out,
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n\
         <meta name=\"color-scheme\" content=\"light dark\"/>\n<title>{} – {}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n",
        escape(&name(report)),
        escape(&report.tool)
    );
    masthead(report, &mut out);
    out.push_str("<main>\n");
    headline::write(report, &mut out);
    warnings(report, &mut out);
    conditions::write(report, &mut out);
    comparison::write(report, &mut out);
    paired::write(report, &mut out);
    charts::rates(report, &mut out);
    metadata::write(report, &mut out);
    charts::mixes(report, &mut out);
    overlay::write(report, &mut out);
    tiers::write(report, &mut out);
    charts::latencies(report, &mut out);
    charts::timelines(report, &mut out);
    tables::write(report, &mut out);
    overlay::table(report, &mut out);
    out.push_str("</main>\n");
    footer(report, &mut out);
    let _ = write!(out, "<script>\n{SCRIPT}</script>\n</body>\n</html>\n");
    out
}

/// Names the server, or both servers of a comparison.
fn name(report: &Report) -> String {
    report.comparison.as_ref().map_or_else(|| subject::target_name(&report.target), subject::pair_name)
}

/// Opens a section with its title and a sentence about it.
fn section(out: &mut String, id: &str, title: &str, about: &str) {
    let _ = write!(out, "<section id=\"{id}\">\n<h2>{}</h2>\n", escape(title));
    if !about.is_empty() {
        let _ = writeln!(out, "<p class=\"about\">{}</p>", escape(about));
    }
}

fn masthead(report: &Report, out: &mut String) {
    let _ = write!(
        out,
        "<header>\n<div class=\"brand\">{GLYPH}<span>Holdfast bench</span><time>{}</time></div>\n<h1>{}</h1>\n",
        escape(&units::moment(report.started_unix_s)),
        escape(&name(report))
    );
    let code = |target: &Target| {
        let address = escape(&format!("{}:{}", target.address, target.export));
        format!("<code>{address}</code> ({})", target.protocol)
    };
    let addresses = match &report.comparison {
        Some(comparison) => format!("{} and {}", code(&comparison.a), code(&comparison.b)),
        None => code(&report.target),
    };
    let hosts = 1 + report.agents.len();
    let from = if report.agents.is_empty() {
        format!("measured from {}", report.host.name)
    } else {
        format!("measured from {hosts} hosts, coordinated by {}", report.host.name)
    };
    let _ = write!(out, "<p class=\"lead\">{addresses} {}</p>\n</header>\n", escape(&from));
}

/// The logo: three lines that meet and hold.
const GLYPH: &str = "<svg class=\"glyph\" viewBox=\"0 0 24 24\" aria-hidden=\"true\"><path d=\"M12 3v9M12 12l-7 8M12 12v8M12 \
12l7 8M5 20h14\"/></svg>";

fn warnings(report: &Report, out: &mut String) {
    let notes = notes::of(report);
    if notes.is_empty() {
        return;
    }
    out.push_str("<aside class=\"notes\"><h2>Before you read</h2><ul>");
    for note in notes {
        let _ = write!(out, "<li>{}</li>", escape(&note));
    }
    out.push_str("</ul></aside>\n");
}

fn footer(report: &Report, out: &mut String) {
    let _ = write!(
        out,
        "<footer>\n<p>Rates count operations that succeeded. Bytes per second are decimal (1 GB = 10⁹ bytes), block sizes \
         binary (1 KiB = 1,024 bytes). Percentiles come from histograms that were merged exactly over all threads and \
         hosts. A fraction compares a rate with a limit measured in the same run by the same client code.</p>\n\
         <p>{}, schema {}.</p>\n</footer>\n",
        escape(&report.tool),
        report.schema
    );
}
