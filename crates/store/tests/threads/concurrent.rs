//! Many concurrent callers, then an orderly shutdown.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use crate::chaos::{Arena, Chaos};
use crate::random::{Random, duration, seed};
use crate::verifier::{Verifier, verify};
use crate::world::{Caller, Scratch, World, check, watch};

/// Callers of each kind.
const CALLERS: u64 = 4;

/// Runs callers of both kinds while `go_on` returns true; returns the histories of the verifiers.
pub fn run(
    world: &World,
    seed: u64,
    prefix: &str,
    record: &(dyn Fn(u64, String) + Sync),
    go_on: &(dyn Fn() -> bool + Sync),
) -> Vec<crate::history::History> {
    let arena = Arena::new();
    let running = AtomicUsize::new(0);
    let callers: Vec<Caller> = (0..2 * CALLERS).map(|number| world.caller(number)).collect();
    let heartbeats = callers.iter().map(|caller| std::sync::Arc::clone(&caller.heartbeat)).collect();
    let (verifiers, others): (Vec<_>, Vec<_>) = (0..).zip(callers).partition(|(number, _)| *number < CALLERS);
    thread::scope(|scope| {
        for (number, caller) in others {
            let (arena, running) = (&arena, Running::begin(&running));
            scope.spawn(move || {
                let _running = running;
                let mut chaos = Chaos { caller, random: Random::new(seed ^ number << 8), arena };
                while go_on() {
                    chaos.step();
                }
            });
        }
        let mut threads = Vec::new();
        for (number, caller) in verifiers {
            let running = Running::begin(&running);
            let prefix = format!("{prefix}-{number}");
            threads.push(scope.spawn(move || {
                let _running = running;
                let record = |step: &crate::history::Step| record(number, step.to_string());
                let mut verifier = Verifier::new(caller, &prefix, seed ^ number << 8, &record);
                while go_on() {
                    verifier.step();
                }
                verifier.history
            }));
        }
        watch(heartbeats, &world.volume, || running.load(Ordering::Acquire) > 0);
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

/// Counts a thread while it runs, also if it panics.
struct Running<'a>(&'a AtomicUsize);

impl<'a> Running<'a> {
    fn begin(count: &'a AtomicUsize) -> Running<'a> {
        count.fetch_add(1, Ordering::AcqRel);
        Running(count)
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

#[test]
fn concurrent_callers_lose_no_data_and_never_stall() {
    let seed = seed();
    let scratch = Scratch::new("concurrent");
    let end = Instant::now() + duration();
    let mut all: Vec<crate::history::History> = Vec::new();
    for round in 0.. {
        let world = World::open(scratch.path());
        let part = Instant::now() + duration() / 3;
        let history =
            run(&world, seed ^ round, &format!("round-{round}"), &|_, _| {}, &|| Instant::now() < part);
        world.close();
        check(scratch.path());
        all.extend(history);
        let world = World::open(scratch.path());
        for history in &mut all {
            // After an orderly shutdown only the newest state is possible.
            for file in history.files.values_mut() {
                file.sizes = vec![file.size()];
                file.units.values_mut().for_each(|tags| *tags = vec![*tags.last().unwrap()]);
            }
            verify(&world.caller(99), history);
        }
        world.close();
        if Instant::now() >= end {
            break;
        }
    }
}
