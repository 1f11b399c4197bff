//! READDIRPLUS (RFC 1813 section 3.3.17): lists names of a directory with attributes and handles.
//!
//! `maxcount` bounds the whole result. `dircount` bounds names and cookies alone; RFC 1813 calls it a hint, so at least one
//! name is returned whatever its value.

use wire::nfs3::{EntryPlus3, Fattr3, Filename3, NfsStat3, PostOpAttr, ReaddirplusArgs};
use wire::xdr::Encoder;

use crate::call::{Call, Handled, file_handle};
use crate::v3::readdir::{Asked, answer, budget};

/// Bytes of fileid, name and cookie of an entry with a name of a dozen bytes, to guess how many names to request.
const USUAL_NAME_BYTES: usize = 8 + (4 + 12) + 8;

/// The same with attributes and handle.
const USUAL_ENTRY_BYTES: usize =
    4 + USUAL_NAME_BYTES + (4 + Fattr3::BYTES) + (8 + volume::handle::HANDLE_BYTES);

pub(super) fn run<'a>(call: &Call<'a>, out: &mut Encoder<'_>) -> Handled<'a> {
    let args: ReaddirplusArgs<'_> = call.arguments()?;
    let directory = call.object(args.dir)?;
    let (dircount, maxcount) = (budget(args.dircount), budget(args.maxcount));
    let guess = (maxcount / USUAL_ENTRY_BYTES).min(dircount / USUAL_NAME_BYTES);
    let asked = Asked { cookie: args.cookie, dircount, maxcount, guess, plus: true };
    answer(&directory, &asked, out, |result, entry| {
        let handle = directory.handle_bytes(entry.ino);
        let name = Filename3(&entry.name);
        let entry = EntryPlus3 {
            fileid: entry.ino.0,
            name,
            cookie: entry.cookie.0,
            name_attributes: entry.attributes.as_ref().map(|attributes| directory.fattr3(attributes)),
            name_handle: entry.attributes.is_some().then(|| file_handle(&handle)),
        };
        result.push(name, &entry)
    })
}

pub(super) fn failed(status: NfsStat3, out: &mut Encoder<'_>) {
    super::fail(out, status, PostOpAttr::None);
}
