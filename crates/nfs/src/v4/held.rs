//! What a COMPOUND tells the state machine, and what it takes from it.

use wire::nfs4::Stateid4;

use crate::call::Object;
use crate::v4::context::{Compound, Stop};
use crate::v4::state::ids::{FileId, Other, StateId};
use crate::v4::state::stateids::Use;
use crate::v4::state::{Caller, Refusal};

/// What an operation does with the data of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Io {
    /// Reads a range.
    Read { offset: u64, length: u64 },
    /// Writes a range.
    Write { offset: u64, length: u64 },
    /// Sets the size.
    SetSize,
}

/// Whether a stateid allows to do this with a file, and nothing that others hold forbids it.
pub(crate) fn check_io(
    compound: &mut Compound<'_>,
    stateid: Stateid4,
    file: &Object<'_>,
    io: Io,
) -> Result<(), Stop> {
    let wanted = if matches!(io, Io::Read { .. }) { Use::Read } else { Use::Write };
    let stateid = StateId { seqid: stateid.seqid, other: Other(stateid.other) };
    let id = FileId { volume: file.volume.id(), ino: file.ino };
    let client = compound.slot.as_ref().map(|slot| &slot.session.client);
    let caller = client.map_or(Caller::Zero, Caller::Session);
    let (service, now) = (compound.service, compound.now);
    match service.shared.state.check_io(&service.context(now), caller, stateid, id, wanted) {
        Ok(_) => Ok(()),
        Err(Refusal::Status(status)) => Err(status.into()),
        Err(Refusal::Engine(error)) => Err(error.into()),
    }
}
