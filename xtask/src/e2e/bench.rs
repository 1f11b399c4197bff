//! The load generator against a foreign server, and comparing Holdfast with it. No operation may fail. Rates are printed
//! but not judged, since the machine may be busy.

use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};

use super::Options;
use super::lab::{ADDRESS, Lab, PORT};
use super::probe;
use crate::process::{self, root};

/// The foreign server's NFS port.
const PEER_PORT: u16 = 3049;
const PEER_MOUNT_PORT: u16 = 20048;
const START: Duration = Duration::from_secs(30);

/// The versions of NFS that are spoken.
const PROTOCOLS: [&str; 2] = ["3", "4.2"];

/// Workloads of a few hundred operations each.
const WORKLOADS: &[&[&str]] = &[
    &["getattr"],
    &["lookup"],
    &["open-close"],
    &["create-remove"],
    &["write-commit"],
    &["random", "--mix", "70", "--verify", "--stability", "file-sync"],
    &["sequential-read", "--block", "1MiB", "--verify"],
    &["metadata", "--files", "50", "--file-size", "4KiB"],
    &["small-files", "--files", "30", "--directories", "2", "--verify"],
];

pub(super) fn run(lab: &mut Lab, _: &Options) -> Result<String, String> {
    lab.start()?;
    let mut peer = process::start(
        Command::new(root().join("e2e/peer/ganesha"))
            .arg(lab.namespace())
            .arg(lab.folder.join("ganesha"))
            .arg(PEER_PORT.to_string()),
    )?;
    let outcome = wait(&mut peer).and_then(|()| measure(lab));
    process::stop(&mut peer);
    outcome
}

/// Waits until the foreign server answers.
fn wait(peer: &mut Child) -> Result<(), String> {
    let end = Instant::now() + START;
    while Instant::now() < end {
        if probe::null(PEER_PORT).is_ok() && probe::null_mount(PEER_MOUNT_PORT).is_ok() {
            return Ok(());
        }
        if let Ok(Some(status)) = peer.try_wait() {
            return Err(format!("nfs-ganesha exited at once: {status}"));
        }
        thread::sleep(Duration::from_millis(50));
    }
    Err(format!("nfs-ganesha does not answer after {} s", START.as_secs()))
}

fn measure(lab: &Lab) -> Result<String, String> {
    let small = ["--threads", "4", "--depth", "2", "--operations", "400", "--working-set", "8MiB"];
    let (ours, theirs) = (format!("{ADDRESS}:{PORT}:/main"), format!("{ADDRESS}:{PEER_PORT}:/main"));
    let port = PEER_MOUNT_PORT.to_string();
    let both = WORKLOADS.iter().flat_map(|workload| PROTOCOLS.map(|protocol| (workload, protocol)));
    for (workload, protocol) in both {
        let mut run = Command::new(lab.binary());
        run.args(["bench", "run", &theirs, "--mount-port", &port, "--protocol", protocol]);
        run.args(*workload).args(small);
        process::run(run, lab.left())?;
        let mut compare = Command::new(lab.binary());
        compare.args(["bench", "compare", &ours, &theirs, "--mount-port-b", &port, "--rounds", "2"]);
        compare.args(["--label-a", "holdfast", "--label-b", "nfs-ganesha", "--protocol", protocol]);
        compare.args(*workload).args(small);
        process::run(compare, lab.left())?;
    }
    let (workloads, protocols) = (WORKLOADS.len(), PROTOCOLS.len());
    Ok(format!("{workloads} workloads over {protocols} protocols without a failed operation"))
}
