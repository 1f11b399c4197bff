//! Minimal checks that a server answers and that a handle is still valid: NULL, MNT and GETATTR, each on a connection of
//! its own.

use std::io;
use std::time::Duration;

use crate::nfs::{Arguments, Connection, Procedure};

const PATIENCE: Duration = Duration::from_secs(2);

/// Calls NULL of NFSv3.
pub(super) fn null(port: u16) -> io::Result<()> {
    Connection::open_nfs(port, PATIENCE)?.call(Procedure::Null, &Arguments::default()).map(|_| ())
}

/// Calls NULL of MOUNT.
pub(super) fn null_mount(port: u16) -> io::Result<()> {
    Connection::open_mount(port, PATIENCE)?.call(Procedure::Null, &Arguments::default()).map(|_| ())
}

/// Returns the root handle of `/main`.
pub(super) fn mount(port: u16) -> io::Result<Vec<u8>> {
    let mut path = Arguments::default();
    path.opaque(b"/main");
    // Procedure 1 is GETATTR in NFS and MNT in MOUNT.
    let mut connection = Connection::open_mount(port, PATIENCE)?;
    let results = connection.call(Procedure::Getattr, &path)?;
    results.expect("MNT", &[0]).and_then(|_| results.handle(4)).map_err(io::Error::other)
}

/// Returns the status of GETATTR for a handle.
pub(super) fn getattr(handle: &[u8]) -> io::Result<u32> {
    let mut object = Arguments::default();
    object.opaque(handle);
    Connection::open(PATIENCE)?.call(Procedure::Getattr, &object)?.status().map_err(io::Error::other)
}
