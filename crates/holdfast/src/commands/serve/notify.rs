//! Tells the service manager what the server does, as sd_notify(3) describes: a datagram to the socket that the environment
//! variable `NOTIFY_SOCKET` names. Without it, nothing is sent.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::UnixDatagram;

use rustix::time::{ClockId, clock_gettime};

/// Reports that clients are served.
pub(in crate::commands) fn ready() {
    tell("READY=1");
}

/// Reports that the exports are being reloaded; [`ready`] follows, whether that succeeds or not.
pub(in crate::commands) fn reloading() {
    let now = clock_gettime(ClockId::Monotonic);
    tell(&format!("RELOADING=1\nMONOTONIC_USEC={}", now.tv_sec * 1_000_000 + now.tv_nsec / 1000));
}

/// Reports that no more calls are accepted.
pub(in crate::commands) fn stopping() {
    tell("STOPPING=1");
}

fn tell(state: &str) {
    let Some(socket) = std::env::var_os("NOTIFY_SOCKET") else { return };
    if let Err(error) = send(&socket, state) {
        tracing::warn!(%error, "cannot tell the service manager the state of the server");
    }
}

fn send(socket: &OsStr, state: &str) -> io::Result<()> {
    let datagram = UnixDatagram::unbound()?;
    #[cfg(target_os = "linux")]
    if let Some(name) = socket.as_bytes().strip_prefix(b"@") {
        use std::os::linux::net::SocketAddrExt as _;
        let address = std::os::unix::net::SocketAddr::from_abstract_name(name)?;
        return datagram.send_to_addr(state.as_bytes(), &address).map(|_| ());
    }
    datagram.send_to(state.as_bytes(), socket).map(|_| ())
}
