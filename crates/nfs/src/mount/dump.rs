//! DUMP (RFC 1813 section 5.2.2): the remembered mounts.

use wire::mount3::{DirPath, MountBody, MountList, Name};
use wire::xdr::{Encode, Encoder};

use crate::call::{After, Call, Handled};
use crate::link_local::Shown;

#[expect(clippy::unnecessary_wraps, reason = "has the form of every operation")]
pub(super) fn run<'a>(call: &Call<'a>, out: &mut Encoder<'_>) -> Handled<'a> {
    let mounts: Vec<(String, Box<[u8]>)> = call
        .service
        .shared
        .mounts
        .list()
        .into_iter()
        .map(|(client, path)| (Shown(client).to_string(), path))
        .collect();
    let bodies: Vec<MountBody<'_>> = mounts
        .iter()
        .map(|(client, path)| MountBody { hostname: Name(client.as_bytes()), directory: DirPath(path) })
        .collect();
    MountList::new(&bodies).encode(out);
    Ok(After::NOW)
}
