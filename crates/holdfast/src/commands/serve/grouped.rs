//! Serving a group for the agent of the machine (`holdfast node`), which is at the other end of the standard input.

use std::io;
use std::os::fd::AsFd as _;
use std::path::Path;
use std::sync::Arc;
use std::thread;

use node::handover::{self, Report};
use rustix::process::{Signal, getpid, kill_process};
use server::data;
use server::error::Error;
use server::group::Group;
use store::Claim;

/// Takes what the agent hands over, claims the data directory, and says so. The server ends with the agent, which has the
/// addresses.
pub(super) fn take(data: &Path) -> Result<Group, Error> {
    let (handover, sockets) = handover::take(io::stdin().as_fd()).map_err(|error| {
        Error::usage(format!("--group is for servers that an agent starts: run `holdfast node` ({error})"))
    })?;
    tracing::info!(group = handover.group, node = handover.node, "serving a group");
    let watch = thread::Builder::new().name("agent".to_owned()).spawn(end_with_agent);
    watch.map_err(|error| Error::failed(format!("cannot start a thread: {error}")))?;
    let claim = claim(data, &handover.node)?;
    report(&Report::Claimed);
    Ok(Group { claim, listeners: sockets.listeners.into(), datagrams: sockets.datagrams.into() })
}

/// Tells the agent that clients are served.
pub(super) fn ready() {
    report(&Report::Ready);
}

fn report(report: &Report) {
    if let Err(error) = handover::report(io::stdin().as_fd(), report) {
        tracing::warn!(%error, ?report, "cannot tell the agent");
    }
}

/// Claims the data directory. It is not created: without its file system there would be an empty one.
fn claim(data: &Path, node: &str) -> Result<Arc<Claim>, Error> {
    if data::local(data)? != data {
        return Err(Error::usage(
            "the agent does not serve groups in a Ceph cluster yet: name a data directory as `data` of the group",
        ));
    }
    if store::list_or_none(data)?.is_empty() {
        let data = data.display();
        return Err(Error::failed(format!(
            "{data} has no pools: mount the device of the group there, and if it is new, make a pool with `holdfast pool \
             create {data} default`"
        )));
    }
    Ok(Claim::take(data, node)?)
}

/// Without an agent nobody keeps the addresses, and another one will start a server: this one must be gone by then.
fn end_with_agent() {
    handover::await_end(io::stdin().as_fd());
    tracing::error!("the agent is gone: stopping at once");
    // A process can always kill itself.
    let _ = kill_process(getpid(), Signal::KILL);
}
