//! Pages and JSON of ordinary, empty, absurd and arbitrary reports.

mod arbitrary;
pub(crate) mod sample;
mod well_formed;

use std::hash::{BuildHasher as _, Hasher as _};

use arbitrary::Arbitrary;

use super::json::ReadError;
use super::{html, json, table, units};
use crate::result::{Limits, Report, SCHEMA};

/// Returns the page after checking that it is well-formed.
fn page(report: &Report) -> String {
    let page = html::page(report);
    if let Err(fault) = well_formed::check(&page) {
        panic!("the page is not well formed: {fault}");
    }
    page
}

/// Compares texts line by line. JSON parsing may change the last digit of a figure.
fn same(left: &str, right: &str) {
    assert_eq!(left.lines().count(), right.lines().count());
    for (left, right) in left.lines().zip(right.lines()) {
        let figure = |line: &str| {
            let (_, value) = line.trim_end_matches(',').rsplit_once(": ")?;
            value.parse::<f64>().ok()
        };
        let close = match (figure(left), figure(right)) {
            (Some(left), Some(right)) => (left - right).abs() <= left.abs() * 1e-14,
            _ => false,
        };
        assert!(left == right || close, "{left}\n{right}");
    }
}

fn empty() -> Report {
    let mut report = sample::report();
    report.results.clear();
    report.tiers.clear();
    report.comparison = None;
    report.agents.clear();
    report.limits = Limits::default();
    report
}

#[test]
fn tiers_are_shown_as_fractions_with_tails() {
    let report = sample::report();
    let (page, text) = (page(&report), table::render(&report));
    assert_eq!(report.tiers.len(), 3);
    for run in &report.tiers {
        let latency = &run.measurement.latency;
        for ns in [latency.p50_ns, latency.p99_ns, latency.p999_ns] {
            let shown = units::nanoseconds(ns as f64);
            assert!(page.contains(&shown) && text.contains(&shown), "{shown}");
        }
        let Some(tier) = &run.tier else { continue };
        let row = text.lines().find(|line| line.starts_with(&tier.name)).expect("a row");
        for shown in [units::bytes_per_second(tier.cap_bytes_per_s), units::percent(tier.fraction)] {
            assert!(row.contains(&shown) && page.contains(&shown), "{row}: {shown}");
        }
    }
    assert!(!page_of_none().contains("Tiers of rates"));
}

/// Returns the page of a report without tiers.
fn page_of_none() -> String {
    page(&Report { tiers: Vec::new(), ..sample::report() })
}

#[test]
fn a_page_shows_every_measurement_phase_and_error() {
    let report = sample::report();
    let page = page(&report);
    for (i, it) in report.results.iter().enumerate() {
        let rows =
            page.matches(&format!("<td class=\"words\">{}</td>", super::markup::escape(&it.name))).count();
        let same = report.results.iter().filter(|other| other.name == it.name).count();
        assert!(rows >= same, "{i}: {} has {rows} rows of {same}", it.name);
        assert!(page.contains(&units::operations(it.operations_per_s)), "{i}: {}", it.name);
        for phase in &it.phases {
            assert!(page.contains(&format!("<td class=\"words\">{}</td>", phase.procedure)));
            assert!(page.contains(&units::operations(phase.operations_per_s)));
        }
        for error in &it.errors {
            assert!(page.contains(&error.cause));
        }
    }
    for row in &report.comparison.unwrap().rows {
        assert!(page.contains(&row.name));
    }
}

#[test]
fn a_page_has_every_section_and_plot() {
    let page = page(&sample::report());
    let ids =
        "headline conditions comparison tests rates metadata mixes published latency time figures sources";
    for id in ids.split(' ') {
        assert!(page.contains(&format!("<section id=\"{id}\"")), "{id}");
    }
    for text in
        [">1024</text>", "steady window", "TCP line rate: 9.60 GB/s", "Dell pixstor", "dashed", "96.5 %"]
    {
        assert!(page.contains(text), "{text}");
    }
}

