//! Whole measurements against a server in memory.

use std::time::Duration;

use wire::nfs3::Procedure;

use super::*;
use crate::workload::{RateProcedure, Stability};

pub(crate) mod fake;
mod fake4;
mod nfs4;

use fake::{Fake, Fault};

fn options(threads: u32, depth: u32, operations: u64) -> Options {
    Options {
        threads,
        depth,
        length: Length::Operations(operations),
        working_set_bytes: 1 << 20,
        seed: Some(11),
        reply_timeout: Duration::from_secs(20),
        ..Options::default()
    }
}

fn run(fake: &Fake, workload: Workload, options: &Options) -> Result<Measurement, LoadError> {
    measure(&fake.server, &workload, options, &mut Unobserved)
}

const RANDOM: Workload =
    Workload::Random { block_bytes: 4096, read_percent: 50, stability: Stability::FileSync };

/// Every workload runs exactly the requested operations and leaves no files.
#[test]
fn every_workload_counts_correctly_and_cleans_up() {
    let (block_bytes, shared_file) = (4096, true);
    for workload in [
        Workload::Null,
        Workload::Rate { procedure: RateProcedure::Getattr },
        Workload::Rate { procedure: RateProcedure::Access },
        Workload::Rate { procedure: RateProcedure::Lookup },
        Workload::Rate { procedure: RateProcedure::LookupMissing },
        Workload::Rate { procedure: RateProcedure::OpenClose },
        Workload::Rate { procedure: RateProcedure::CreateRemove },
        Workload::Rate { procedure: RateProcedure::WriteFileSync },
        Workload::Rate { procedure: RateProcedure::WriteCommit },
        Workload::SequentialRead { block_bytes, shared_file },
        Workload::SequentialRead { block_bytes: 1 << 20, shared_file: false },
        Workload::SequentialWrite { block_bytes, shared_file, stability: Stability::DataSync },
        RANDOM,
        Workload::Random { block_bytes: 512, read_percent: 100, stability: Stability::Unstable },
    ] {
        let fake = Fake::start(Fault::None);
        let result = run(&fake, workload, &options(4, 3, 400)).unwrap();
        assert_eq!((result.operations, result.latency.count), (400, 400), "{workload:?}");
        assert_eq!(result.errors, [], "{workload:?}");
        assert!(result.operations_per_s > 0.0 && result.seconds > 0.0, "{workload:?}");
        assert_eq!(fake.objects(), 0, "{workload:?} leaves nothing");
        assert!(result.latency.min_ns > 0 && result.latency.p50_ns <= result.latency.max_ns);
    }
}

#[test]
fn calls_reach_the_server_as_often_as_counted() {
    let fake = Fake::start(Fault::None);
    let result =
        run(&fake, Workload::Rate { procedure: RateProcedure::WriteCommit }, &options(2, 2, 100)).unwrap();
    // The files are filled with WRITEs of the server's maximum size and committed once.
    let fills = (1 << 20) / (64 << 10);
    assert_eq!(fake.calls(Procedure::Write), 100 + fills);
    assert_eq!(fake.calls(Procedure::Commit), 100 + 2);
    let phases: Vec<(&str, u64)> =
        result.phases.iter().map(|phase| (phase.procedure.as_str(), phase.operations)).collect();
    assert_eq!(phases, [("WRITE", 100), ("COMMIT", 100)]);
    assert_eq!(result.bytes, 100 * 4096);
}

#[test]
fn large_blocks_are_split_and_counted_once() {
    let fake = Fake::start(Fault::None);
    let workload = Workload::SequentialRead { block_bytes: 1 << 20, shared_file: false };
    let result = run(&fake, workload, &Options { verify: true, ..options(1, 2, 10) }).unwrap();
    assert_eq!((result.operations, result.bytes), (10, 10 << 20));
    assert_eq!(fake.calls(Procedure::Read), 10 * 16);
    assert_eq!(result.verified_blocks, Some(10 * 256));
}

