//! Results as Markdown: the table of `docs/performance.md`, rates and latencies of its rows, and the other figures.

use std::fmt::Write as _;

use super::bench::Sample;
use super::results::{
    Figure, Goal, Measured, RowResult, cost, digits, median, median_of, quantity, range, time,
};
use super::rows::{Bound, PROTOCOLS, Protocol, Row};

/// What stands for a figure that was not measured.
const NONE: &str = "–";

/// Formats all tables; an empty one is omitted.
pub(super) fn shown(measured: &Measured, figures: &[Figure], peer: Option<&str>) -> String {
    let mut tables = Vec::new();
    if !measured.rows.is_empty() {
        tables.push(costs(measured, peer));
        tables.push(rates(measured, peer));
    }
    if !figures.is_empty() {
        tables.push(others(figures));
    }
    tables.join("\n")
}

/// Both protocols, the peer and the limit side by side.
fn costs(measured: &Measured, peer: Option<&str>) -> String {
    let mut head = vec!["server CPU".to_owned()];
    head.extend(PROTOCOLS.map(|protocol| protocol.title().to_owned()));
    head.extend(peer.iter().flat_map(|peer| PROTOCOLS.map(|it| format!("{peer}, {}", it.title()))));
    head.extend(["limit", "bounds", "reached"].map(str::to_owned));
    let rows: Vec<_> = measured.rows.iter().map(|row| costs_of(row, measured.limit(row.row), peer)).collect();
    table(&head, &rows)
}

/// A row of that table.
fn costs_of(result: &RowResult, limit: Option<f64>, peer: Option<&str>) -> Vec<String> {
    let (row, unit) = (result.row, result.row.unit());
    let ours = PROTOCOLS.map(|protocol| result.costs(&result.over(protocol).ours));
    let theirs = PROTOCOLS.map(|protocol| result.costs(&result.over(protocol).peer));
    let mut missed = Vec::new();
    let mut check = |what: String, value: f64, bound: Option<f64>| {
        let verdict = bound.map_or_else(String::new, |bound| Goal::AtMost(bound).verdict(value));
        missed.extend(verdict.strip_prefix("no: ").map(|ratio| format!("{what} {ratio}")));
    };
    let mut cells = vec![row.title.to_owned()];
    for (protocol, ours) in PROTOCOLS.into_iter().zip(&ours) {
        let ((low, high), each) = (range(ours), digits(median(ours)));
        cells.push(match ours[..] {
            [] => NONE.to_owned(),
            [_] => format!("**{each}{unit}**"),
            _ => format!("**{each}{unit}** ({} – {})", digits(low), digits(high)),
        });
        check(protocol.title().to_owned(), median(ours), row.bound(protocol).filter(|_| !ours.is_empty()));
    }
    for ((protocol, theirs), ours) in PROTOCOLS.into_iter().zip(&theirs).zip(&ours) {
        let Some(peer) = peer else { continue };
        let is_measured = !theirs.is_empty() && !ours.is_empty();
        let ratio = median(ours) / median(theirs);
        cells.push(if is_measured { compared(median(theirs), unit, &[ratio]) } else { NONE.to_owned() });
        let what = format!("{}, of {peer}", protocol.title());
        check(what, ratio, is_measured.then_some(row.peer_ratio));
    }
    let of_limit = |ours: &Vec<f64>| median(ours) / limit.unwrap_or(f64::NAN);
    let ratios = ours.each_ref().map(of_limit);
    cells.push(limit.map_or(NONE.to_owned(), |limit| compared(limit, unit, &ratios)));
    for (protocol, ratio) in PROTOCOLS.into_iter().zip(ratios).filter(|(_, ratio)| ratio.is_finite()) {
        check(format!("{}, of the limit", protocol.title()), ratio, row.limit_ratio);
    }
    cells.push(bounds(row, peer));
    cells.push(if missed.is_empty() { "yes".to_owned() } else { format!("no: {}", missed.join("; ")) });
    cells
}

