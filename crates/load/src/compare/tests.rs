use super::*;
use crate::result::{ErrorCount, Latency, Phase, ServerCost, Verdict};
use crate::workload::RateProcedure;

fn measurement(workload: Workload, rate: f64, cpu_ns: Option<f64>) -> Measurement {
    let phase = |procedure: &str| Phase {
        procedure: procedure.to_owned(),
        seconds: 1.0,
        operations: 1,
        operations_per_s: rate / 2.0,
        latency: Latency::default(),
    };
    Measurement {
        protocol: crate::client::Protocol::V3,
        slots: None,
        name: workload.name(),
        workload,
        threads: 4,
        depth: 1,
        connections: 4,
        seed: 1,
        working_set_bytes: 0,
        seconds: 1.0,
        warmup_seconds: 0.0,
        operations: 1,
        bytes: 0,
        errors: Vec::new(),
        operations_per_s: rate,
        bytes_per_s: rate * 4096.0,
        latency: Latency::default(),
        phases: vec![phase("CREATE"), phase("REMOVE")],
        timeline: Vec::new(),
        steady: None,
        interrupted: false,
        verified_blocks: None,
        delayed_calls: 0,
        server: cpu_ns.map(|cpu_ns_per_operation| ServerCost {
            pid: 1,
            cpu_seconds: 1.0,
            cpu_ns_per_operation,
            cpu_seconds_per_gib: Some(cpu_ns_per_operation / 1e3),
        }),
        limit: None,
        published: Vec::new(),
        failed_hosts: Vec::new(),
    }
}

const GETATTR: Workload = Workload::Rate { procedure: RateProcedure::Getattr };

#[test]
fn the_median_is_the_middle_value() {
    for (figures, middle) in [
        (vec![], None),
        (vec![3.0], Some(3.0)),
        (vec![4.0, 1.0], Some(2.5)),
        (vec![9.0, 1.0, 2.0], Some(2.0)),
    ] {
        assert_eq!(median(figures), middle);
    }
}

#[test]
fn ratios_use_medians_and_spread_uses_rounds() {
    let pair = |a: f64, b: f64| [measurement(GETATTR, a, Some(1000.0)), measurement(GETATTR, b, Some(a))];
    let rows = rows_of(&[pair(300.0, 100.0), pair(200.0, 100.0), pair(100.0, 50.0)]);
    let [row] = rows.as_slice() else { panic!("{rows:?}") };
    assert_eq!((row.a_median, row.b_median, row.ratio), (200.0, 100.0, 2.0));
    assert_eq!((row.ratio_low, row.ratio_high, row.unit.as_str()), (2.0, 3.0, "operations/s"));
    assert_eq!((row.a_cpu_ns_per_operation, row.b_cpu_ns_per_operation), (Some(1000.0), Some(200.0)));
    assert_eq!((row.cpu_ratio, row.a_cpu_seconds_per_gib), (Some(5.0), Some(1.0)));
}

/// The same binary twice on a busy machine: a wide ratio of three rounds proves nothing.
#[test]
fn a_verdict_needs_five_rounds_that_agree() {
    let verdict = |ratios: &[f64]| {
        let pairs: Vec<Pair> = ratios
            .iter()
            .map(|ratio| [measurement(GETATTR, 100.0 * ratio, None), measurement(GETATTR, 100.0, None)])
            .collect();
        let rows = rows_of(&pairs);
        assert_eq!(rows[0].rounds as usize, ratios.len());
        rows[0].verdict()
    };
    assert_eq!(verdict(&[3.61, 3.7, 3.5]), Verdict::NotShown);
    assert_eq!(verdict(&[3.61, 3.7, 3.5, 3.6]), Verdict::NotShown);
    assert_eq!(verdict(&[3.61, 3.7, 3.5, 3.6, 1.01]), Verdict::AFaster);
    assert_eq!(verdict(&[3.61, 3.7, 3.5, 3.6, 0.99, 4.0]), Verdict::NotShown);
    assert_eq!(verdict(&[1.0; 9]), Verdict::NotShown);
    assert_eq!(verdict(&[0.5, 0.6, 0.7, 0.8, 0.9]), Verdict::BFaster);
}

#[test]
fn a_server_that_fails_operations_wins_nothing() {
    let tree = Workload::Metadata { files_per_directory: 1, directories_per_thread: 1, file_bytes: 0 };
    let rows = |failing: usize| {
        let pair = || {
            let mut pair = [measurement(tree, 900.0, None), measurement(tree, 100.0, None)];
            pair[failing].errors = vec![ErrorCount { cause: "CREATE: NFS3ERR_NOSPC".to_owned(), count: 250 }];
            pair
        };
        rows_of(&[pair(), pair(), pair(), pair(), pair()])
    };
    for row in rows(0) {
        assert_eq!(row.verdict().words(), "no verdict: 1,250 operations failed", "{}", row.name);
    }
    // The phases belong to the same measurements.
    assert_eq!(rows(1).len(), 3);
    for row in rows(1) {
        assert_eq!((row.a_errors, row.b_errors, row.verdict()), (0, 1250, Verdict::AFaster), "{}", row.name);
    }
}

#[test]
fn streams_count_bytes_and_phases_have_rows() {
    let stream = Workload::SequentialRead { block_bytes: 4096, shared_file: false };
    let rows = rows_of(&[[measurement(stream, 2.0, None), measurement(stream, 1.0, None)]]);
    assert_eq!((rows[0].a_median, rows[0].unit.as_str(), rows.len()), (8192.0, "bytes/s", 1));
    assert_eq!((rows[0].a_cpu_ns_per_operation, rows[0].cpu_ratio), (None, None));
    let tree = Workload::Metadata { files_per_directory: 1, directories_per_thread: 1, file_bytes: 0 };
    let rows = rows_of(&[[measurement(tree, 2.0, None), measurement(tree, 4.0, None)]]);
    let names: Vec<&str> = rows.iter().map(|row| row.name.as_str()).collect();
    let name = "metadata 1 x 1 empty files, threads: 4";
    assert_eq!(names, [name, &format!("{name}: CREATE"), &format!("{name}: REMOVE")]);
}

#[test]
fn a_server_without_operations_has_no_ratio() {
    assert!(rows_of(&[[measurement(GETATTR, 1.0, None), measurement(GETATTR, 0.0, None)]]).is_empty());
    assert!(rows_of(&[]).is_empty());
}
