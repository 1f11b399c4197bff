//! Serving a group for the agent of the machine (`holdfast node`), which is at the other end of the standard input.

use std::io;
use std::os::fd::AsFd as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use cluster::{Name, Time, Version, Watched};
use node::handover::{self, Candidate, Handover, Loss, Report, SILENCE_MAX};
use rados::{Candidacy, Location, Progress, Told};
use rustix::process::{Signal, getpid, kill_process};
use server::config::memory::{CEPH_MEMORY_BYTES_MIN, MEMORY_BYTES_MIN, default_memory_bytes};
use server::error::Error;
use server::group::{Group, Right};
use store::Claim;

/// How long a server may take to finish the calls in flight whose agent is silent. Its lease runs out after that.
const STOP_MAX: Duration = Duration::from_secs(1);

/// Takes what the agent hands over, claims the data directory, and says so; if there is a lease instead, the server takes it. The server
/// ends with the agent, which has the addresses. Returns the default of its memory too.
pub(super) fn take(data: &Path) -> Result<(Group, u64, Agent), Error> {
    let (handover, sockets) = handover::take(io::stdin().as_fd()).map_err(|error| {
        Error::usage(format!("--group is for servers that an agent starts: run `holdfast node` ({error})"))
    })?;
    tracing::info!(group = handover.group, node = handover.node, "serving a group");
    let agent = Agent::new(&handover);
    let watched = agent.clone();
    let watch = move || watched.end_with_it();
    let watch = thread::Builder::new().name("agent".to_owned()).spawn(watch);
    watch.map_err(|error| Error::failed(format!("cannot start a thread: {error}")))?;
    let right = match handover.candidate {
        Some(candidate) => Right::Lease(candidacy(&handover.node, candidate, &agent)?),
        None => {
            let claim = claim(data, &handover.node)?;
            report(&Report::Claimed);
            Right::Claim(claim)
        }
    };
    let least = if handover.candidate.is_some() { CEPH_MEMORY_BYTES_MIN } else { MEMORY_BYTES_MIN };
    let memory = memory_of(default_memory_bytes(), handover.groups).max(least);
    let (listeners, datagrams) = (sockets.listeners.into(), sockets.datagrams.into());
    Ok((Group { right, listeners, datagrams }, memory, agent))
}

/// Returns how the server stands for the lease. It waits for as long as the agent lets it run.
fn candidacy(node: &str, candidate: Candidate, agent: &Agent) -> Result<Candidacy, Error> {
    let node = Name::new(node).map_err(|error| Error::usage(error.to_string()))?;
    let watched = candidate.watched.map(|seen| Watched {
        version: Version(seen.version),
        since: Time::from_nanos(seen.since),
        confirmed: Time::from_nanos(seen.confirmed),
    });
    let is_claimed = AtomicBool::new(false);
    let agent = agent.clone();
    let told = move |progress| match progress {
        Progress::Standing { instance } => {
            report(&Report::Standing { instance });
            agent.expect(Need::ToStand);
        }
        Progress::Renewed { at } => {
            if !is_claimed.swap(true, Ordering::Relaxed) {
                agent.expect(Need::None);
                report(&Report::Claimed);
            }
            report_renewal(at);
        }
    };
    Ok(Candidacy {
        node: Some(node),
        watched,
        delay: Duration::from_millis(candidate.delay_ms),
        is_patient: true,
        told: Some(Told(Arc::new(told))),
    })
}

/// Tells the agent without waiting: a stopped agent must not stop renewals. The next one tells it as well.
fn report_renewal(at: u64) {
    let _ = handover::report_at_once(io::stdin().as_fd(), &Report::Renewed { at });
}

/// Returns the default of a group's memory. All groups of a pair of machines may have to be served by one of them, and a group must
/// not need more after a takeover than before: so each has an equal part of what one server would have, wherever it is served.
fn memory_of(server: u64, groups: usize) -> u64 {
    let groups = u64::try_from(groups.max(1)).unwrap_or(u64::MAX);
    (server / groups).max(MEMORY_BYTES_MIN)
}

