//! MKNOD (RFC 1813 section 3.3.11): creates a device, a socket or a named pipe. Other types are NFS3ERR_BADTYPE.

use volume::attributes::Device;
use volume::request::{Error, Request};
use volume::results::NodeKind;
use wire::nfs3::{DeviceData3, MknodArgs, MknodData3, Sattr3};
use wire::xdr::Encoder;

use crate::attributes::{set_attributes, unchanged};
use crate::call::{Call, Handled};
use crate::rpc_cache::{Once, ToJournal, once};
use crate::v3::create;
pub(super) use crate::v3::create::failed;

pub(super) fn run<'a>(call: &Call<'a>, out: &mut Encoder<'_>) -> Handled<'a> {
    let args: MknodArgs<'_> = call.arguments()?;
    let directory = call.object(args.place.dir)?;
    let operation = Once {
        run: |request: &Request<'_>, encode: ToJournal<'_, _>| {
            let (kind, set) = what(&args.what)?;
            let set = set_attributes(set)?;
            directory.volume.make_node(request, directory.ino, args.place.name.0, kind, &set, encode)
        },
        succeed: |created: &_, out: &mut Encoder<'_>| create::succeeded(&directory, created, out),
        fail: |after: &mut _| Ok(unchanged(directory.shown(after)?)),
    };
    once(call, &directory, out, operation)
}

fn what(what: &MknodData3) -> Result<(NodeKind, &Sattr3), Error> {
    let numbers = |data: &DeviceData3| Device { major: data.spec.major, minor: data.spec.minor };
    Ok(match what {
        MknodData3::Chr(data) => (NodeKind::Character(numbers(data)), &data.dev_attributes),
        MknodData3::Blk(data) => (NodeKind::Block(numbers(data)), &data.dev_attributes),
        MknodData3::Sock(set) => (NodeKind::Socket, set),
        MknodData3::Fifo(set) => (NodeKind::Fifo, set),
        MknodData3::BadType(_) => return Err(Error::BadType),
    })
}
