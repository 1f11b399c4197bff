//! Random hosts make calls that wait for a disk: those of honest ones begin in bounded time, however many others make.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::*;

const STEP: Duration = Duration::from_millis(5);

const RUN: Duration = Duration::from_secs(20);

/// The longest that the disk takes.
const DISK_MAX: Duration = Duration::from_millis(50);

/// A connection that makes calls all the time.
struct Caller {
    key: ConnectionKey,
    is_honest: bool,
    /// The room for each reply.
    bytes: usize,
    /// How many calls it makes at once, and how many of them wait for the disk.
    depth: usize,
    begun: usize,
    /// Since when it has tried to begin the next one, and whether that waits in line.
    tried: Option<Instant>,
    is_blocked: bool,
    slowest: Duration,
}

struct World {
    admission: Admission,
    callers: Vec<Caller>,
    /// A host that asks for nothing but what is answered at once.
    modest: ConnectionKey,
    /// The calls that wait for the disk: when it is done, and whose they are.
    at_disk: BinaryHeap<Reverse<(Instant, usize)>>,
    origins: u8,
    now: Instant,
    random: Rng,
}

impl World {
    fn new(seed: u64) -> World {
        let mut random = Rng::with_seed(seed);
        let mut admission = Admission::new(LOOP_BYTES_MIN * random.usize(1..3));
        let join = |admission: &mut Admission, number| {
            let origin = admission.budget.origins.join(std::net::IpAddr::from([192, 0, 2, number]).into());
            ConnectionKey { index: 0, generation: 0, origin }
        };
        let modest = join(&mut admission, 0);
        let origins = random.u8(3..20);
        let now = Instant::now();
        let mut callers = Vec::new();
        for number in 1..=origins {
            let key = join(&mut admission, number);
            let is_honest = number <= 2;
            let bytes = match number {
                1 => 2 * RECORD_BYTES_MAX,
                2 => SHORT_REPLY_ROOM_MAX,
                _ => *random
                    .choice(&[1000, SHORT_REPLY_ROOM_MAX, SMALL_REPLY_ROOM_MAX, 2 * RECORD_BYTES_MAX])
                    .unwrap(),
            };
            for _ in 0..if is_honest { 1 } else { random.usize(1..5) } {
                let key = ConnectionKey { index: callers.len(), ..key };
                let depth = if is_honest { 4 } else { 1000 };
                let (begun, tried, is_blocked, slowest) = (0, None, false, Duration::ZERO);
                callers.push(Caller { key, is_honest, bytes, depth, begun, tried, is_blocked, slowest });
            }
        }
        World { admission, callers, modest, at_disk: BinaryHeap::new(), origins, now, random }
    }

    fn run(&mut self) {
        let end = self.now + RUN;
        while self.now < end {
            self.complete();
            self.go_on();
            let mut order: Vec<usize> = (0..self.callers.len()).collect();
            self.random.shuffle(&mut order);
            order.into_iter().for_each(|number| self.call(number));
            assert!(self.admission.may_begin_short(self.modest, SHORT_REPLY_ROOM_MAX));
            self.now += STEP;
        }
    }

    /// Ends the calls for which the disk is done.
    fn complete(&mut self) {
        while let Some(Reverse((done, number))) = self.at_disk.peek().copied()
            && done <= self.now
        {
            self.at_disk.pop();
            let caller = &mut self.callers[number];
            caller.begun -= 1;
            self.admission.budget.count_kept_reply(caller.key.origin, caller.bytes, 0);
        }
    }

    fn go_on(&mut self) {
        let mut goes_on = true;
        while std::mem::take(&mut goes_on) {
            let mut pass = self.admission.pass(Blocked::Reply);
            while let Some(waiter) = self.admission.next_of(&mut pass, self.now) {
                self.callers[waiter.key.index].is_blocked = false;
                self.begin(waiter.key.index);
                goes_on = true;
            }
        }
    }

    /// Makes calls until one has to wait, or there are enough.
    fn call(&mut self, number: usize) {
        loop {
            let caller = &mut self.callers[number];
            if caller.is_blocked || caller.begun == caller.depth {
                return;
            }
            caller.tried.get_or_insert(self.now);
            let (key, want) = (caller.key, Want::Reply(caller.bytes));
            // Its connection is not read.
            if !self.admission.has_room(key, Want::Answer) {
                return;
            }
            let may_begin = match caller.bytes <= SHORT_REPLY_ROOM_MAX {
                true => self.admission.may_begin_short(key, caller.bytes),
                false => self.admission.may_go_on(key, want),
            };
            if may_begin {
                self.begin(number);
            } else {
                self.callers[number].is_blocked = true;
                self.admission.block(key, want, self.now);
            }
        }
    }

    fn begin(&mut self, number: usize) {
        let caller = &mut self.callers[number];
        caller.slowest = caller.slowest.max(self.now - caller.tried.take().unwrap());
        caller.begun += 1;
        if caller.bytes <= SMALL_REPLY_ROOM_MAX {
            self.admission.note_kept(caller.key, Blocked::Reply, caller.bytes);
        }
        self.admission.budget.count_kept_reply(caller.key.origin, 0, caller.bytes);
        let time = self.random.u128(1..DISK_MAX.as_micros());
        let done = self.now + Duration::from_micros(u64::try_from(time).unwrap());
        self.at_disk.push(Reverse((done, number)));
    }
}

#[test]
fn calls_that_wait_for_a_disk_begin_in_bounded_time_whatever_others_do() {
    let first = u64::from(std::process::id());
    for seed in first..first + 20 {
        let mut world = World::new(seed);
        world.run();
        // Each other host goes before it once.
        let bound = (DISK_MAX + 2 * STEP) * (u32::from(world.origins) + 1);
        for caller in world.callers.iter().filter(|caller| caller.is_honest) {
            let trying = caller.tried.map_or(Duration::ZERO, |tried| world.now - tried);
            let slowest = caller.slowest.max(trying);
            assert!(
                slowest <= bound,
                "seed {seed}: {} bytes waited {slowest:?}, not {bound:?}",
                caller.bytes
            );
        }
    }
}
