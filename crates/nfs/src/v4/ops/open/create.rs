//! OPEN with creation (RFC 8881 section 18.16.3). The record of the open is in the journal entry that creates the file.

use std::cell::Cell;

use volume::attributes::SetAttributes;
use volume::request::{Answer, Durability, Error, Failure, Journaled};
use volume::results::{CreateHow, Created};
use wire::nfs4::{ChangeInfo4, CreateHow4, NfsStat4, Stateid4};
use wire::xdr::{Decode as _, Decoder, Encoder};

use crate::call::Object;
use crate::rpc_cache::ToJournal;
use crate::state::DurabilityToken;
use crate::state::delegations::in_flight::InFlightModification;
use crate::state::delegations::{Delegated, NoDelegationReason};
use crate::state::files::PreparedOpen;
use crate::state::ids::{FileId, Other};
use crate::v4::attributes::shown;
use crate::v4::context::{Compound, Done, OpStop, Target};
use crate::v4::once::{Once4, change_info, once};

use super::file_hold::{self, FileHold};
use super::{Request, Shown, delegate, flags, new_attributes, open_file, open_found, result, write};

/// Creates a file, or opens an existing one if `how` allows it.
pub(super) fn run(
    compound: &mut Compound<'_>,
    name: &[u8],
    how: &CreateHow4<'_>,
    request: &Request<'_>,
    out: &mut Encoder<'_>,
) -> Done {
    if compound.minor == 0 && matches!(how, CreateHow4::Exclusive41(_)) {
        return Err(NfsStat4::Inval.into());
    }
    let directory = compound.changeable()?;
    compound.check_directory(&directory)?;
    let new = new_attributes(how, compound.minor)?;
    if directory.volume.lookup_request(&compound.request_key(&directory)).is_some() {
        // This request created the file before a restart.
        return create(compound, &directory, name, how, new, request, out);
    }
    match file_hold::find(compound, &directory, name) {
        Ok(found) => match how {
            CreateHow4::Unchecked(_) => {
                // Of the attributes, only a size of zero applies to an existing file.
                let size = new.0.size.filter(|size| *size == 0);
                open_found(compound, found, size, request, out)
            }
            // This request may have created the file.
            CreateHow4::Guarded(_) | CreateHow4::Exclusive(_) | CreateHow4::Exclusive41(_) => {
                create(compound, &directory, name, how, new, request, out)
            }
        },
        Err(OpStop::Status(NfsStat4::NoEnt)) => create(compound, &directory, name, how, new, request, out),
        Err(stop) => Err(stop),
    }
}

/// Returns the mode of creation for the engine. It never touches an existing file: [`run`] opens that, after checking
/// the state of other clients.
fn how_to(how: &CreateHow4<'_>, set: &SetAttributes) -> CreateHow {
    match how {
        CreateHow4::Unchecked(_) | CreateHow4::Guarded(_) => CreateHow::Guarded(*set),
        CreateHow4::Exclusive(verifier) => CreateHow::Exclusive(*verifier),
        CreateHow4::Exclusive41(check_files) => CreateHow::ExclusiveWith(check_files.verf, *set),
    }
}

/// Maps a failure. If a file that may be opened has appeared, the operation starts again and finds it.
fn not_created(how: &CreateHow4<'_>, failure: Failure) -> Failure {
    match (how, failure.error) {
        (CreateHow4::Unchecked(_), Error::Exists) => Failure { error: Error::ObjectBusy, ..failure },
        _ => failure,
    }
}

