//! The choice of the limit for a result.

use super::*;
use crate::run::Unobserved;
use crate::run::tests::fake::{Fake, Fault};
use crate::run::{Length, Options};

fn report_with(limits: Limits) -> Report {
    let target = crate::result::Target {
        address: String::new(),
        export: String::new(),
        protocol: crate::client::Protocol::V3,
        label: None,
    };
    let host =
        crate::result::Host { name: String::new(), cores: 1, kernel: String::new(), memory_bytes: None };
    Report { limits, ..Report::new(target, host, String::new(), 0) }
}

/// A limit that was measured at a bad moment is measured again; one that stays too low is not valid.
#[test]
fn a_limit_that_a_result_exceeds_is_measured_again() {
    let fake = Fake::start(Fault::None);
    let options = Options { length: Length::Operations(40), ..Options::default() };
    let workload = Workload::Rate { procedure: RateProcedure::Getattr };
    let measured = crate::run::measure(&fake.server, &workload, &options, &mut Unobserved).unwrap();
    let scope = Scope { directory: None, peer: None, length: Duration::from_millis(200) };
    let add = |measured: &Measurement, limits: Limits| {
        let mut report = report_with(limits);
        add_result(measured.clone(), &mut report, &fake.server, &scope, None, &mut Unobserved);
        report
    };
    let low = Limits { null_calls_per_s: Some(0.001), ..Limits::default() };
    let slow = Measurement { operations_per_s: 1.0, ..measured.clone() };
    let report = add(&slow, low.clone());
    assert!(report.results[0].limit.as_ref().is_some_and(|limit| limit.fraction < 1.0));
    assert!(report.limits.not_valid.is_empty());
    let absurd = Measurement { operations_per_s: 1e15, ..measured };
    let report = add(&absurd, low);
    assert_eq!(report.results[0].limit, None);
    assert_eq!(report.limits.not_valid, [LimitKind::NullCalls]);
}

#[test]
fn data_is_compared_with_the_limit_of_its_direction() {
    let fake = Fake::start(Fault::None);
    let options = Options { length: Length::Operations(4), working_set_bytes: 1 << 20, ..Options::default() };
    let both = Limits {
        null_calls_per_s: Some(1e9),
        tcp_bytes_per_s: Some(2e12),
        tcp_sent_bytes_per_s: Some(1e12),
        ..Limits::default()
    };
    let received = Limits { tcp_sent_bytes_per_s: None, ..both.clone() };
    let (block_bytes, shared_file, stability) = (1 << 18, false, Stability::FileSync);
    for (workload, limits, limit, rate) in [
        (Workload::SequentialRead { block_bytes, shared_file }, &both, LimitKind::TcpLineRate, 2e12),
        (
            Workload::SequentialWrite { block_bytes, shared_file, stability },
            &both,
            LimitKind::TcpSentRate,
            1e12,
        ),
        (
            Workload::SequentialWrite { block_bytes, shared_file, stability },
            &received,
            LimitKind::TcpLineRate,
            2e12,
        ),
    ] {
        let measurement = crate::run::measure(&fake.server, &workload, &options, &mut Unobserved).unwrap();
        let fraction = limits.fraction(&measurement).unwrap();
        assert_eq!(fraction, FractionOfLimit { limit, fraction: measurement.bytes_per_s / rate });
    }
}