/// Formats a cost with our costs as multiples of it, where there are any.
fn compared(cost: f64, unit: &str, ratios: &[f64]) -> String {
    let ratios = ratios.iter().filter(|ratio| ratio.is_finite());
    let ratios: Vec<String> = ratios.map(|ratio| format!("{} ×", digits(*ratio))).collect();
    let multiples = if ratios.is_empty() { String::new() } else { format!(" ({})", ratios.join(", ")) };
    format!("{}{unit}{multiples}", digits(cost))
}

fn bounds(row: &Row, peer: Option<&str>) -> String {
    let own: Vec<String> =
        PROTOCOLS.into_iter().filter_map(|protocol| row.bound(protocol)).map(digits).collect();
    let mut words = vec![format!("{}{}", own.join(", "), row.unit())];
    words.extend(peer.map(|peer| format!("{} × {peer}", digits(row.peer_ratio))));
    words.extend(row.limit_ratio.map(|ratio| format!("{} × limit", digits(ratio))));
    words.join("; ")
}

/// Rates, latencies and costs of the client, each row once for each protocol.
fn rates(measured: &Measured, peer: Option<&str>) -> String {
    let mut head =
        ["", "protocol", "rate", "p50", "p99", "client CPU", "instructions"].map(str::to_owned).to_vec();
    head.extend(peer.map(|peer| format!("{peer}: rate")));
    let rows = measured.rows.iter().flat_map(|result| PROTOCOLS.map(|protocol| (result, protocol)));
    let rows = rows.filter(|(result, protocol)| !result.over(*protocol).ours.is_empty());
    let rows: Vec<_> = rows.map(|(result, protocol)| rates_of(result, protocol, peer.is_some())).collect();
    table(&head, &rows)
}

fn rates_of(result: &RowResult, protocol: Protocol, has_peer: bool) -> Vec<String> {
    let (row, samples) = (result.row, result.over(protocol));
    let ours = &samples.ours;
    let client = median_of(ours, |sample| cost(row, sample, sample.client_us));
    let counts: Vec<f64> = ours.iter().filter_map(|sample| sample.instructions).collect();
    let mut cells = vec![
        row.title.to_owned(),
        protocol.title().to_owned(),
        rate(row, ours),
        time(median_of(ours, |sample| sample.p50_us)),
        time(median_of(ours, |sample| sample.p99_us)),
        format!("{}{}", digits(client), row.unit()),
        if counts.is_empty() { NONE.to_owned() } else { quantity(median(&counts), "") },
    ];
    cells.extend(has_peer.then(|| rate(row, &samples.peer)));
    cells
}

fn rate(row: &Row, samples: &[Sample]) -> String {
    match row.bound {
        _ if samples.is_empty() => NONE.to_owned(),
        Bound::MicrosecondsPerOperation(_) => {
            quantity(median_of(samples, |sample| sample.operations_per_s), "/s")
        }
        Bound::SecondsPerGib(_) => {
            format!("{} GB/s", digits(median_of(samples, |sample| sample.bytes_per_s) / 1e9))
        }
    }
}

/// The figures outside the main table.
fn others(figures: &[Figure]) -> String {
    let row = |figure: &Figure| {
        let (value, (low, high)) = (median(&figure.values), range(&figure.values));
        vec![
            figure.name.clone(),
            format!("**{}**", quantity(value, figure.unit)),
            if figure.values.len() > 1 {
                format!("{} – {}", quantity(low, figure.unit), quantity(high, figure.unit))
            } else {
                String::new()
            },
            figure.goal.shown(figure.unit),
            figure.goal.verdict(value),
        ]
    };
    let head = ["", "median", "range", "bound", "reached"].map(str::to_owned);
    table(&head, &figures.iter().map(row).collect::<Vec<_>>())
}

