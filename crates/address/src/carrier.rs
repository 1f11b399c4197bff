//! Whether an interface has its link: a cable, with something at its other end.

use std::io;

use nix::libc::{AF_UNSPEC, ENOBUFS, IFF_RUNNING, RTM_GETLINK, RTM_NEWLINK, RTMGRP_LINK};
use nix::sys::socket::SockProtocol;

use crate::interface::Interface;
use crate::netlink::{Message, Netlink, native_u32};

/// Where `ifinfomsg` has the number of the interface, and its flags.
const INDEX_AT: usize = 4;
const FLAGS_AT: usize = 8;

/// Watches the link of an interface.
pub struct Carrier {
    changes: Netlink,
    index: u32,
}

impl Carrier {
    /// Begins to watch.
    ///
    /// # Errors
    /// The kernel does not take the subscription.
    pub fn watch(interface: &Interface) -> io::Result<Carrier> {
        let groups = RTMGRP_LINK.cast_unsigned();
        let changes = Netlink::subscribe(SockProtocol::NetlinkRoute, groups)?;
        Ok(Carrier { changes, index: interface.index })
    }

    /// Waits until something of the interface has changed. Returns whether it has its link then.
    ///
    /// # Errors
    /// The kernel does not answer; or the interface is gone.
    pub fn next(&self) -> io::Result<bool> {
        let mut concerned = false;
        while !concerned {
            let waited = self.changes.wait(|kind, body| {
                concerned |= kind == RTM_NEWLINK && native_u32(body, INDEX_AT) == Some(self.index);
            });
            match waited {
                // Messages were lost; one may have been of this interface.
                Err(error) if error.raw_os_error() == Some(ENOBUFS) => concerned = true,
                other => other?,
            }
        }
        self.has_link()
    }

    /// Returns whether the interface has its link.
    ///
    /// # Errors
    /// The kernel does not answer; or the interface is gone.
    pub fn has_link(&self) -> io::Result<bool> {
        let mut flags = None;
        let netlink = Netlink::open(SockProtocol::NetlinkRoute)?;
        netlink.ask(RTM_GETLINK, 0, &request(self.index), |kind, body| {
            if kind == RTM_NEWLINK {
                flags = native_u32(body, FLAGS_AT);
            }
        })?;
        flags.map(is_running).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }
}

fn is_running(flags: u32) -> bool {
    flags & IFF_RUNNING.cast_unsigned() != 0
}

/// Returns the body of a request: `ifinfomsg`.
fn request(index: u32) -> Vec<u8> {
    let mut body = Message::default();
    body.u8(u8::try_from(AF_UNSPEC).expect("families are small numbers"));
    body.u8(0);
    // Any type of hardware.
    body.u16(0);
    body.u32(index);
    // No flags to change.
    body.u32(0);
    body.u32(0);
    body.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_interface_has_its_link_and_one_that_is_gone_is_an_error() {
        let loopback = Interface::find("lo").unwrap();
        let mut carrier = Carrier::watch(&loopback).unwrap();
        assert!(carrier.has_link().unwrap());
        carrier.index = u32::MAX >> 1;
        carrier.has_link().unwrap_err();
    }
}
