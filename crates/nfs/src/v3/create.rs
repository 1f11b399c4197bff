//! CREATE (RFC 1813 section 3.3.8): creates a regular file. MKDIR, SYMLINK and MKNOD have results of the same form.

use volume::ids::Ino;
use volume::request::{Error, Request};
use volume::results::{CreateHow, Created};
use wire::nfs3::{CreateArgs, CreateHow3, CreateOk, CreateRes, NfsStat3, WccData};
use wire::xdr::{Encode, Encoder};

use crate::attributes::{set_attributes, unchanged};
use crate::call::{Call, Handled, Object, file_handle};
use crate::rpc_cache::{Once, ToJournal, once};
use crate::state::delegations::in_flight::InFlightModification;

pub(super) fn run<'a>(call: &Call<'a>, out: &mut Encoder<'_>) -> Handled<'a> {
    let args: CreateArgs<'_> = call.arguments()?;
    let directory = call.object(args.place.dir)?;
    let (known, _in_flight) = match &args.how {
        CreateHow3::Unchecked(set) if set.size.is_some() => {
            call.check_truncate_conflicts(&directory, args.place.name.0)?
        }
        _ => (None, InFlightModification::NONE),
    };
    let operation = Once {
        run: |request: &Request<'_>, encode: ToJournal<'_, _>| {
            let how = how(&args.how, known)?;
            directory.volume.create_file(request, directory.ino, args.place.name.0, &how, encode)
        },
        succeed: |created: &_, out: &mut Encoder<'_>| succeeded(&directory, created, out),
        fail: |after: &mut _| Ok(unchanged(directory.shown(after)?)),
    };
    once(call, &directory, out, operation)
}

/// `known` is the file that may be truncated.
fn how(how: &CreateHow3, known: Option<Ino>) -> Result<CreateHow, Error> {
    Ok(match how {
        CreateHow3::Unchecked(set) if set.size.is_some() => {
            CreateHow::UncheckedIf(set_attributes(set)?, known)
        }
        CreateHow3::Unchecked(set) => CreateHow::Unchecked(set_attributes(set)?),
        CreateHow3::Guarded(set) => CreateHow::Guarded(set_attributes(set)?),
        CreateHow3::Exclusive(verifier) => CreateHow::Exclusive(*verifier),
    })
}

/// Writes the result of a success.
pub(super) fn succeeded(directory: &Object<'_>, created: &Created, out: &mut Encoder<'_>) {
    let handle = directory.handle_bytes(created.attributes.ino);
    CreateRes::Ok(CreateOk {
        obj: Some(file_handle(&handle)),
        obj_attributes: Some(directory.fattr3(&created.attributes)),
        dir_wcc: directory.wcc(&created.directory),
    })
    .encode(out);
}

pub(super) fn failed(status: NfsStat3, out: &mut Encoder<'_>) {
    super::fail(out, status, WccData::NONE);
}