fn create<'c>(
    compound: &mut Compound<'c>,
    directory: &Object<'c>,
    name: &[u8],
    how: &CreateHow4<'_>,
    (set, attrset): (SetAttributes, wire::nfs4::AttrMask),
    request: &Request<'_>,
    out: &mut Encoder<'_>,
) -> Done {
    let opening = request.opening();
    let prepared = compound.state().prepare_open(&opening);
    let (minor, volume) = (compound.minor, directory.volume.id());
    let confirm = !prepared.is_confirmed();
    let made: Cell<Option<Made>> = Cell::new(None);
    let hold: Cell<Option<FileHold<'c>>> = Cell::new(None);
    let state = compound.state();
    let coming: Cell<Option<InFlightModification<'c>>> = Cell::new(None);
    let none = Delegated::None(NoDelegationReason::NotWanted);
    let at = out.position();
    let once_only = Once4 {
        run: |asked: &volume::request::Request<'_>, encode: ToJournal<'_, Created>| -> Answer<Created> {
            let mut with_open = |created: &Created| -> Journaled {
                let file = FileId { volume, ino: created.attributes.ino };
                hold.set(Some(FileHold::new(directory.volume, file.ino)));
                let mut journaled = encode(created);
                let (record, in_flight) = state.record_of_created(&prepared, file);
                journaled.state.push(record);
                coming.set(Some(in_flight));
                made.set(Some(Made { created: *created, journaled: true, after: Durability::NOW }));
                journaled
            };
            let answer =
                directory.volume.create_file(asked, directory.ino, name, &how_to(how, &set), &mut with_open);
            let answer = answer.map_err(|failure| not_created(how, failure))?;
            let journaled = made.get().is_some_and(|made| made.journaled);
            made.set(Some(Made { created: answer.value, journaled, after: answer.after }));
            Ok(answer)
        },
        succeed: |created: &Created, out: &mut Encoder<'_>| {
            let shown = Shown { cinfo: change_info(&created.directory), attrset };
            result(prepared.stateid().into(), flags(minor, confirm), shown, none, minor, out);
        },
        current: |created: &Created| Some(created.attributes.ino),
    };
    once(compound, directory, out, once_only)?;
    match made.get() {
        None => open_remembered(compound, directory, request, at, out),
        Some(made) => {
            out.rewind(at);
            let coming = coming.take().unwrap_or(InFlightModification::NONE);
            open_created(compound, directory, &made, (&prepared, coming), request, attrset, out)
        }
    }
}

/// Completes a repeated creation. Usually the open of the remembered stateid still exists. If it was closed since, or
/// was not made because the journal was full, the file is opened now.
fn open_remembered<'c>(
    compound: &mut Compound<'c>,
    directory: &Object<'c>,
    request: &Request<'_>,
    at: usize,
    out: &mut Encoder<'_>,
) -> Done {
    let mut answer = Decoder::new(out.buffer().get(at..).unwrap_or_default());
    answer.u32()?;
    let stateid = Stateid4::decode(&mut answer)?;
    let client = compound.session_client();
    if compound.state().entry(compound.caller(client.as_ref())?, Other(stateid.other)).is_ok() {
        compound.current_stateid = Some(stateid);
        return Ok(());
    }
    out.rewind(at);
    let change = shown::attributes(compound, &Target::Stored(*directory))?.change;
    let cinfo = ChangeInfo4 { atomic: true, before: change, after: change };
    let file = compound.file()?;
    open_file(compound, &file, cinfo, request, out)
}

/// What the engine did.
#[derive(Clone, Copy)]
struct Made {
    created: Created,
    /// Whether the file is new, so that its open is in the journal.
    journaled: bool,
    after: Durability,
}

fn open_created<'c>(
    compound: &mut Compound<'c>,
    directory: &Object<'c>,
    made: &Made,
    prepared: (&PreparedOpen, InFlightModification<'_>),
    request: &Request<'_>,
    attrset: wire::nfs4::AttrMask,
    out: &mut Encoder<'_>,
) -> Done {
    let cinfo = change_info(&made.created.directory);
    let file = directory.beside(made.created.attributes.ino);
    if !made.journaled {
        return open_file(compound, &file, cinfo, request, out);
    }
    let token = DurabilityToken { volume: directory.volume.id(), after: made.after };
    let context = compound.state_context();
    let opened =
        compound.state().adopt_open(&context, file.file_id(), &request.opening(), prepared, token)?;
    let delegated = delegate(compound, &file, &opened, request.want, true);
    compound.set_current(Target::Stored(file))?;
    write(compound, &opened, delegated, Shown { cinfo, attrset }, out);
    Ok(())
}

#[cfg(test)]
mod tests {
    use wire::nfs4::Fattr4;

    use super::*;

    #[test]
    fn files_that_appear_meanwhile_are_opened_like_others() {
        let set = SetAttributes { size: Some(4096), ..SetAttributes::default() };
        let [unchecked, guarded] = [CreateHow4::Unchecked, CreateHow4::Guarded].map(|how| how(Fattr4::EMPTY));
        for how in [unchecked, guarded] {
            assert_eq!(how_to(&how, &set), CreateHow::Guarded(set));
        }
        let error = |how, error: Error| not_created(how, error.into()).error;
        assert_eq!(error(&unchecked, Error::Exists), Error::ObjectBusy, "the name is looked up again");
        assert_eq!(error(&guarded, Error::Exists), Error::Exists);
        assert_eq!(error(&unchecked, Error::NoSpace), Error::NoSpace);
    }
}
