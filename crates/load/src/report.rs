//! Results for people and programs.
//!
//! | module | holds |
//! |---|---|
//! | [`table`] | the report as aligned text |
//! | [`json`] | the report as JSON, written and read |
//! | [`html`] | the report as one self-contained page |
//! | [`units`] | figures as text |
//!
//! Nothing here does I/O, and no report makes it panic: a figure that is not a number is shown as a dash.

pub mod html;
pub mod json;
mod markup;
mod memory;
mod notes;
mod plot;
mod series;
pub(crate) mod subject;
pub mod table;
pub mod units;

use crate::result::Report;

/// Returns a report without fractions of limits that a result exceeds, as older versions wrote them.
fn settled(report: &Report) -> Report {
    let mut report = report.clone();
    report.mark_exceeded_limits();
    report
}

#[cfg(test)]
pub(crate) mod tests;