fn report(report: &Report) {
    if let Err(error) = handover::report(io::stdin().as_fd(), report) {
        tracing::warn!(%error, ?report, "cannot tell the agent");
    }
}

/// Claims the data directory. It is not created: without its file system there would be an empty one.
fn claim(data: &Path, node: &str) -> Result<Arc<Claim>, Error> {
    if Location::is_one(data) {
        return Err(Error::usage(
            "groups in a Ceph cluster are not in the agent's configuration: write `store = \"rados:POOL\"` there, and see `holdfast \
             cluster apply`",
        ));
    }
    if store::list_or_none(data)?.is_empty() {
        let data = data.display();
        return Err(Error::failed(format!(
            "{data} has no pools: mount the device of the group there, and if it is new, make a pool with `holdfast pool \
             create {data} default`"
        )));
    }
    Ok(Claim::take(data, node, report_renewal)?)
}

/// What the server needs its agent for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Need {
    /// Nothing that the agent does in time: it may wait for the cluster, which the server waits for too.
    None,
    /// To have the addresses if this server takes the lease.
    ToStand,
    /// To have clients reach a server that has a lease, which another node could serve.
    ToServe,
}

/// The agent of the machine, as its server knows it.
#[derive(Clone)]
pub(super) struct Agent {
    need: Arc<Mutex<Need>>,
    /// Whether it is to give signs of life: if another node could serve the group, and it knows how.
    is_watched: bool,
    is_silent: Arc<AtomicBool>,
}

impl Agent {
    fn new(handover: &Handover) -> Agent {
        let is_watched = handover.candidate.is_some() && handover.gives_signs;
        Agent { need: Arc::new(Mutex::new(Need::None)), is_watched, is_silent: Arc::default() }
    }

    fn need(&self) -> Need {
        *self.need.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn expect(&self, need: Need) {
        *self.need.lock().unwrap_or_else(PoisonError::into_inner) = need;
    }

    /// Tells the agent that clients are served.
    pub(super) fn ready(&self) {
        report(&Report::Ready);
        self.expect(Need::ToServe);
    }

    /// Whether the server stops because the agent is silent.
    pub(super) fn is_silent(&self) -> bool {
        self.is_silent.load(Ordering::SeqCst)
    }

    /// Without an agent nobody keeps the addresses, and another one will start a server: this one must be gone by then. If the agent is
    /// there but does nothing, clients cannot reach this server any more; so it lets another node have the group.
    fn end_with_it(&self) {
        let is_expected = || self.is_watched && self.need() != Need::None;
        match handover::await_loss(io::stdin().as_fd(), SILENCE_MAX, is_expected) {
            Loss::Gone => tracing::error!("the agent is gone: stopping at once"),
            Loss::Silent if self.need() == Need::ToServe => {
                tracing::error!(
                    "the agent is silent, so clients cannot reach this server: giving the group up"
                );
                // The server releases the lease first.
                self.is_silent.store(true, Ordering::SeqCst);
                let _ = kill_process(getpid(), Signal::TERM);
                thread::sleep(STOP_MAX);
            }
            Loss::Silent => tracing::error!("the agent is silent: stopping at once"),
        }
        end();
    }
}

/// Ends the process at once.
pub(super) fn end() {
    // A process can always signal itself.
    let _ = kill_process(getpid(), Signal::KILL);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_groups_of_a_machine_have_no_more_memory_than_one_server() {
        for groups in 1..=16 {
            let all = memory_of(4 << 30, groups) * u64::try_from(groups).unwrap();
            assert!((3 << 30..=4 << 30).contains(&all), "{groups}");
        }
        assert_eq!(memory_of(256 << 20, 8), MEMORY_BYTES_MIN);
    }
}