#[test]
fn a_pass_of_unstable_writes_ends_with_a_commit() {
    let fake = Fake::start(Fault::None);
    let workload =
        Workload::SequentialWrite { block_bytes: 65536, shared_file: false, stability: Stability::Unstable };
    let result = run(&fake, workload, &options(1, 4, 16 + 1 + 16)).unwrap();
    assert_eq!(fake.calls(Procedure::Write), 32);
    // One between the passes, one at the end.
    assert_eq!(fake.calls(Procedure::Commit), 2);
    assert_eq!(result.operations, 32);
}

#[test]
fn phases_have_their_own_figures() {
    for (file_bytes, bytes) in [(0, 0), (4096, 2 * 4096 * 60)] {
        let fake = Fake::start(Fault::None);
        let workload = Workload::Metadata { files_per_directory: 10, directories_per_thread: 2, file_bytes };
        let result = run(&fake, workload, &Options { verify: true, ..options(3, 4, 1) }).unwrap();
        let phases: Vec<(&str, u64)> =
            result.phases.iter().map(|phase| (phase.procedure.as_str(), phase.operations)).collect();
        assert_eq!(phases, [("CREATE", 60), ("STAT", 60), ("READ", 60), ("REMOVE", 60)]);
        assert_eq!((result.operations, result.bytes), (240, bytes));
        assert_eq!(fake.objects(), 0);
        let seconds: f64 = result.phases.iter().map(|phase| phase.seconds).sum();
        assert!((seconds - result.seconds).abs() < 1e-6);
    }
}

#[test]
fn small_files_make_and_remove_their_directories() {
    let fake = Fake::start(Fault::None);
    let workload =
        Workload::SmallFiles { files_per_directory: 7, directories_per_thread: 3, file_bytes: 512 };
    let result = run(&fake, workload, &Options { verify: true, ..options(2, 5, 1) }).unwrap();
    let counts: Vec<u64> = result.phases.iter().map(|phase| phase.operations).collect();
    assert_eq!(counts, [48, 42, 48]);
    assert_eq!(fake.calls(Procedure::Setattr), 42);
    assert_eq!(result.errors, []);
}

#[test]
fn listings_count_names() {
    for plus in [false, true] {
        let fake = Fake::start(Fault::None);
        let workload = Workload::Readdir { names: 100, plus };
        let result = run(&fake, workload, &options(2, 1, 12)).unwrap();
        // A listing takes three calls: 40, 40 and 20 names.
        assert_eq!(result.operations, 400);
        assert_eq!(result.errors, []);
    }
}

#[test]
fn a_thousand_threads_share_eight_connections() {
    let fake = Fake::start(Fault::None);
    let options = Options { connections: Connections::Total(8), ..options(1024, 2, 4096) };
    let result = run(&fake, Workload::Rate { procedure: RateProcedure::Getattr }, &options).unwrap();
    assert_eq!((result.operations, result.connections), (4096, 8));
}

#[test]
fn several_connections_serve_one_thread() {
    let fake = Fake::start(Fault::None);
    let options = Options { connections: Connections::PerThread(4), ..options(2, 8, 400) };
    assert_eq!(run(&fake, RANDOM, &options).unwrap().connections, 8);
}

#[test]
fn correct_data_is_verified() {
    let fake = Fake::start(Fault::None);
    let result = run(&fake, RANDOM, &Options { verify: true, ..options(3, 4, 3000) }).unwrap();
    assert_eq!(result.errors, []);
    let reads = result.phases.iter().find(|phase| phase.procedure == "READ").unwrap().operations;
    // At the end, the whole working set is read once more.
    let blocks = 3 * ((1 << 20) / 3 / 4096);
    assert_eq!(result.verified_blocks, Some(reads + blocks));
}

#[test]
fn written_blocks_are_read_back() {
    let fake = Fake::start(Fault::None);
    let workload =
        Workload::SequentialWrite { block_bytes: 65536, shared_file: true, stability: Stability::FileSync };
    // Less than a pass, and more than a pass.
    for (operations, blocks) in [(10, 10 * 16), (40, 16 * 16)] {
        let result = run(&fake, workload, &Options { verify: true, ..options(2, 2, operations) }).unwrap();
        assert_eq!((result.operations, result.verified_blocks), (operations, Some(blocks)));
        assert_eq!(result.errors, []);
    }
}

