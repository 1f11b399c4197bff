//! Loops on threads of their own share limiters: no call is lost or released twice, and no limit is exceeded.

use std::collections::BTreeSet;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;

use qos::{Call, ClientId, Cost, Dimension, Limits, LoopId, Released, Scheduler, Time, Token, Verdict};

const LOOPS: u16 = 4;
const CALLS: u64 = 20_000;
const OPS_PER_S: u64 = 100_000;
const BYTES: u32 = 4096;

/// Nanoseconds between calls: five times as many as the limit allows.
const STEP: u64 = 2_000;

/// What one loop saw.
#[derive(Default)]
struct Seen {
    admitted: u64,
    full: u64,
    held: BTreeSet<Token>,
    forgotten: BTreeSet<Token>,
    released: Vec<Token>,
}

impl Seen {
    fn take(&mut self, released: &mut Vec<Released>) {
        for released in released.drain(..) {
            if let Released::Call { token, .. } = released {
                self.released.push(token);
            }
        }
    }
}

/// Sends calls of one loop, by a clock that all loops advance.
fn run(
    event_loop: u16,
    scheduler: &Scheduler,
    limiters: &[std::sync::Arc<qos::Limiter>],
    clock: &AtomicU64,
) -> Seen {
    let (mut seen, mut released) = (Seen::default(), Vec::new());
    for number in 0..CALLS {
        let now = Time::from_nanos(clock.fetch_add(STEP, Relaxed));
        let token = Token { event_loop: LoopId(event_loop), call: number };
        let cost = if number % 3 == 0 { Cost::read(BYTES) } else { Cost::write(BYTES) };
        match scheduler.admit(now, &Call { limiters, client: ClientId((number % 5).into()), cost, token }) {
            Verdict::Admitted => seen.admitted += 1,
            Verdict::Full => seen.full += 1,
            Verdict::Held => {
                seen.held.insert(token);
                if number % 7 == 0 && scheduler.forget(now, token) {
                    seen.forgotten.insert(token);
                }
            }
        }
        scheduler.release(now, &mut released);
        seen.take(&mut released);
    }
    seen
}

#[test]
fn threads_share_limits() {
    let scheduler = Scheduler::default();
    let ops = Limits::NONE.with(Dimension::TotalOps, OPS_PER_S).unwrap();
    let bytes = Limits::NONE.with(Dimension::WriteBytes, OPS_PER_S * u64::from(BYTES)).unwrap();
    let limiters = [scheduler.limiter(Time::ORIGIN, &ops), scheduler.limiter(Time::ORIGIN, &bytes)];
    let clock = AtomicU64::new(0);
    let seen: Vec<Seen> = thread::scope(|scope| {
        let loops = (0..LOOPS).map(|index| {
            let (scheduler, limiters, clock) = (&scheduler, &limiters, &clock);
            scope.spawn(move || run(index, scheduler, limiters, clock))
        });
        let loops: Vec<_> = loops.collect();
        loops.into_iter().map(|running| running.join().expect("no loop panics")).collect()
    });

    let time = clock.load(Relaxed);
    let passed: u64 = seen.iter().map(|seen| seen.admitted + seen.released.len() as u64).sum();
    let most = OPS_PER_S * time / 1_000_000_000 + OPS_PER_S / 10 + 1;
    assert!((most * 99 / 100..=most).contains(&passed), "{passed} calls passed, {most} may");

    let mut drained = Seen::default();
    let mut released = Vec::new();
    while let Some(deadline) = scheduler.next_deadline() {
        scheduler.release(deadline, &mut released);
        drained.take(&mut released);
    }
    let all = seen.iter().flat_map(|seen| &seen.released).chain(&drained.released);
    let went_on: Vec<Token> = all.chain(seen.iter().flat_map(|seen| &seen.forgotten)).copied().collect();
    let held: BTreeSet<Token> = seen.iter().flat_map(|seen| &seen.held).copied().collect();
    assert_eq!(went_on.len(), held.len(), "each call that was held went on or was forgotten, once");
    assert_eq!(went_on.into_iter().collect::<BTreeSet<Token>>(), held);
}
