//! Kills the server at random moments while two guests and libnfs work, and restarts it at once.

use std::process::Child;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use fastrand::Rng;

use super::lab::{Lab, Peer};
use super::libnfs::Client;
use super::{Options, probe};

pub(super) const GUESTS: [u8; 2] = [1, 2];
/// Time limit from the server's start to its first reply.
const FIRST_REPLY: Duration = Duration::from_secs(20);
/// Time limit for guests to boot.
const BOOT: Duration = Duration::from_secs(60);
/// Length limit of libnfs's files.
const LIBNFS_BYTES_MAX: usize = 300_000;

/// Pause between libnfs's files, so that hundreds of them are compared rather than thousands.
const LIBNFS_PAUSE: Duration = Duration::from_millis(100);

/// Shared between threads.
#[derive(Default)]
pub(super) struct Signals {
    pub(super) is_over: AtomicBool,
    /// Odd from just before a kill until the first reply after it.
    restarts: AtomicUsize,
}

/// Runs the scenario. Returns a note on how long restarts took.
pub(super) fn run(lab: &mut Lab, options: &Options) -> Result<String, String> {
    if lab.peer == Peer::Ganesha {
        return rounds(lab, 0, options.seed);
    }
    rounds(lab, options.rounds, options.seed)
}

fn rounds(lab: &mut Lab, count: usize, seed: u64) -> Result<String, String> {
    lab.start()?;
    let handle = probe::mount(lab.peer.mount_port()).map_err(|error| format!("MNT: {error}"))?;
    let mut client = Client::new(lab, seed)?;
    let program = std::env::current_exe().map_err(|error| format!("cannot find this program: {error}"))?;
    let program = program.to_string_lossy();
    let mut guests = Vec::new();
    for number in GUESTS {
        let seed = (seed ^ u64::from(number)).to_string();
        guests.push((number, lab.start_guest(number, "kill.sh", "512M", &[&program, &seed])?));
    }
    let signals = Signals::default();
    let (times, libnfs) = thread::scope(|scope| {
        let client = scope.spawn(|| work(&mut client, &signals));
        let times = kill_repeatedly(lab, &signals, count, seed, &handle, &mut guests);
        signals.is_over.store(true, Ordering::Relaxed);
        (times, client.join().expect("the client does not panic"))
    });
    lab.create_file("stop")?;
    let times = times?;
    let interrupted = libnfs?;
    for (number, guest) in &mut guests {
        lab.finish_guest(*number, guest)?;
    }
    client.verify()?;
    Ok(format!(
        "{} rounds; restart to first reply {}; libnfs {} files, {interrupted} interrupted",
        times.len(),
        summary(&times),
        client.files()
    ))
}

/// Writes files until the signal. Returns how many attempts a kill interrupted.
pub(super) fn work(client: &mut Client, signals: &Signals) -> Result<usize, String> {
    let mut interrupted = 0;
    while !signals.is_over.load(Ordering::Relaxed) {
        let before = signals.restarts.load(Ordering::SeqCst);
        if !client.put(LIBNFS_BYTES_MAX)? {
            interrupted += 1;
        } else if before % 2 == 1 || signals.restarts.load(Ordering::SeqCst) != before {
            client.distrust_last();
        }
        thread::sleep(LIBNFS_PAUSE);
    }
    Ok(interrupted)
}

/// Kills and restarts the server `count` times. Returns the time each restart took until the old handle was answered.
fn kill_repeatedly(
    lab: &mut Lab,
    signals: &Signals,
    count: usize,
    seed: u64,
    handle: &[u8],
    guests: &mut [(u8, Child)],
) -> Result<Vec<Duration>, String> {
    let mut random = Rng::with_seed(seed);
    let mut times = Vec::new();
    wait_for_work(lab)?;
    for round in 1..=count {
        thread::sleep(Duration::from_millis(500) + Duration::from_millis(random.u64(..3500)));
        let restarted = check_running(lab, guests).and_then(|()| restart(lab, signals, handle));
        times.push(restarted.map_err(|why| format!("round {round}: {why}"))?);
    }
    thread::sleep(Duration::from_secs(2));
    Ok(times)
}

/// Checks that the server and the guests have not exited.
pub(super) fn check_running(lab: &mut Lab, guests: &mut [(u8, Child)]) -> Result<(), String> {
    Lab::check_guests(guests)?;
    match lab.ended()? {
        Some(status) => Err(format!("the server exited: {status}")),
        None => Ok(()),
    }
}

/// Kills the server and starts it again. Returns the time from its start until the old handle was answered.
pub(super) fn restart(lab: &mut Lab, signals: &Signals, handle: &[u8]) -> Result<Duration, String> {
    signals.restarts.fetch_add(1, Ordering::SeqCst);
    lab.kill();
    let start = Instant::now();
    lab.spawn()?;
    let took = first_reply(lab, start, handle)?;
    signals.restarts.fetch_add(1, Ordering::SeqCst);
    Ok(took)
}

/// Waits until guests have mounted: mount(8), unlike a mounted file system, does not retry for ever.
pub(super) fn wait_for_work(lab: &Lab) -> Result<(), String> {
    let end = Instant::now() + BOOT;
    let working = |number: &u8| lab.out().join(format!("outcomes-guest{number}-0")).exists();
    while !GUESTS.iter().all(working) {
        if Instant::now() > end {
            return Err(format!("the guests do not work after {} s", BOOT.as_secs()));
        }
        thread::sleep(Duration::from_millis(100));
    }
    Ok(())
}

fn first_reply(lab: &mut Lab, start: Instant, handle: &[u8]) -> Result<Duration, String> {
    while start.elapsed() < FIRST_REPLY {
        match probe::getattr(handle) {
            Ok(0) => return Ok(start.elapsed()),
            Ok(status) => return Err(format!("GETATTR of the root fails with status {status}")),
            Err(_) => thread::sleep(Duration::from_millis(2)),
        }
        if let Some(status) = lab.ended()? {
            return Err(format!("the server does not restart: {status}"));
        }
    }
    Err(format!("no reply within {} s of the start", FIRST_REPLY.as_secs()))
}

/// Describes the median and the maximum.
pub(super) fn summary(times: &[Duration]) -> String {
    let mut sorted = times.to_vec();
    sorted.sort();
    let (Some(median), Some(longest)) = (sorted.get(sorted.len() / 2), sorted.last()) else {
        return "none".to_owned();
    };
    format!("median {} ms, max {} ms", median.as_millis(), longest.as_millis())
}