#[test]
fn wrong_data_is_found() {
    let fake = Fake::start(Fault::OtherBlocks);
    let result = run(&fake, RANDOM, &Options { verify: true, ..options(1, 1, 200) }).unwrap();
    assert_eq!(result.verified_blocks, Some(0));
    assert_eq!(result.errors.len(), 1);
    assert_eq!(result.errors[0].cause, "READ: wrong data (of another offset)");
    assert!(result.errors[0].count + result.operations >= 200);
}

#[test]
fn short_reads_and_writes_are_continued() {
    for verify in [false, true] {
        let fake = Fake::start(Fault::Short);
        let workload =
            Workload::Random { block_bytes: 65536, read_percent: 50, stability: Stability::Commit };
        let result = run(&fake, workload, &Options { verify, ..options(2, 2, 60) }).unwrap();
        assert_eq!(result.errors, []);
        assert_eq!(result.bytes, 60 << 16);
    }
}

#[test]
fn failures_are_counted_by_cause() {
    let fake = Fake::start(Fault::SomeRemovesFail);
    let options = Options { keep: true, ..options(1, 1, 200) };
    let result = run(&fake, Workload::Rate { procedure: RateProcedure::CreateRemove }, &options).unwrap();
    assert_eq!(result.errors.len(), 1);
    assert_eq!(result.errors[0].cause, "REMOVE: NFS3ERR_SERVERFAULT");
    assert_eq!(result.errors[0].count + result.operations, 200);
}

#[test]
fn delayed_calls_are_made_again_and_counted() {
    let fake = Fake::start(Fault::SomeRemovesDelayed);
    let result =
        run(&fake, Workload::Rate { procedure: RateProcedure::CreateRemove }, &options(1, 1, 40)).unwrap();
    assert_eq!((result.operations, result.errors), (40, Vec::new()));
    assert!(result.delayed_calls > 0 && result.latency.max_ns >= 100_000_000);
    assert_eq!(fake.calls(Procedure::Remove), 20 + result.delayed_calls);
    assert_eq!(fake.objects(), 0);
}

#[test]
fn a_lost_write_is_noticed_by_its_verifier() {
    let fake = Fake::start(Fault::Forgetful);
    let why = run(&fake, RANDOM, &options(1, 1, 10)).unwrap_err().to_string();
    assert!(why.contains("verifier"), "{why}");
}

#[test]
fn a_broken_server_ends_the_measurement() {
    for (fault, workload, words) in [
        (Fault::NoSpace, RANDOM, "full"),
        (Fault::NoPermission, RANDOM, "permission denied"),
        (Fault::OtherCalls, Workload::Null, "a call that was not made"),
        (
            Fault::EarlyEnd,
            Workload::SequentialRead { block_bytes: 4096, shared_file: false },
            "end of file reported early",
        ),
    ] {
        let fake = Fake::start(fault);
        let why = run(&fake, workload, &options(2, 2, 5000)).unwrap_err().to_string();
        assert!(why.contains(words), "{fault:?}: {why}");
        assert_eq!(fake.objects(), 0, "{fault:?} leaves nothing");
    }
}

#[test]
fn a_working_set_that_does_not_fit_is_refused_before_anything_is_written() {
    let fake = Fake::start(Fault::SmallDisk);
    let large = Options { working_set_bytes: 1 << 40, ..options(2, 2, 10) };
    let why = run(&fake, RANDOM, &large).unwrap_err().to_string();
    let said = "the working set of 1 TiB is larger than the server's free space: --working-set 18GiB fits";
    assert_eq!(why, said);
    assert_eq!((fake.calls(Procedure::Mkdir), fake.calls(Procedure::Write)), (0, 0));
    // Work without file data does not need the space.
    assert!(run(&fake, Workload::Rate { procedure: RateProcedure::Getattr }, &large).is_ok());
    let check =
        |bytes, free| check_space(&RANDOM, &Options { working_set_bytes: bytes, ..options(1, 1, 10) }, free);
    assert!(check(9, 8).unwrap_err().to_string().contains("almost full"));
    assert!(check(5, 5).is_ok() && check(1, 0).is_ok());
}