#[test]
fn a_comparison_names_both_servers_counts_its_measurements_and_claims_no_difference_too_early() {
    let mut report = empty();
    let mut comparison = sample::comparison();
    comparison.rows.truncate(1);
    comparison.rows[0].rounds = 3;
    let mut totals = crate::result::Totals::default();
    sample::report().results.iter().take(6).for_each(|it| totals.add(it));
    comparison.totals = Some(totals);
    report.comparison = Some(comparison);
    let text = page(&report);
    assert!(text.contains("<h1>A: Holdfast against B: nfs-ganesha 4.3</h1>"));
    assert!(text.contains(
        "<code>192.0.2.7:2049:/main</code> (NFSv3) and <code>192.0.2.8:2049:/ganesha</code> (NFSv3)"
    ));
    assert!(text.contains("measurements: 6;") && !text.contains("threads: none"));
    assert!(text.contains("rounds: 3.") && text.contains("no difference shown"));
    // No row is a fraction of a limit, or beside a published figure.
    assert!(!text.contains("no limit was measured") && !text.contains("Published figures"));
    assert!(!text.contains("class=\"faster\"") && !text.contains("span faster"));
    let table = table::render(&report);
    assert!(table.contains("no difference shown") && table.contains("at least 5 rounds"), "{table}");
    report.comparison.as_mut().unwrap().rows[0].rounds = 5;
    assert!(page(&report).contains("<td class=\"words\">A is faster</td>"));
    report.comparison.as_mut().unwrap().rows[0].a_errors = 7;
    let (text, table) = (page(&report), table::render(&report));
    for said in ["no verdict: 7 operations failed", "errors: 7 and 0"] {
        assert!(text.contains(said) && table.contains(said), "{said}");
    }
    assert!(!text.contains("class=\"faster\"") && !text.contains("span faster"));
}

/// The largest number of a page was once "161 % of TCP line rate".
#[test]
fn a_rate_above_its_limit_is_shown_without_a_fraction() {
    let mut report = sample::report();
    report.comparison = None;
    report.results.retain(|it| it.name.starts_with("sequential read"));
    report.results.truncate(1);
    let it = &mut report.results[0];
    it.limit =
        Some(crate::result::FractionOfLimit { limit: crate::result::LimitKind::TcpLineRate, fraction: 1.61 });
    let rate = units::bytes_per_second(it.bytes_per_s);
    let page = page(&report);
    assert!(!page.contains("161 %") && page.contains(&format!("<p class=\"big rate\">{rate}</p>")));
    assert!(page.contains("is not valid as a limit"));
    let table = table::render(&report);
    assert!(!table.contains("161 %") && table.contains("Not valid as a limit"), "{table}");
}

/// Returns the report with one result of each workload that uses data.
fn one_of_each_workload() -> Report {
    let mut report = empty();
    for it in sample::report().results {
        if it.footprint_bytes() > 0 && !report.results.iter().any(|known| known.name == it.name) {
            report.results.push(it);
        }
    }
    report
}

#[test]
fn results_that_fit_the_servers_memory_are_marked_whatever_they_are_called() {
    let mut report = one_of_each_workload();
    let marked = |report: &Report| table::render(report).matches("in memory: ").count();
    report.server_memory_bytes = Some(1 << 40);
    assert_eq!(marked(&report), report.results.len(), "{}", table::render(&report));
    assert!(page(&report).matches("in memory: ").count() >= report.results.len());
    assert!(page(&report).contains("in memory: 8 GiB of 1 TiB"));
    report.server_memory_bytes = Some(1);
    assert_eq!((marked(&report), page(&report).matches("in memory: ").count()), (0, 0));
}

#[test]
fn files_and_names_count_as_a_working_set() {
    let mut report = one_of_each_workload();
    report.results.retain(|it| it.name == "mdtest, empty files" || it.name == "readdir");
    report.results[0].threads = 64;
    report.server_memory_bytes = Some(4 << 30);
    // 768,000 files and a million names, 1 KiB each.
    for shown in [page(&report), table::render(&report)] {
        assert!(shown.contains("in memory: about 751 MiB of 4 GiB"));
        assert!(shown.contains("in memory: about 977 MiB of 4 GiB"));
        assert!(shown.contains("working sets: about 751 MiB to 977 MiB"), "{shown}");
        assert!(shown.contains("may not have used its media: all 2 measurements."), "{shown}");
    }
    assert_eq!(sample::report().results.iter().find(|it| it.name == "NULL").unwrap().footprint_bytes(), 0);
}

#[test]
fn without_the_servers_memory_the_user_is_asked_for_it_and_the_clients_is_the_measure() {
    let mut report = one_of_each_workload();
    report.host.memory_bytes = Some(64 << 30);
    for shown in [page(&report), table::render(&report)] {
        assert!(shown.contains("server: not known (give --server-memory); client: 64 GiB; working sets: "));
        assert!(
            shown.contains("memory is not known, so results that came from it are not marked; give --server")
        );
        assert!(shown.contains("fits the client") && shown.contains("s memory: 8 GiB of 64 GiB"));
        assert!(!shown.contains("in memory:"));
    }
    report.server_memory_bytes = Some(1 << 30);
    let text = table::render(&report);
    assert!(text.contains("memory  server: 1 GiB; client: 64 GiB"), "{text}");
    assert!(!text.contains("not known") && !text.contains("fits the client"), "{text}");
}