fn table(head: &[String], rows: &[Vec<String>]) -> String {
    let mut out = String::new();
    let mut line = |cells: &[String]| {
        writeln!(out, "| {} |", cells.join(" | ")).expect("a String takes any text");
    };
    line(head);
    line(&vec!["---".to_owned(); head.len()]);
    for row in rows {
        line(row);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::rows::{GETATTR, NULL, find};
    use super::super::transfer_limits::TransferLimits;
    use super::*;

    /// A sample of a call that costs this many microseconds, or seconds per GiB.
    fn sample(server_us: f64) -> Sample {
        Sample {
            operations_per_s: 1e6,
            bytes_per_s: 1e9,
            p50_us: 20.0,
            p99_us: 50.0,
            p999_us: 60.0,
            max_us: 70.0,
            server_us,
            client_us: 1.0,
            gib_per_operation: 1e-6,
            instructions: None,
            phases: Vec::new(),
            failed: 0,
        }
    }

    fn result(name: &str, ours: [&[f64]; 2], peer: [&[f64]; 2]) -> RowResult {
        let mut result = RowResult::new(find(name).unwrap());
        for (at, protocol) in PROTOCOLS.into_iter().enumerate() {
            let samples = result.over_mut(protocol);
            samples.ours.extend(ours[at].iter().map(|cost| sample(*cost)));
            samples.peer.extend(peer[at].iter().map(|cost| sample(*cost)));
        }
        result
    }

    /// The line of the first table that begins with this title.
    fn line<'t>(shown: &'t str, title: &str) -> &'t str {
        shown.lines().find(|line| line.starts_with(&format!("| {title} "))).unwrap()
    }

    #[test]
    fn protocols_peer_and_limit_are_side_by_side() {
        let measured = Measured {
            rows: vec![
                result(NULL, [&[0.5], &[]], [&[20.0], &[]]),
                result(GETATTR, [&[1.0, 3.0, 2.0], &[4.0]], [&[20.0], &[10.0]]),
                result("sequential-write", [&[0.125], &[0.5]], [&[0.5], &[]]),
            ],
            transfers: vec![TransferLimits { copy: 0.25, send: 0.125 }],
        };
        let shown = shown(&measured, &[], Some("peer"));
        assert_eq!(
            line(&shown, "server CPU"),
            "| server CPU | NFSv3 | NFSv4.2 | peer, NFSv3 | peer, NFSv4.2 | limit | bounds | reached |"
        );
        assert_eq!(
            line(&shown, "NULL"),
            "| NULL | **0.500 µs** | – | 20.0 µs (0.025 ×) | – | – | 1.50 µs; 0.333 × peer | yes |"
        );
        assert_eq!(
            line(&shown, "GETATTR"),
            "| GETATTR | **2.00 µs** (1.00 – 3.00) | **4.00 µs** | 20.0 µs (0.100 ×) | 10.0 µs (0.400 ×) | \
             0.500 µs (4.00 ×, 8.00 ×) | 2.20, 3.74 µs; 0.333 × peer | no: NFSv4.2 1.07 ×; NFSv4.2, of peer 1.20 × |"
        );
        assert_eq!(
            line(&shown, "sequential WRITE 1 MiB"),
            "| sequential WRITE 1 MiB | **0.125 s/GiB** | **0.500 s/GiB** | 0.500 s/GiB (0.250 ×) | – | \
             0.250 s/GiB (0.500 ×, 2.00 ×) | 0.200, 0.200 s/GiB; 0.800 × peer; 1.50 × limit | \
             no: NFSv4.2 2.50 ×; NFSv4.2, of the limit 1.33 × |"
        );
    }

    #[test]
    fn without_a_peer_it_has_no_columns() {
        let rows = vec![result(GETATTR, [&[1.0], &[]], [&[], &[]])];
        let shown = shown(&Measured { rows, transfers: Vec::new() }, &[], None);
        assert_eq!(line(&shown, "GETATTR"), "| GETATTR | **1.00 µs** | – | – | 2.20, 3.74 µs | yes |");
    }
}
