//! Measures two servers in turn, A B A B …, so that disturbances of the machine affect both.
//!
//! Rates are compared as medians over the rounds; the lowest and highest ratio of a round show the spread. A server
//! counts as faster if it is so in every one of at least five rounds and none of its operations failed. The processor
//! time of local servers, which is less sensitive to noise, is compared as well.

use crate::client::Server;
use crate::error::LoadError;
use crate::published::Unit;
use crate::random::fresh_seed;
use crate::report::subject::{Family, rate};
use crate::result::{Comparison, ComparisonRow, Measurement, Target, Totals};
use crate::run::{Observer, Options, measure};
use crate::workload::Workload;

/// The number of rounds.
pub const ROUNDS_MAX: u32 = 1000;

/// One of the two servers.
#[derive(Clone, Debug)]
pub struct Side {
    /// The server.
    pub server: Server,
    /// The server as reports name it.
    pub target: Target,
    /// Its local processes, for its processor time.
    pub server_pids: Vec<u32>,
    /// The memory of its machine, if known.
    pub memory_bytes: Option<u64>,
}

/// Measures each workload round by round, first on `a`, then on `b`, with the same random numbers. An interruption
/// keeps the complete rounds.
///
/// # Errors
/// If a server cannot be measured, or no round is complete.
pub fn compare(
    a: &Side,
    b: &Side,
    work: &[(Workload, Options)],
    rounds: u32,
    observer: &mut dyn Observer,
) -> Result<Comparison, LoadError> {
    if rounds == 0 || rounds > ROUNDS_MAX {
        return Err(LoadError::new(format!("rounds: from 1 to {ROUNDS_MAX}")));
    }
    let mut rows = Vec::new();
    let mut totals = Totals::default();
    let mut complete = rounds;
    for (workload, options) in work {
        let pairs = pairs(a, b, workload, options, rounds, observer)?;
        if !pairs.is_empty() {
            complete = complete.min(u32::try_from(pairs.len()).unwrap_or(u32::MAX));
            rows.extend(rows_of(&pairs));
            pairs.iter().flatten().for_each(|it| totals.add(it));
        }
        if observer.is_interrupted() {
            break;
        }
    }
    if rows.is_empty() {
        return Err(LoadError::new("interrupted before each server was measured once"));
    }
    Ok(Comparison {
        a: a.target.clone(),
        b: b.target.clone(),
        a_memory_bytes: a.memory_bytes,
        b_memory_bytes: b.memory_bytes,
        rounds: complete,
        totals: Some(totals),
        rows,
    })
}

type Pair = [Measurement; 2];

/// Returns the complete rounds of one workload.
fn pairs(
    a: &Side,
    b: &Side,
    workload: &Workload,
    options: &Options,
    rounds: u32,
    observer: &mut dyn Observer,
) -> Result<Vec<Pair>, LoadError> {
    let seed = options.seed.unwrap_or_else(fresh_seed);
    let mut pairs = Vec::new();
    for round in 0..rounds {
        let mut one = |letter: char, side: &Side| {
            let (name, threads) = (workload.name(), options.threads);
            observer.begin(&format!("{name}, threads: {threads}, round {} of {rounds}: {letter}", round + 1));
            let options = Options {
                seed: Some(seed.wrapping_add(u64::from(round))),
                server_pids: side.server_pids.clone(),
                ..options.clone()
            };
            let measured = measure(&side.server, workload, &options, observer)
                .map_err(|error| LoadError::new(format!("{letter}, {}: {error}", side.target.address)))?;
            if measured.is_empty() && !observer.is_interrupted() {
                return Err(LoadError::new(format!(
                    "{letter}: nothing was measured: no operation ended in time"
                )));
            }
            observer.measured(&measured);
            // An interrupted measurement cannot be compared.
            Ok((!observer.is_interrupted()).then_some(measured))
        };
        let Some(first) = one('A', a)? else { break };
        let Some(second) = one('B', b)? else { break };
        pairs.push([first, second]);
    }
    Ok(pairs)
}

