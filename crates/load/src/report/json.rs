//! Reports as JSON: what `--json` writes, and what `bench report` reads.

use std::fmt;

use serde_json::Value;

use crate::result::{Latency, Measurement, Report, SCHEMA, TierRun};

/// Why a text cannot be read as a report.
#[derive(Debug)]
pub enum ReadError {
    /// The text is not JSON.
    NotJson(serde_json::Error),
    /// The text is JSON, but not a report.
    NotAReport,
    /// The report has a schema that this version does not know.
    OtherSchema {
        /// The schema of the report.
        schema: u64,
        /// The program that wrote it, if stated.
        tool: Option<String>,
    },
    /// The report does not follow the schema that it states.
    Malformed(serde_json::Error),
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReadError::NotJson(error) => write!(f, "it is not JSON: {error}"),
            ReadError::NotAReport => {
                f.write_str("it is not a result of `holdfast bench`: it has no number \"schema\"")
            }
            ReadError::OtherSchema { schema, tool } => {
                write!(f, "it has schema {schema}, and this version reads schema {SCHEMA}")?;
                match tool {
                    Some(tool) => write!(f, "; it was written by {tool:?}"),
                    None => Ok(()),
                }
            }
            ReadError::Malformed(error) => {
                write!(f, "it states schema {SCHEMA} but does not follow it: {error}")
            }
        }
    }
}

impl std::error::Error for ReadError {}

/// Returns a report as indented JSON with a newline at the end.
///
/// JSON has no infinities and no NaN. A rate that is not a finite number comes from a measurement without operations,
/// and is written as 0, so that every report can be read again.
///
/// # Panics
/// Never: every member of a report has a JSON form.
#[must_use]
pub fn write(report: &Report) -> String {
    let mut report = report.clone();
    make_finite(&mut report);
    let mut text = serde_json::to_string_pretty(&report).expect("every member of a report has a JSON form");
    text.push('\n');
    text
}

/// Reads a report that [`write`] wrote.
///
/// # Errors
/// [`ReadError`] says what is wrong with the text.
pub fn read(text: &str) -> Result<Report, ReadError> {
    let value: Value = serde_json::from_str(text).map_err(ReadError::NotJson)?;
    let schema = value.get("schema").and_then(Value::as_u64).ok_or(ReadError::NotAReport)?;
    if schema != u64::from(SCHEMA) {
        let tool = value.get("tool").and_then(Value::as_str).map(str::to_owned);
        return Err(ReadError::OtherSchema { schema, tool });
    }
    serde_json::from_value(value).map_err(ReadError::Malformed)
}

/// Replaces infinities and NaN by 0.
fn make_finite(report: &mut Report) {
    let finite = |figure: &mut f64| {
        if !figure.is_finite() {
            *figure = 0.0;
        }
    };
    let limits = &mut report.limits;
    let rates = [&mut limits.null_calls_per_s, &mut limits.tcp_bytes_per_s, &mut limits.tcp_sent_bytes_per_s];
    rates.into_iter().flatten().for_each(finite);
    if let Some(directory) = &mut limits.directory {
        for figure in
            [&mut directory.read_bytes_per_s, &mut directory.write_bytes_per_s, &mut directory.syncs_per_s]
        {
            finite(figure);
        }
    }
    report.results.iter_mut().for_each(|measurement| make_measurement_finite(measurement, finite));
    for TierRun { tier, measurement } in &mut report.tiers {
        make_measurement_finite(measurement, finite);
        tier.iter_mut().flat_map(|tier| [&mut tier.cap_bytes_per_s, &mut tier.fraction]).for_each(finite);
    }
    let totals = report.comparison.iter_mut().filter_map(|comparison| comparison.totals.as_mut());
    totals.for_each(|totals| [&mut totals.seconds, &mut totals.warmup_seconds].into_iter().for_each(finite));
    for row in report.comparison.iter_mut().flat_map(|comparison| &mut comparison.rows) {
        for figure in
            [&mut row.a_median, &mut row.b_median, &mut row.ratio, &mut row.ratio_low, &mut row.ratio_high]
        {
            finite(figure);
        }
        let optional = [
            &mut row.a_cpu_ns_per_operation,
            &mut row.b_cpu_ns_per_operation,
            &mut row.cpu_ratio,
            &mut row.a_cpu_seconds_per_gib,
            &mut row.b_cpu_seconds_per_gib,
        ];
        optional.into_iter().flatten().for_each(finite);
    }
}

fn make_measurement_finite(measurement: &mut Measurement, finite: impl Fn(&mut f64)) {
    let latency = |it: &mut Latency| finite(&mut it.mean_ns);
    for figure in [
        &mut measurement.seconds,
        &mut measurement.warmup_seconds,
        &mut measurement.operations_per_s,
        &mut measurement.bytes_per_s,
    ] {
        finite(figure);
    }
    latency(&mut measurement.latency);
    for phase in &mut measurement.phases {
        finite(&mut phase.seconds);
        finite(&mut phase.operations_per_s);
        latency(&mut phase.latency);
    }
    for sample in &mut measurement.timeline {
        for figure in [&mut sample.at_s, &mut sample.operations_per_s, &mut sample.bytes_per_s] {
            finite(figure);
        }
    }
    if let Some(steady) = &mut measurement.steady {
        for figure in [&mut steady.window_s, &mut steady.spread, &mut steady.slope] {
            finite(figure);
        }
    }
    if let Some(server) = &mut measurement.server {
        finite(&mut server.cpu_seconds);
        finite(&mut server.cpu_ns_per_operation);
        server.cpu_seconds_per_gib.iter_mut().for_each(&finite);
    }
    if let Some(limit) = &mut measurement.limit {
        finite(&mut limit.fraction);
    }
}
