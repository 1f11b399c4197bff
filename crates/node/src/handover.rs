//! What the agent and the server of a group tell each other, over a socket that is the server's standard input.
//!
//! The agent sends one message, with the sockets that clients connect to, and then signs of life. The server sends [`Report`]s. When
//! either end is closed, the other one's process is gone.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::{TcpListener, UdpSocket};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, send, sendmsg, socketpair, sockopt,
};
use serde::{Deserialize, Serialize};

use crate::limits::{ADDRESS_LATE_MAX, ADDRESS_LIFETIME, SOCKETS_MAX};

/// The longest message in bytes.
const MESSAGE_BYTES_MAX: usize = 4096;

/// The message that says that the agent runs.
const SIGN_OF_LIFE: &[u8] = b".";

/// How long an agent may give no sign of life. The addresses that it refreshes, each after a sign, are gone by then, so a server that
/// ends cannot tell its clients. If it could, they would connect again at once, to the sockets of this machine that the agent keeps,
/// where nobody serves them: the kernel would take their requests, and they would wait for a reply until they probe the connection,
/// after 20 s with Linux.
pub const SILENCE_MAX: Duration = ADDRESS_LIFETIME.saturating_add(ADDRESS_LATE_MAX);

/// How long a sign of life is waited for at once.
const LISTEN: Timespec = Timespec { tv_sec: 0, tv_nsec: 250_000_000 };

/// What a server is told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Handover {
    /// The name of the group.
    pub group: String,
    /// The name of this machine.
    pub node: String,
    /// How many groups this machine may have to serve at once: its own, and those of the machine that fails.
    pub groups: usize,
    /// How the lease of the group is taken, if its pools are in a Ceph cluster.
    #[serde(default)]
    pub candidate: Option<Candidate>,
    /// Whether the agent sends signs of life. One of an earlier release does not.
    #[serde(default)]
    pub gives_signs: bool,
}

/// How a server stands for the lease of its group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Candidate {
    /// How many milliseconds longer than necessary it waits.
    pub delay_ms: u64,
    /// What the agent saw of the lease.
    pub watched: Option<Watched>,
}

/// What an agent saw of a lease: a version of it, and when, as [`store::boot_time`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Watched {
    /// The version.
    pub version: u64,
    /// When it was first seen.
    pub since: u64,
    /// When the last read that showed it was sent.
    pub confirmed: u64,
}

/// The sockets that a server is given.
#[derive(Debug, Default)]
pub struct Sockets {
    /// Sockets that listen.
    pub listeners: Vec<TcpListener>,
    /// Sockets for datagrams, at the same ports.
    pub datagrams: Vec<UdpSocket>,
}

/// What a server tells its agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Report {
    /// It waits for the lease of the group.
    Standing {
        /// What the lease will call this process.
        instance: u64,
    },
    /// It has the claim on the data directory, or the lease: no other machine serves the group.
    Claimed,
    /// It has renewed its claim or lease; the renewal began at this time of [`store::boot_time`].
    Renewed {
        /// Nanoseconds.
        at: u64,
    },
    /// It serves.
    Ready,
}

/// Makes the two ends: the agent's, and the standard input of the server.
pub(crate) fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?)
}