/// Returns a row for the workload and one for each of its phases.
fn rows_of(pairs: &[Pair]) -> Vec<ComparisonRow> {
    let Some([first, _]) = pairs.first() else { return Vec::new() };
    let name = format!("{}, threads: {}", first.name, first.threads);
    let unit = match Family::of(&first.workload).unit() {
        Unit::Bytes => "bytes/s",
        Unit::Operations => "operations/s",
    };
    let mut rows: Vec<ComparisonRow> = row(name.clone(), unit, pairs, &|it| Some(rate(it)))
        .map(|row| with_cost(row, pairs))
        .into_iter()
        .collect();
    // In a mix, the rate of each procedure follows from the rate of the mix.
    if !first.workload.is_timed() {
        for phase in &first.phases {
            let of = |it: &Measurement| {
                let found = it.phases.iter().find(|other| other.procedure == phase.procedure);
                found.map(|found| found.operations_per_s)
            };
            rows.extend(row(format!("{name}: {}", phase.procedure), "operations/s", pairs, &of));
        }
    }
    rows
}

/// Returns a row with the rates and failures of all rounds, or none if a server has no rate.
fn row(
    name: String,
    unit: &str,
    pairs: &[Pair],
    of: &dyn Fn(&Measurement) -> Option<f64>,
) -> Option<ComparisonRow> {
    let rates: Vec<(f64, f64)> =
        pairs.iter().filter_map(|[a, b]| Some((of(a)?, of(b)?))).filter(|(_, b)| *b > 0.0).collect();
    let ratios: Vec<f64> = rates.iter().map(|(a, b)| a / b).collect();
    let (a_median, b_median) =
        (median(rates.iter().map(|(a, _)| *a).collect())?, median(rates.iter().map(|(_, b)| *b).collect())?);
    let failed = |side: usize| {
        let measured = pairs.iter().filter_map(|pair| pair.get(side));
        measured.fold(0, |sum: u64, it| sum.saturating_add(it.failed_operations()))
    };
    Some(ComparisonRow {
        name,
        a_median,
        b_median,
        ratio: a_median / b_median,
        ratio_low: ratios.iter().copied().fold(f64::INFINITY, f64::min),
        ratio_high: ratios.iter().copied().fold(0.0, f64::max),
        rounds: u32::try_from(ratios.len()).unwrap_or(u32::MAX),
        unit: unit.to_owned(),
        footprint_bytes: pairs.first().map_or(0, |[first, _]| first.footprint_bytes()),
        a_errors: failed(0),
        b_errors: failed(1),
        ..ComparisonRow::default()
    })
}

/// Adds processor time to a row.
fn with_cost(row: ComparisonRow, pairs: &[Pair]) -> ComparisonRow {
    let cost = |side: usize, of: &dyn Fn(&Measurement) -> Option<f64>| {
        median(pairs.iter().filter_map(|pair| of(pair.get(side)?)).collect())
    };
    let per_operation = |it: &Measurement| it.server.as_ref().map(|cost| cost.cpu_ns_per_operation);
    let per_gib = |it: &Measurement| it.server.as_ref().and_then(|cost| cost.cpu_seconds_per_gib);
    let (a, b) = (cost(0, &per_operation), cost(1, &per_operation));
    ComparisonRow {
        a_cpu_ns_per_operation: a,
        b_cpu_ns_per_operation: b,
        cpu_ratio: a.zip(b).filter(|(_, b)| *b > 0.0).map(|(a, b)| a / b),
        a_cpu_seconds_per_gib: cost(0, &per_gib),
        b_cpu_seconds_per_gib: cost(1, &per_gib),
        ..row
    }
}

/// Returns the median: the middle value, or the mean of the two middle values.
fn median(mut figures: Vec<f64>) -> Option<f64> {
    figures.sort_by(f64::total_cmp);
    let upper = *figures.get(figures.len() / 2)?;
    if figures.len() % 2 == 1 {
        return Some(upper);
    }
    figures.get(figures.len() / 2 - 1).map(|lower| f64::midpoint(*lower, upper))
}

#[cfg(test)]
mod tests;