#[test]
fn a_comparison_marks_what_fits_the_memory_of_either_server() {
    let mut report = empty();
    report.comparison = Some(sample::comparison());
    for shown in [page(&report), table::render(&report)] {
        assert_eq!(shown.matches("in memory: 8 GiB of 64 GiB of A").count(), 6, "{shown}");
        assert!(shown.contains("server A: 64 GiB; server B: not known (give --server-memory-b)"), "{shown}");
    }
}

#[test]
fn bars_share_a_scale_and_none_is_cut_at_the_limit() {
    let bar = crate::report::plot::limited_bar(1.2, 1.5, "fill");
    assert!(bar.contains("class=\"fill\" width=\"80\""), "{bar}");
    assert!(bar.contains("class=\"limit\" x=\"66.4\""), "{bar}");
}

#[test]
fn a_page_is_self_contained() {
    let page = page(&sample::report());
    for outside in ["http:", "https:", "src=", "href=", "@import", "url(", "<link", "<iframe", "fetch("] {
        assert!(!page.contains(outside), "{outside}");
    }
}

#[test]
fn every_text_is_escaped() {
    let hostile = "</style><script>alert('x')</script>\"><img onerror=\"y\">&";
    let mut report = sample::report();
    report.tool = hostile.to_owned();
    report.caches = hostile.to_owned();
    for target in [&mut report.target, &mut report.comparison.as_mut().unwrap().a] {
        target.address = hostile.to_owned();
        target.export = hostile.to_owned();
        target.label = Some(hostile.to_owned());
    }
    report.host.name = hostile.to_owned();
    report.agents[0].kernel = hostile.to_owned();
    report.limits.directory.as_mut().unwrap().path = hostile.to_owned();
    report.comparison.as_mut().unwrap().rows[0].name = hostile.to_owned();
    for it in &mut report.results {
        it.name = hostile.to_owned();
        it.published = vec![hostile.to_owned()];
        it.phases.iter_mut().for_each(|phase| phase.procedure = hostile.to_owned());
        it.errors.iter_mut().for_each(|error| error.cause = hostile.to_owned());
    }
    let page = page(&report);
    assert_eq!(page.matches("<script>").count(), 1, "only the page's own");
    assert!(!page.contains("<img"));
}

#[test]
fn an_empty_report_says_so() {
    let page = page(&empty());
    assert!(page.contains("Nothing was measured."));
    assert!(!page.contains("<figure"));
    assert!(table::render(&empty()).contains("caches"));
}

#[test]
fn a_single_point_is_drawn_as_a_bar() {
    let mut report = sample::report();
    report.results.truncate(1);
    report.results[0].timeline.truncate(1);
    let page = page(&report);
    assert!(page.contains("class=\"bars\""));
    assert!(!page.contains("id=\"time\""), "there is no time without two moments");
}

#[test]
fn a_workload_with_concurrent_procedures_has_a_rate_chart() {
    let mut report = sample::report();
    let parts = report.results.iter().find(|it| it.phases.len() > 1).unwrap().phases.clone();
    report.results.retain(|it| it.name == "random 4 KiB 70:30");
    report.results.iter_mut().for_each(|it| it.phases.clone_from(&parts));
    let page = page(&report);
    assert!(page.contains("id=\"rates\"") && !page.contains("id=\"metadata\""));
}

#[test]
fn figures_that_are_not_numbers_are_not_printed() {
    for odd in [f64::NAN, f64::INFINITY, 0.0, f64::MAX] {
        let mut report = sample::report();
        for it in &mut report.results {
            (it.operations_per_s, it.bytes_per_s, it.seconds) = (odd, odd, odd);
            it.limit.iter_mut().for_each(|limit| limit.fraction = odd);
            it.phases.iter_mut().for_each(|phase| phase.operations_per_s = odd);
            it.timeline.iter_mut().for_each(|sample| sample.operations_per_s = odd);
        }
        let page = page(&report);
        for wrong in [">NaN", ">inf", "\"NaN", "\"inf"] {
            assert!(!page.contains(wrong), "{odd}: {wrong}");
        }
    }
}

#[test]
fn json_reads_what_it_wrote() {
    let report = sample::report();
    let text = json::write(&report);
    assert!(text.ends_with("}\n"));
    same(&text, &json::write(&json::read(&text).unwrap()));
}