/// Hands the sockets over.
pub(crate) fn give(to: &OwnedFd, handover: &Handover, sockets: &Sockets) -> io::Result<()> {
    let listeners = sockets.listeners.iter().map(TcpListener::as_fd);
    let descriptors: Vec<BorrowedFd<'_>> =
        listeners.chain(sockets.datagrams.iter().map(UdpSocket::as_fd)).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2 * SOCKETS_MAX))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !control.push(SendAncillaryMessage::ScmRights(&descriptors)) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "a group has too many addresses"));
    }
    let message = serde_json::to_vec(handover)?;
    sendmsg(to, &[IoSlice::new(&message)], &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Takes what the agent hands over.
///
/// # Errors
/// `from` is not a socket of an agent.
pub fn take(from: BorrowedFd<'_>) -> io::Result<(Handover, Sockets)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2 * SOCKETS_MAX))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut bytes = [0; MESSAGE_BYTES_MAX];
    let received = recvmsg(from, &mut [IoSliceMut::new(&mut bytes)], &mut control, RecvFlags::CMSG_CLOEXEC)?;
    let handover = serde_json::from_slice(&bytes[..received.bytes])?;
    let mut sockets = Sockets::default();
    for message in control.drain() {
        let RecvAncillaryMessage::ScmRights(descriptors) = message else { continue };
        for descriptor in descriptors {
            match sockopt::socket_type(&descriptor)? {
                SocketType::STREAM => sockets.listeners.push(descriptor.into()),
                _ => sockets.datagrams.push(descriptor.into()),
            }
        }
    }
    Ok((handover, sockets))
}

/// Tells the agent something.
///
/// # Errors
/// The agent is gone.
pub fn report(to: BorrowedFd<'_>, report: &Report) -> io::Result<()> {
    send(to, &serde_json::to_vec(report)?, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Tells the agent something, unless that would have to wait for the agent.
///
/// # Errors
/// The agent is gone, or takes nothing at present.
pub fn report_at_once(to: BorrowedFd<'_>, report: &Report) -> io::Result<()> {
    send(to, &serde_json::to_vec(report)?, SendFlags::NOSIGNAL | SendFlags::DONTWAIT)?;
    Ok(())
}

/// Tells the server that the agent runs. A server that is stopped is not waited for.
pub(crate) fn give_sign(to: &OwnedFd) {
    // If it is gone, that is noticed by the end of its reports.
    let _ = send(to, SIGN_OF_LIFE, SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
}

/// Why an agent is of no use any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// It is gone.
    Gone,
    /// It gives no signs of life.
    Silent,
}

/// Returns when the agent is gone, or has given no sign of life for `patience` although `is_expected` said that it should. Time in
/// which this process did not run does not count.
pub fn await_loss(from: BorrowedFd<'_>, patience: Duration, is_expected: impl Fn() -> bool) -> Loss {
    let mut silent = Duration::ZERO;
    while silent < patience {
        let mut link = [PollFd::from_borrowed_fd(from, PollFlags::IN)];
        match poll(&mut link, Some(&LISTEN)) {
            Ok(0) if is_expected() => silent += Duration::from_nanos(LISTEN.tv_nsec.unsigned_abs()),
            Ok(0) | Err(rustix::io::Errno::INTR) => {}
            Ok(_) if receive(from).is_some() => silent = Duration::ZERO,
            Ok(_) | Err(_) => return Loss::Gone,
        }
    }
    Loss::Silent
}

/// Waits for the next report; none if the server is gone.
pub(crate) fn next_report(from: &OwnedFd) -> Option<Report> {
    serde_json::from_slice(&receive(from.as_fd())?).ok()
}

/// Returns the next message; none when the other process is gone.
fn receive(from: BorrowedFd<'_>) -> Option<Vec<u8>> {
    let mut bytes = vec![0; MESSAGE_BYTES_MAX];
    loop {
        match rustix::net::recv(from, &mut bytes[..], RecvFlags::empty()) {
            Err(rustix::io::Errno::INTR) => {}
            Ok((_, 0)) | Err(_) => return None,
            Ok((_, length)) => {
                bytes.truncate(length);
                return Some(bytes);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn sockets_and_reports_pass_between_the_two_ends() {
        let (agent, server) = pair().unwrap();
        let given = Sockets {
            listeners: vec![TcpListener::bind("127.0.0.1:0").unwrap()],
            datagrams: vec![UdpSocket::bind("127.0.0.1:0").unwrap()],
        };
        let handover = Handover {
            group: "home".to_owned(),
            node: "a".to_owned(),
            groups: 2,
            candidate: Some(Candidate::default()),
            gives_signs: true,
        };
        give(&agent, &handover, &given).unwrap();
        let (taken, sockets) = take(server.as_fd()).unwrap();
        assert_eq!(taken, handover);
        let [listener] = &sockets.listeners[..] else { panic!("{sockets:?}") };
        assert_eq!(listener.local_addr().unwrap(), given.listeners[0].local_addr().unwrap());
        assert_eq!(sockets.datagrams[0].local_addr().unwrap(), given.datagrams[0].local_addr().unwrap());
        for said in
            [Report::Standing { instance: 3 }, Report::Claimed, Report::Renewed { at: 7 }, Report::Ready]
        {
            report(server.as_fd(), &said).unwrap();
            assert_eq!(next_report(&agent), Some(said));
        }
        drop(server);
        assert_eq!(next_report(&agent), None);
    }

    #[test]
    fn a_server_does_not_wait_for_an_agent_that_is_stopped() {
        let (_agent, server) = pair().unwrap();
        let told =
            (0..1_000_000).position(|at| report_at_once(server.as_fd(), &Report::Renewed { at }).is_err());
        assert!(told.is_some_and(|told| told > 0));
    }

    #[test]
    fn a_server_learns_that_its_agent_is_silent_but_only_while_it_should_not_be() {
        let (agent, server) = pair().unwrap();
        let begun = Instant::now();
        let lost = std::thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..4 {
                    give_sign(&agent);
                    std::thread::sleep(Duration::from_millis(500));
                }
            });
            let is_expected =
                || begun.elapsed() < Duration::from_secs(2) || begun.elapsed() > Duration::from_secs(4);
            await_loss(server.as_fd(), Duration::from_secs(1), is_expected)
        });
        assert_eq!(lost, Loss::Silent);
        let took = begun.elapsed();
        assert!(took > Duration::from_millis(4500) && took < Duration::from_secs(8), "{took:?}");
    }

    #[test]
    fn an_agent_does_not_wait_for_a_server_that_is_stopped() {
        let (agent, _server) = pair().unwrap();
        (0..10_000).for_each(|_| give_sign(&agent));
    }

    #[test]
    fn a_server_learns_that_its_agent_is_gone() {
        let (agent, server) = pair().unwrap();
        drop(agent);
        assert_eq!(await_loss(server.as_fd(), Duration::from_secs(60), || true), Loss::Gone);
        report(server.as_fd(), &Report::Ready).unwrap_err();
        take(server.as_fd()).unwrap_err();
    }
}
