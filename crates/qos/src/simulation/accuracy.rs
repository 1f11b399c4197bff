//! How exactly a limit is reached, and how evenly clients share it, in ten seconds of load after the burst is used up.

use std::time::Duration;

use fastrand::Rng;

use super::plan::{Client, MIB, Mix, Plan, Size};
use super::world::World;
use crate::limits::{Dimension, Limits};

const KIB: u32 = 1 << 10;

/// For how long the load runs before it is measured.
const WARM_UP: Duration = Duration::from_secs(1);

/// For how long it is measured.
const MEASURED: Duration = Duration::from_secs(10);

/// A client that always has as many calls outstanding as it can.
fn client(connections: usize, depth: usize, size: u32, writes: u8) -> Client {
    Client {
        comes: Duration::ZERO,
        goes: Duration::MAX,
        limiters: vec![vec![0]],
        later: Vec::new(),
        connections,
        depth,
        mix: Mix { writes, ..Mix::READS },
        size: Size::Fixed(size),
        latency: Duration::from_micros(500),
        pause: Duration::ZERO,
    }
}

fn plan(limits: &[Limits], clients: Vec<Client>) -> Plan {
    Plan {
        loops: 2,
        lateness: Duration::from_millis(4),
        duration: WARM_UP + MEASURED,
        events_max: usize::MAX,
        limiters: limits.to_vec(),
        clients,
        changes: Vec::new(),
    }
}

/// Runs a plan, and returns what each client got a second, bytes.
fn rates(plan: &Plan) -> Vec<f64> {
    let mut world = World::new(plan, Rng::with_seed(1));
    let measured = world.run_until(WARM_UP).and_then(|()| {
        let before = world.got.clone();
        world.run_until(WARM_UP + MEASURED)?;
        let got = world.got.iter().zip(&before).map(|(after, before)| after - before);
        Ok(got.map(|bytes| f64::from(u32::try_from(bytes).expect("few")) / MEASURED.as_secs_f64()).collect())
    });
    measured.unwrap_or_else(|wrong| panic!("{wrong}"))
}

/// Jain's index: 1 if all have the same.
fn jain(shares: &[f64]) -> f64 {
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|share| share * share).sum();
    sum * sum / (squares * f64::from(u32::try_from(shares.len()).expect("few")))
}

fn total_bytes(rate: u64) -> Limits {
    Limits::NONE.with(Dimension::TotalBytes, rate).expect("within bounds")
}

/// The rate of a limit that takes this many calls a second.
fn rate(size: u32, calls: u64) -> u64 {
    (u64::from(size) * calls).max(MIB)
}

#[test]
fn a_backlogged_load_gets_its_cap() {
    for size in [4 * KIB, 64 * KIB, 1024 * KIB] {
        for (connections, clients) in [(1, 1), (4, 1), (16, 1), (1, 4), (16, 4)] {
            for writes in [0, 50, 100] {
                let rate = rate(size, 300);
                let load = vec![client(connections, 4, size, writes); clients];
                let shares = rates(&plan(&[total_bytes(rate)], load));
                let part = shares.iter().sum::<f64>() / rate as f64;
                let case =
                    format!("{clients} clients, {connections} connections, {size} bytes, {writes} % writes");
                assert!((0.99..=1.005).contains(&part), "{case}: {part}");
                assert!(jain(&shares) >= 0.99, "{case}: {shares:?}");
            }
        }
    }
}

#[test]
fn clients_share_a_cap_whatever_their_connections_and_sizes() {
    for (connections, size) in [(1, 64 * KIB), (16, 4 * KIB), (16, 64 * KIB), (4, 1024 * KIB)] {
        for (others, other_size) in [(1, 1024 * KIB), (16, 1024 * KIB), (16, 4 * KIB)] {
            let load = vec![client(connections, 4, size, 0), client(others, 4, other_size, 100)];
            let shares = rates(&plan(&[total_bytes(24 * MIB)], load));
            let case = format!("{connections} x {size} and {others} x {other_size}");
            assert!(jain(&shares) >= 0.99, "{case}: {shares:?}");
        }
    }
}

#[test]
fn a_client_with_one_small_call_at_a_time_gets_its_share_beside_large_ones() {
    let load = vec![client(1, 1, 4 * KIB, 0), client(16, 4, 1024 * KIB, 100)];
    let shares = rates(&plan(&[total_bytes(8 * MIB)], load));
    assert!(jain(&shares) >= 0.99, "{shares:?}");
}

