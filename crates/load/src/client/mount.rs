//! MOUNT: the handle of an export for NFSv3.

use wire::mount3::{self, DirPath, MntRes};
use wire::portmap::{self, Mapping, PROTOCOL_TCP};
use wire::record::write_record;
use wire::xdr::{Decode, Encode as _};

use super::transport::Transport;
use super::{Handle, Server};
use crate::error::LoadError;

/// Asks MOUNT for the handle of the export.
///
/// # Errors
/// If the export does not exist, the server refuses, or its MOUNT service is not found.
pub(super) fn mount(server: &Server) -> Result<Handle, LoadError> {
    if let Some(port) = server.mount_port {
        return mount_at(server, port)?.ok_or_else(|| {
            LoadError::new(format!("port {port} of {} does not serve MOUNT version 3", server.address.ip()))
        });
    }
    if let Some(handle) = mount_at(server, server.address.port())? {
        return Ok(handle);
    }
    let port = mount_port(server).map_err(|error| {
        LoadError::new(format!(
            "{} does not serve MOUNT at its NFS port, and rpcbind names no other port ({error}): use --mount-port"
        , server.address))
    })?;
    mount_at(server, port)?
        .ok_or_else(|| LoadError::new("rpcbind names a port that does not serve MOUNT version 3"))
}

/// Mounts through one port. Returns none if that port does not serve MOUNT.
fn mount_at(server: &Server, port: u16) -> Result<Option<Handle>, LoadError> {
    let mut client = Transport::connect(server, port)?;
    let path = DirPath(server.export.as_bytes());
    let procedure = (mount3::PROGRAM, mount3::VERSION, mount3::Procedure::Mnt.code());
    let Ok(results) = client.call(procedure, &|out| path.encode(out))? else {
        return Ok(None);
    };
    match decode::<MntRes<'_>>("MNT", &results)? {
        Ok(mounted) => Ok(Some(Handle::of(mounted.fhandle.as_bytes()))),
        Err(mount3::MountStat3::NoEnt) => {
            Err(LoadError::new(format!("{} has no export \"{}\"", server.address, server.export)))
        }
        Err(status) => Err(LoadError::new(format!(
            "{} refuses to mount \"{}\": {status}; some servers require --reserved-ports",
            server.address, server.export
        ))),
    }
}

/// Asks rpcbind for the port of MOUNT.
fn mount_port(server: &Server) -> Result<u16, LoadError> {
    let mut client = Transport::connect(server, portmap::PORT)?;
    let asked =
        Mapping { program: mount3::PROGRAM, version: mount3::VERSION, protocol: PROTOCOL_TCP, port: 0 };
    let mut call = Vec::new();
    let xid = client.xid();
    write_record(&mut call, |out| {
        for word in [xid, 0, 2, portmap::PROGRAM, portmap::VERSION_PORTMAP, portmap::Procedure::Get.code()] {
            out.u32(word);
        }
        out.raw(&[0; 16]);
        asked.encode(out);
    });
    client.send(&call)?;
    let results = client.receive(xid)?.map_err(|stat| LoadError::new(stat.to_string()))?;
    let port: u32 = decode("GETPORT", &results)?;
    u16::try_from(port)
        .ok()
        .filter(|port| *port != 0)
        .ok_or_else(|| LoadError::new("MOUNT is not registered"))
}

/// Decodes the results of a call.
fn decode<'a, T: Decode<'a>>(procedure: &str, results: &'a [u8]) -> Result<T, LoadError> {
    wire::xdr::decode_all(results)
        .map_err(|error| LoadError::new(format!("the reply to {procedure} cannot be decoded: {error}")))
}