#[test]
fn files_that_do_not_fit_are_refused_before_any_is_made() {
    let fake = Fake::start(Fault::SmallDisk);
    let many = 1 << 24;
    let (files_per_directory, directories_per_thread, file_bytes) = (many, 1, 0);
    for workload in [
        Workload::Metadata { files_per_directory, directories_per_thread, file_bytes },
        Workload::SmallFiles { files_per_directory, directories_per_thread, file_bytes },
        Workload::Readdir { names: 2 * many + 1, plus: true },
    ] {
        let why = run(&fake, workload, &options(2, 2, 10)).unwrap_err().to_string();
        let said = "the files need about 33 GiB, more than the server's free space: \
                    make fewer or smaller ones, at most 18 GiB";
        assert_eq!(why, said, "{workload:?}");
        assert_eq!(fake.calls(Procedure::Mkdir), 0);
    }
    let few = Workload::Metadata { files_per_directory: 2, directories_per_thread, file_bytes };
    assert!(run(&fake, few, &options(2, 2, 10)).is_ok());
}

#[test]
fn silence_ends_a_measurement() {
    let fake = Fake::start(Fault::Mute);
    let options = Options { reply_timeout: Duration::from_millis(200), ..options(1, 1, 10) };
    let why = run(&fake, Workload::Rate { procedure: RateProcedure::Getattr }, &options).unwrap_err();
    assert!(why.to_string().contains("answered nothing"), "{why}");
}

#[test]
fn a_server_that_is_not_there_is_an_error() {
    let server = Server::parse("127.0.0.1:1:/export").unwrap();
    let why = measure(&server, &Workload::Null, &options(1, 1, 1), &mut Unobserved).unwrap_err().to_string();
    assert!(why.contains("cannot connect to 127.0.0.1:1"), "{why}");
}

/// Interrupts a measurement after two intervals.
struct Impatient {
    seen: u32,
    measured: Vec<&'static str>,
}

impl Observer for Impatient {
    fn before_stage(&mut self, stage: &'static str) -> Result<(), LoadError> {
        self.measured.push(stage);
        Ok(())
    }

    fn progress(&mut self, progress: &Progress) {
        self.seen += u32::from(progress.is_measured);
    }

    fn is_interrupted(&mut self) -> bool {
        self.seen >= 2
    }
}

#[test]
fn an_interrupted_measurement_has_the_result_so_far() {
    let fake = Fake::start(Fault::None);
    let mut observer = Impatient { seen: 0, measured: Vec::new() };
    let options = Options {
        length: Length::Time(Duration::from_secs(3600)),
        warmup: Duration::ZERO,
        ..options(2, 2, 0)
    };
    let result = measure(&fake.server, &RANDOM, &options, &mut observer).unwrap();
    assert!(result.interrupted && result.operations > 0 && result.timeline.len() >= 2);
    assert_eq!(fake.objects(), 0);
    assert_eq!(observer.measured, ["measure"]);
}

/// Interrupts before the first operation counts.
struct Hasty;

impl Observer for Hasty {
    fn is_interrupted(&mut self) -> bool {
        true
    }
}

#[test]
fn an_empty_measurement_is_an_error_not_a_row_of_zeros() {
    let fake = Fake::start(Fault::None);
    let long = Options { length: Length::Time(Duration::from_secs(3600)), ..options(2, 2, 0) };
    let why = measure(&fake.server, &RANDOM, &long, &mut Hasty).unwrap_err().to_string();
    assert!(why.contains("nothing was measured: interrupted"), "{why}");
    assert_eq!(fake.objects(), 0);
    let none = Options { length: Length::Time(Duration::ZERO), ..options(2, 2, 0) };
    let why = run(&fake, RANDOM, &none).unwrap_err().to_string();
    assert!(why.contains("nothing was measured"), "{why}");
    // A workload in phases runs once.
    let tree = Workload::Metadata { files_per_directory: 2, directories_per_thread: 1, file_bytes: 0 };
    assert_eq!(run(&fake, tree, &none).unwrap().operations, 16);
}

