//! Connections to the server in the namespace, and minimal checks that it answers and that a handle is still valid: NULL,
//! MNT and GETATTR, each on a connection of its own.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use super::lab::{ADDRESS, PORT};
use crate::nfs::{Arguments, Connection, MOUNT, NFS, Procedure};

const PATIENCE: Duration = Duration::from_secs(2);

/// Connects to NFS. `patience` limits each read and write.
pub(super) fn connect(patience: Duration) -> Result<Connection, String> {
    open(NFS, PORT, patience).map_err(|error| format!("cannot connect: {error}"))
}

fn open(program: u32, port: u16, patience: Duration) -> io::Result<Connection> {
    let address = ADDRESS.parse().map_err(io::Error::other)?;
    Connection::open(SocketAddr::new(address, port), program, patience)
}

/// Calls NULL of NFSv3.
pub(super) fn null(port: u16) -> io::Result<()> {
    open(NFS, port, PATIENCE)?.call(Procedure::Null, &Arguments::default()).map(|_| ())
}

/// Calls NULL of MOUNT.
pub(super) fn null_mount(port: u16) -> io::Result<()> {
    open(MOUNT, port, PATIENCE)?.call(Procedure::Null, &Arguments::default()).map(|_| ())
}

/// Returns the root handle of `/main`.
pub(super) fn mount(port: u16) -> io::Result<Vec<u8>> {
    let mut path = Arguments::default();
    path.opaque(b"/main");
    // Procedure 1 is GETATTR in NFS and MNT in MOUNT.
    let mut connection = open(MOUNT, port, PATIENCE)?;
    let results = connection.call(Procedure::Getattr, &path)?;
    results.expect("MNT", &[0]).and_then(|_| results.handle(4)).map_err(io::Error::other)
}

/// Returns the status of GETATTR for a handle.
pub(super) fn getattr(handle: &[u8]) -> io::Result<u32> {
    let mut object = Arguments::default();
    object.opaque(handle);
    open(NFS, PORT, PATIENCE)?.call(Procedure::Getattr, &object)?.status().map_err(io::Error::other)
}
