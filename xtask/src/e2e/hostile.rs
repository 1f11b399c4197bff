//! Attacks on a server beside two well-behaved clients. They come from hosts that no export admits (strangers), from hosts
//! that the export admits (neighbours), and from users of the server's machine.
//!
//! An attack is withstood if it does not achieve what its file says; if no call of the well-behaved clients fails, and 99
//! of 100 are fast; if newcomers are served meanwhile and just afterwards; and if neither memory nor the log grows beyond
//! its bound. One server suffers all attacks, one after another; after one that it did not withstand, the next begins with
//! a new server.

use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit};

use super::Options;
use super::client::{compound, cursor, nfs3, nfs4, places, rpc};
use super::lab::Lab;
use trial::Bed;

mod attacks;
mod newcomers;
mod trial;
mod watch;
mod witnesses;

pub(super) use attacks::{Attack, find};

/// The server's `memory` setting.
const MEMORY_BYTES: u64 = 256 << 20;
/// How long an attack goes on.
const ATTACK: Duration = Duration::from_secs(8);
/// File descriptors for the attackers' connections.
const DESCRIPTORS: u64 = 16_384;
/// Time limit for an attack with all that surrounds it.
const SECONDS_PER_ATTACK: u64 = 25;

/// The time limit of the attacks that are chosen.
pub(super) fn seconds(options: &Options) -> u64 {
    SECONDS_PER_ATTACK * u64::try_from(attacks::chosen(options).len()).unwrap_or(u64::MAX)
}

/// What an attack may know and use.
pub(super) struct Scene {
    /// The handle of the exported directory.
    folder: Vec<u8>,
    /// When the attack ends.
    end: Instant,
    /// The server's data directory.
    data: PathBuf,
    /// The program under test.
    binary: PathBuf,
    log: PathBuf,
}

impl Scene {
    /// Whether the attack has time left.
    fn goes_on(&self) -> bool {
        Instant::now() < self.end
    }

    /// Waits for the end of the attack.
    fn rest(&self) {
        thread::sleep(self.end.saturating_duration_since(Instant::now()));
    }
}

/// Runs the scenario.
pub(super) fn run(lab: &mut Lab, options: &Options) -> Result<String, String> {
    prepare(lab)?;
    let attacks = attacks::chosen(options);
    let mut bed = None;
    let mut failures = Vec::new();
    for attack in &attacks {
        println!("---- {}, by {}: {}", attack.name, attack.by, attack.what);
        let mut current = match bed.take() {
            Some(bed) => bed,
            None => Bed::new(lab, options.seed)?,
        };
        match current.suffer(lab, attack, options.seed) {
            Ok(note) => {
                println!("     withstood: {note}");
                bed = Some(current);
            }
            Err(why) => {
                println!("     NOT WITHSTOOD: {why}");
                failures.push(attack.name);
                lab.start_over()?;
            }
        }
    }
    if let Some(mut bed) = bed {
        bed.stop()?;
    }
    let (all, failed) = (attacks.len(), failures.len());
    if failed > 0 {
        return Err(format!("{failed} of {all} attacks succeed: {}", failures.join(", ")));
    }
    Ok(format!("{all} attacks withstood"))
}

/// Prepares this process, the namespace and the server's configuration.
fn prepare(lab: &mut Lab) -> Result<(), String> {
    let limit = rustix::process::getrlimit(Resource::Nofile);
    if limit.current.is_some_and(|current| current < DESCRIPTORS) {
        let raised =
            Rlimit { current: Some(DESCRIPTORS), maximum: limit.maximum.map(|most| most.max(DESCRIPTORS)) };
        rustix::process::setrlimit(Resource::Nofile, raised)
            .map_err(|error| format!("cannot have {DESCRIPTORS} open files: {error}"))?;
    }
    places::make(lab)?;
    let administration = attacks::configuration(lab)?;
    lab.configure(&format!("memory = \"{} MiB\"\n{administration}", MEMORY_BYTES >> 20));
    lab.admit(places::ADMITTED);
    lab.also_listen(&places::also_listened());
    Ok(())
}