#[test]
fn a_steady_rate_is_recognized() {
    // The rates of a busy machine do not matter: one rule accepts every rate, the other none.
    for (bound, reached) in [(1e9, true), (0.0, false)] {
        let fake = Fake::start(Fault::None);
        let rule = SteadyRule {
            round: Duration::from_millis(50),
            rounds: 3,
            spread: bound,
            slope: bound,
            duration_max: Duration::from_millis(600),
        };
        let options = Options { length: Length::Steady(rule), warmup: Duration::ZERO, ..options(1, 4, 0) };
        let result = run(&fake, Workload::Null, &options).unwrap();
        let steady = result.steady.unwrap();
        assert_eq!(steady.reached, reached);
        assert!((steady.window_s - 0.15).abs() < 1e-9 && (result.seconds - 0.15).abs() < 1e-9);
        assert_eq!(result.operations, result.latency.count);
    }
}

#[test]
fn the_timeline_adds_up() {
    let fake = Fake::start(Fault::None);
    let options = Options {
        length: Length::Time(Duration::from_millis(400)),
        warmup: Duration::from_millis(50),
        ..options(2, 2, 0)
    };
    let result = run(&fake, Workload::Null, &options).unwrap();
    let mut before = 0.0;
    let mut operations = 0.0;
    for sample in &result.timeline {
        operations += sample.operations_per_s * (sample.at_s - before);
        before = sample.at_s;
    }
    let all = result.operations as f64;
    assert!((operations - all).abs() <= all / 50.0, "{operations} of {all}");
    assert!((result.seconds - 0.4).abs() < 1e-9);
}

#[test]
fn a_result_survives_json() {
    let fake = Fake::start(Fault::None);
    let result = run(&fake, RANDOM, &options(1, 1, 10)).unwrap();
    let text = serde_json::to_string(&result).unwrap();
    let again: Measurement = serde_json::from_str(&text).unwrap();
    assert_eq!(serde_json::to_string(&again).unwrap(), text);
    assert_eq!(again.latency.to_histogram().unwrap().len(), 10);
}

/// Collects how much of each stage is done.
#[derive(Default)]
struct Fractions {
    seen: Vec<(&'static str, f64)>,
    interrupts: bool,
}

impl Observer for Fractions {
    fn progress(&mut self, progress: &Progress) {
        self.seen.extend(progress.fraction.map(|fraction| (progress.stage, fraction)));
    }

    fn is_interrupted(&mut self) -> bool {
        self.interrupts && !self.seen.is_empty()
    }
}

#[test]
fn progress_says_how_much_of_each_stage_is_done() {
    let tree = Workload::Metadata { files_per_directory: 10, directories_per_thread: 2, file_bytes: 0 };
    let listing = Workload::Readdir { names: 15_000, plus: false };
    for (workload, stages) in [
        (RANDOM, &["fill", "measure"][..]),
        (listing, &["prepare", "measure"]),
        (tree, &["CREATE", "STAT", "READ", "REMOVE"]),
    ] {
        let fake = Fake::start(Fault::None);
        let mut fractions = Fractions::default();
        measure(&fake.server, &workload, &options(2, 2, 400), &mut fractions).unwrap();
        assert!(fractions.seen.iter().all(|(_, fraction)| (0.0..=1.0).contains(fraction)));
        for stage in stages {
            let last = fractions.seen.iter().rfind(|(name, _)| name == stage);
            assert_eq!(last, Some(&(*stage, 1.0)), "{workload:?}: {:?}", fractions.seen);
        }
    }
}

#[test]
fn an_interruption_while_files_are_made_measures_nothing_and_leaves_none() {
    let fake = Fake::start(Fault::None);
    let mut fractions = Fractions { interrupts: true, ..Fractions::default() };
    let listing = Workload::Readdir { names: 100_000, plus: false };
    let error = measure(&fake.server, &listing, &options(1, 1, 1), &mut fractions).unwrap_err();
    assert!(error.to_string().starts_with("nothing was measured"), "{error}");
    assert!(fake.calls(Procedure::Create) < 30_000);
    assert_eq!(fake.objects(), 0);
}
