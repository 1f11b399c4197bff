//! Many callers at once, then an orderly end.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use crate::chaos::{Arena, Chaos};
use crate::keeper::{Keeper, verify};
use crate::random::{Random, duration, seed};
use crate::world::{Caller, Scratch, World, check, watch};

/// Callers of each kind.
const CALLERS: u64 = 4;

/// Runs callers of both kinds until `go_on` says no; returns the keepers' facts.
pub fn run(
    world: &World,
    seed: u64,
    prefix: &str,
    tell: &(dyn Fn(u64, String) + Sync),
    go_on: &(dyn Fn() -> bool + Sync),
) -> Vec<crate::facts::Facts> {
    let arena = Arena::new();
    let running = AtomicUsize::new(0);
    let callers: Vec<Caller> = (0..2 * CALLERS).map(|number| world.caller(number)).collect();
    let pulses = callers.iter().map(|caller| std::sync::Arc::clone(&caller.pulse)).collect();
    let (keepers, others): (Vec<_>, Vec<_>) = (0..).zip(callers).partition(|(number, _)| *number < CALLERS);
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
        for (number, caller) in keepers {
            let running = Running::begin(&running);
            let prefix = format!("{prefix}-{number}");
            threads.push(scope.spawn(move || {
                let _running = running;
                let tell = |step: &crate::facts::Step| tell(number, step.to_string());
                let mut keeper = Keeper::new(caller, &prefix, seed ^ number << 8, &tell);
                while go_on() {
                    keeper.step();
                }
                keeper.facts
            }));
        }
        watch(pulses, &world.volume, || running.load(Ordering::Acquire) > 0);
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

/// Counts a thread for as long as it runs, panics included.
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
fn callers_at_once_lose_nothing_and_never_stand_still() {
    let seed = seed();
    let scratch = Scratch::new("together");
    let end = Instant::now() + duration();
    let mut all: Vec<crate::facts::Facts> = Vec::new();
    for round in 0.. {
        let world = World::open(scratch.path());
        let part = Instant::now() + duration() / 3;
        let facts =
            run(&world, seed ^ round, &format!("round-{round}"), &|_, _| {}, &|| Instant::now() < part);
        world.close();
        check(scratch.path());
        all.extend(facts);
        let world = World::open(scratch.path());
        for facts in &mut all {
            // After an orderly end the newest is what is there.
            for file in facts.files.values_mut() {
                file.sizes = vec![file.size()];
                file.units.values_mut().for_each(|tags| *tags = vec![*tags.last().unwrap()]);
            }
            verify(&world.caller(99), facts);
        }
        world.close();
        if Instant::now() >= end {
            break;
        }
    }
}