#[test]
fn other_schemas_and_other_texts_are_refused_clearly() {
    let text = json::write(&empty());
    let newer = text.replacen(&format!("\"schema\": {SCHEMA}"), "\"schema\": 99", 1);
    let error = json::read(&newer).unwrap_err();
    assert!(matches!(error, ReadError::OtherSchema { schema: 99, .. }));
    assert!(
        error.to_string().contains("schema 99") && error.to_string().contains("holdfast bench"),
        "{error}"
    );
    assert!(matches!(json::read("{}"), Err(ReadError::NotAReport)));
    assert!(matches!(json::read("[1, 2]"), Err(ReadError::NotAReport)));
    assert!(matches!(json::read("hello"), Err(ReadError::NotJson(_))));
    assert!(matches!(json::read("{\"schema\": 1}"), Err(ReadError::Malformed(_))));
    assert!(matches!(json::read("{\"schema\": \"1\"}"), Err(ReadError::NotAReport)));
}

#[test]
fn any_report_makes_a_page_a_table_and_json() {
    let fresh = std::hash::RandomState::new().build_hasher().finish();
    let first = std::env::var("HOLDFAST_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(fresh);
    for seed in (0..150).map(|i| first.wrapping_add(i)) {
        println!("HOLDFAST_SEED={seed}");
        let report = Arbitrary(fastrand::Rng::with_seed(seed)).report();
        let page = page(&report);
        assert!(!page.contains("<script>alert"));
        let table = table::render(&report);
        assert!(!table.chars().any(|c| c.is_control() && c != '\n'), "{table}");
        let text = json::write(&report);
        let again = json::read(&text).unwrap_or_else(|error| panic!("{error}"));
        same(&text, &json::write(&again));
    }
}

/// Loopback TCP is copying within one machine, not what a network carries.
#[test]
fn tcp_within_one_machine_is_not_called_a_line_rate() {
    let mut report = sample::report();
    report.target.address = "127.0.0.1:2049".to_owned();
    let (page, text) = (page(&report), table::render(&report));
    for shown in [&page, &text] {
        assert!(!shown.contains("TCP line rate") && !shown.contains("of TCP"), "{shown}");
        assert!(shown.contains("loopback TCP rate"));
    }
    assert!(text.contains("limit   loopback TCP 9.60 GB/s"), "{text}");
    report.limits.tcp_peer = Some("127.0.0.1:7411".to_owned());
    assert!(table::render(&report).contains("90.0 % of TCP line rate"));
}

/// Returns the circles (measured) or squares (published) of a chart's lines: their y, and the rate that they say.
fn marks<'p>(figure: &'p str, shape: &str, y: &str) -> Vec<(f64, &'p str)> {
    let start = format!("<{shape} class=\"mark\"");
    let marks = figure.split(&start).skip(1);
    let found = marks.map(|mark| {
        let (_, rest) = mark.split_once(&format!(" {y}=\"")).unwrap();
        let (place, rest) = rest.split_once('"').unwrap();
        let (_, says) = rest.split_once("<title>").unwrap();
        (place.parse().unwrap(), says.split_once("</title>").unwrap().0)
    });
    found.collect()
}

#[test]
fn metadata_over_threads_has_published_rates_on_the_same_axis() {
    let page = page(&sample::report());
    let (_, figure) = page.split_once("<h3>Empty files over threads</h3>").unwrap();
    let (figure, _) = figure.split_once("</figure>").unwrap();
    let published = marks(figure, "rect", "y");
    let row = crate::published::find("dell-mdtest-empty-stat").unwrap();
    let stat: Vec<_> = published.iter().filter(|(_, says)| says.contains("STAT")).collect();
    assert_eq!(stat.len(), row.points.len().max(1), "{figure}");
    // A mark's place follows from its rate, on one line through those of both kinds.
    let measured = marks(figure, "circle", "cy");
    let at = |says: &str| measured.iter().find(|(_, it)| it.contains(says)).unwrap().0;
    let (low, high) = (at("STAT\nthreads: 1\n"), at("STAT\nthreads: 1024\n"));
    let phases = sample::report().results.into_iter().filter(|it| it.name == "mdtest, empty files");
    let rates: Vec<f64> = phases.map(|it| it.phases[1].operations_per_s).collect();
    let per_unit = (low - high) / (rates[10] - rates[0]);
    for (place, says) in stat {
        let point =
            row.points.iter().find(|it| says.contains(&format!("threads: {}\n", it.threads))).unwrap();
        let expected = low - (point.figure - rates[0]) * per_unit;
        assert!((place + 3.5 - expected).abs() < 0.2, "{says} at {place} instead of {expected}");
    }
}
