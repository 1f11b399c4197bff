use super::*;
use crate::published::ROWS;
use crate::report::subject::corresponds;
use crate::run::tests::fake::{Fake, Fault};

const MACHINES: [Machine; 4] = [
    Machine { cores: 1, memory_bytes: 1 << 30, free_bytes: 64 << 20 },
    Machine { cores: 2, memory_bytes: 24 << 30, free_bytes: 20 << 30 },
    Machine { cores: 64, memory_bytes: 512 << 30, free_bytes: 1 << 50 },
    Machine { cores: 4, memory_bytes: 8 << 30, free_bytes: 0 },
];

const SCALES: [Scale; 3] = [Scale::Quick, Scale::Standard, Scale::Long];

#[test]
fn every_published_figure_has_a_test_once() {
    let mut ids = recipes::ids();
    ids.sort_unstable();
    let mut wanted: Vec<&str> = ROWS.iter().map(|row| row.id).collect();
    wanted.sort_unstable();
    assert_eq!(ids, wanted);
    for (machine, scale) in MACHINES.iter().flat_map(|machine| SCALES.map(|scale| (machine, scale))) {
        let steps = plan(scale, machine);
        let mut ids: Vec<&str> = steps.iter().flat_map(|step| step.published.clone()).collect();
        ids.sort_unstable();
        assert_eq!(ids, wanted, "{machine:?} {scale:?}");
    }
}

#[test]
fn a_test_corresponds_to_its_figures() {
    for step in plan(Scale::Standard, &MACHINES[1]) {
        step.workload.check(false).unwrap();
        for row in step.published.iter().filter_map(|id| published::find(id)) {
            assert!(corresponds(&step.workload, row.shape), "{}", row.id);
        }
    }
}

#[test]
fn the_scale_fits_space_and_memory() {
    for (machine, scale) in MACHINES.iter().flat_map(|machine| SCALES.map(|scale| (machine, scale))) {
        for step in plan(scale, machine) {
            let least = 16 << 20;
            assert!(step.working_set_bytes <= (machine.free_bytes / 4).max(least), "{machine:?} {step:?}");
            if let Workload::SequentialRead { block_bytes, .. } | Workload::Random { block_bytes, .. } =
                step.workload
            {
                let (threads, depth) = (u64::from(step.threads), u64::from(step.depth));
                assert!(threads * block_bytes <= step.working_set_bytes, "{step:?}");
                assert!(step.depth == 1 || threads * depth * block_bytes <= 128 << 20, "{step:?}");
            }
        }
    }
}

#[test]
fn a_quick_run_is_short() {
    let steps = plan(Scale::Quick, &MACHINES[1]);
    let seconds = steps.len() as f64 * Scale::Quick.length().as_secs_f64() * 1.2;
    assert!(seconds < 60.0, "{seconds}");
    let seconds = plan(Scale::Standard, &MACHINES[1]).len() as f64 * 6.0;
    assert!(seconds < 500.0, "{seconds}");
}

#[test]
fn caches_name_what_is_known() {
    let text = caches("dropped before the run", &plan(Scale::Quick, &MACHINES[1]));
    for words in ["server: dropped before the run", "client: none", "32 MiB", "128 MiB"] {
        assert!(text.contains(words), "{text}");
    }
}

#[test]
fn long_tests_exceed_the_memory_of_the_server_that_the_user_gave() {
    let fake = Fake::start(Fault::None);
    let machine = Machine::of(&fake.server, Some(3 << 40)).unwrap();
    assert_eq!(machine.memory_bytes, 3 << 40);
    let roomy = Machine { free_bytes: 1 << 50, ..machine };
    let largest = plan(Scale::Long, &roomy).iter().map(|step| step.working_set_bytes).max();
    assert_eq!(largest, Some(6 << 40));
}
