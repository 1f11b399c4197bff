//! Messages to the kernel: netlink(7).

use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};

use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recv, sendto, socket,
};

/// Bytes of the header of a message.
const HEADER_BYTES: usize = 16;

/// Bytes received at once: what the kernel puts into one datagram at most.
const DATAGRAM_BYTES_MAX: usize = 32 << 10;

/// Flags of requests.
pub(crate) const REQUEST: u16 = 0x001;
pub(crate) const ACK: u16 = 0x004;
pub(crate) const REPLACE: u16 = 0x100;
pub(crate) const EXCLUSIVE: u16 = 0x200;
pub(crate) const DUMP: u16 = 0x300;
pub(crate) const CREATE: u16 = 0x400;

/// Types of answers.
const ERROR: u16 = 2;
const DONE: u16 = 3;

/// A socket to a part of the kernel.
pub(crate) struct Netlink(OwnedFd);

impl Netlink {
    pub(crate) fn open(protocol: SockProtocol) -> io::Result<Netlink> {
        Ok(Netlink(socket(AddressFamily::Netlink, SockType::Raw, SockFlag::SOCK_CLOEXEC, protocol)?))
    }

    /// Receives messages of the groups with these bits, which nobody asks for.
    pub(crate) fn subscribe(protocol: SockProtocol, groups: u32) -> io::Result<Netlink> {
        let netlink = Netlink::open(protocol)?;
        bind(netlink.0.as_raw_fd(), &NetlinkAddr::new(0, groups))?;
        Ok(netlink)
    }

    /// Waits for messages of a subscription, and passes them on, each with its type.
    pub(crate) fn wait(&self, mut message: impl FnMut(u16, &[u8])) -> io::Result<()> {
        let mut datagram = vec![0; DATAGRAM_BYTES_MAX];
        let length = recv(self.0.as_raw_fd(), &mut datagram, MsgFlags::empty())?;
        let mut rest = &datagram[..length];
        while let Some((kind, body, next)) = split(rest) {
            message(kind, body);
            rest = next;
        }
        Ok(())
    }

    /// Makes a request that the kernel acknowledges.
    pub(crate) fn request(&self, kind: u16, flags: u16, body: &[u8]) -> io::Result<()> {
        self.ask(kind, flags, body, |_, _| {})
    }

    /// Makes a request that the kernel answers and acknowledges. Answers are passed to `answer`, each with its type.
    pub(crate) fn ask(
        &self,
        kind: u16,
        flags: u16,
        body: &[u8],
        answer: impl FnMut(u16, &[u8]),
    ) -> io::Result<()> {
        self.send(kind, REQUEST | ACK | flags, body)?;
        self.answers(answer)
    }

    /// Makes a request whose answers are passed to `answer`, each with its type.
    pub(crate) fn dump(&self, kind: u16, body: &[u8], answer: impl FnMut(u16, &[u8])) -> io::Result<()> {
        self.send(kind, REQUEST | DUMP, body)?;
        self.answers(answer)
    }

    fn send(&self, kind: u16, flags: u16, body: &[u8]) -> io::Result<()> {
        let message = message(kind, flags, body);
        sendto(self.0.as_raw_fd(), &message, &NetlinkAddr::new(0, 0), MsgFlags::empty())?;
        Ok(())
    }

    /// Receives answers until the last one.
    fn answers(&self, mut answer: impl FnMut(u16, &[u8])) -> io::Result<()> {
        let mut datagram = vec![0; DATAGRAM_BYTES_MAX];
        loop {
            let length = recv(self.0.as_raw_fd(), &mut datagram, MsgFlags::empty())?;
            let mut rest = &datagram[..length];
            while let Some((kind, body, next)) = split(rest) {
                match kind {
                    DONE => return Ok(()),
                    ERROR => return acknowledged(body),
                    _ => answer(kind, body),
                }
                rest = next;
            }
        }
    }
}

/// Returns a message. Numbers are in the machine's byte order.
fn message(kind: u16, flags: u16, body: &[u8]) -> Vec<u8> {
    let mut message = Message::default();
    message.u32(u32::try_from(HEADER_BYTES + body.len()).expect("requests are short"));
    message.u16(kind);
    message.u16(flags);
    // Sequence number and port: one request at a time on a socket needs neither.
    message.u32(0);
    message.u32(0);
    message.raw(body);
    message.0
}

/// Splits the first message off: its type, its body, and what follows; none if there is no whole one.
fn split(bytes: &[u8]) -> Option<(u16, &[u8], &[u8])> {
    let header = bytes.first_chunk::<HEADER_BYTES>()?;
    let length = usize::try_from(native_u32(header, 0)?).ok()?;
    let body = bytes.get(HEADER_BYTES..length)?;
    let next = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    Some((u16::try_from(native_u32(header, 4)? & 0xffff).ok()?, body, next))
}

/// Returns the result that an acknowledgement states.
fn acknowledged(body: &[u8]) -> io::Result<()> {
    match native_u32(body, 0).map(u32::cast_signed) {
        Some(0) => Ok(()),
        Some(negative) => Err(io::Error::from_raw_os_error(-negative)),
        None => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// Reads a number in the machine's byte order.
#[expect(clippy::host_endian_bytes, reason = "the kernel of this machine wrote it")]
pub(crate) fn native_u32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// A message, or a part of one, that is being written.
#[derive(Default)]
pub(crate) struct Message(pub(crate) Vec<u8>);

impl Message {
    pub(crate) fn u8(&mut self, value: u8) {
        self.0.push(value);
    }

    #[expect(clippy::host_endian_bytes, reason = "the kernel of this machine reads it")]
    pub(crate) fn u16(&mut self, value: u16) {
        self.0.extend(value.to_ne_bytes());
    }

    #[expect(clippy::host_endian_bytes, reason = "the kernel of this machine reads it")]
    pub(crate) fn u32(&mut self, value: u32) {
        self.0.extend(value.to_ne_bytes());
    }

    pub(crate) fn raw(&mut self, bytes: &[u8]) {
        self.0.extend(bytes);
    }

    /// Appends an attribute of rtnetlink(7), which must be a multiple of four bytes long.
    pub(crate) fn attribute(&mut self, kind: u16, value: &[u8]) {
        debug_assert!(value.len().is_multiple_of(4));
        self.u16(u16::try_from(4 + value.len()).expect("attributes are short"));
        self.u16(kind);
        self.raw(value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_split_off_one_after_the_other() {
        let mut two = message(20, REQUEST, b"four");
        two.extend(message(3, 0, b"odd"));
        let (kind, body, rest) = split(&two).unwrap();
        assert_eq!((kind, body), (20, &b"four"[..]));
        let (kind, body, rest) = split(rest).unwrap();
        assert_eq!((kind, body, rest), (3, &b"odd"[..], &b""[..]));
        assert!(split(rest).is_none() && split(&two[..19]).is_none());
    }

    #[test]
    fn acknowledgements_are_results() {
        assert!(acknowledged(&[0; 4]).is_ok());
        let mut denied = Message::default();
        denied.u32((-1_i32).cast_unsigned());
        assert_eq!(acknowledged(&denied.0).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        assert_eq!(acknowledged(b"").unwrap_err().kind(), io::ErrorKind::InvalidData);
    }
}