/// A round of the others' calls takes 0.8 seconds.
#[test]
fn a_small_call_now_and_then_waits_for_no_round_of_large_ones() {
    let light = Client { pause: Duration::from_secs(2), ..client(1, 1, 4 * KIB, 50) };
    let alone = rates(&plan(&[total_bytes(48 * MIB)], vec![light.clone()]))[0];
    let large = std::iter::repeat_n(client(4, 2, 1024 * KIB, 50), 40);
    let beside = rates(&plan(&[total_bytes(48 * MIB)], std::iter::once(light).chain(large).collect()))[0];
    assert!(beside > alone * 0.8, "{beside} bytes a second, {alone} alone");
}

#[test]
fn several_limits_are_each_reached() {
    // Both clients share a target; the second has a volume of its own with a lower limit.
    let small = Client { limiters: vec![vec![0, 1]], ..client(4, 4, 64 * KIB, 50) };
    let load = vec![client(4, 4, 64 * KIB, 50), small];
    for part in [2, 8] {
        let shares = rates(&plan(&[total_bytes(32 * MIB), total_bytes(32 * MIB / part)], load.clone()));
        let (cap, second) = ((32 * MIB) as f64, shares[1] * part as f64);
        assert!((0.99..=1.005).contains(&(shares.iter().sum::<f64>() / cap)), "{shares:?}");
        assert!((0.985..=1.005).contains(&(second / cap)), "{shares:?}");
    }
}

#[test]
fn a_burst_comes_on_top_of_the_first_seconds_once() {
    let rate = 32 * MIB;
    let plan = plan(&[total_bytes(rate)], vec![client(4, 4, 64 * KIB, 100)]);
    let mut world = World::new(&plan, Rng::with_seed(2));
    world.run_until(MEASURED).expect("all bounds hold");
    let part = world.got[0] as f64 / (rate as f64 * MEASURED.as_secs_f64());
    assert!((1.009..=1.011).contains(&part), "{part}");
}

#[test]
fn calls_that_need_two_saturated_limits_get_their_share() {
    for (second, size) in
        [(MIB, 1024 * KIB), (MIB * 13 / 10, 1024 * KIB), (3 * MIB, 1024 * KIB), (MIB, 16 * KIB)]
    {
        let only = |limiter| Client { limiters: vec![vec![limiter]], ..client(2, 4, size, 100) };
        let both = Client { limiters: vec![vec![0, 1]], ..client(2, 4, size, 100) };
        let load = vec![only(0), only(1), both];
        let shares = rates(&plan(&[total_bytes(MIB), total_bytes(second)], load));
        let half = MIB as f64 / 2.0;
        let due = [half, second as f64 - half, half];
        for (share, due) in shares.iter().zip(due) {
            assert!((0.98..=1.02).contains(&(share / due)), "{second}, {size} bytes: {shares:?}");
        }
    }
}

#[test]
fn many_clients_share_a_cap() {
    let load = (0..24).map(|index| client(1 + index % 4, 2, 4096 << (index % 5), 50)).collect();
    let shares = rates(&plan(&[total_bytes(16 * MIB)], load));
    assert!(jain(&shares) >= 0.99, "{shares:?}");
}

#[test]
fn changed_limits_act_within_100_ms() {
    let (act, change) = (Duration::from_millis(100), Duration::from_secs(5));
    for (before, after) in [(16, 64), (64, 16), (2, 256), (256, 2)] {
        let load = vec![client(4, 4, 64 * KIB, 100), client(16, 4, 16 * KIB, 0)];
        let changes = vec![(change, 0, total_bytes(after * MIB))];
        let plan = Plan { changes, ..plan(&[total_bytes(before * MIB)], load) };
        let mut world = World::new(&plan, Rng::with_seed(3));
        let mut moved = |until: Duration| {
            world.run_until(until).expect("all bounds hold");
            world.got.iter().sum::<u64>() as f64
        };
        let (begin, end) = (moved(change + act), moved(change + act + MEASURED));
        let part = (end - begin) / ((after * MIB) as f64 * MEASURED.as_secs_f64());
        assert!((0.99..=1.005).contains(&part), "{before} to {after} MiB/s: {part}");
    }
}
