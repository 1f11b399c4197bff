//! Recalls the delegations of NFSv4 clients that an operation of any version conflicts with.
//!
//! The operation is refused until they are gone, and its client tries again. NFSv3 data operations respect share
//! reservations in the same way. Without delegations and share denials, this costs two loads of counters.
//!
//! A caller without the right to do something must not, by trying, cost others their delegations, or silent clients their
//! state. So the right ([`Right`]) and the export are checked first.

use std::net::IpAddr;
use std::sync::Arc;

use volume::attributes::SetAttributes;
use volume::ids::{Ino, VolumeId};
use volume::request::{Answer, Durable, Error, Failure};
use volume::results::{AccessMask, Found, Removed, Renamed};
use wire::nfs3::NfsStat3;

use crate::call::{Call, Object, Stop};
use crate::state::clients::client::Client;
use crate::state::delegations::ConflictKind;
use crate::state::delegations::in_flight::InFlightModification;
use crate::state::ids::FileId;
use crate::state::stateids::IoMode;
use crate::state::{Context, SharedState, StateError};

/// The errors of the shared state as statuses of NFSv3; the one place that maps them.
impl From<StateError> for Stop {
    fn from(error: StateError) -> Stop {
        match error {
            StateError::Engine(Error::WouldBlock) | StateError::Unfinished => Stop::WouldBlock,
            StateError::Engine(Error::Busy) => Stop::Busy(None),
            StateError::Engine(Error::AccessDenied) => Stop::Status(NfsStat3::Acces),
            StateError::Engine(Error::NotPermitted) => Stop::Status(NfsStat3::Perm),
            StateError::Engine(_) => Stop::Later,
            _ => Stop::Status(NfsStat3::Jukebox),
        }
    }
}

/// The right without which the engine refuses an operation. With it, the engine may still refuse.
#[derive(Clone, Copy)]
pub(crate) enum Right<'o, 'a> {
    /// Nothing.
    None,
    /// To read or execute the file, or to own it.
    Read,
    /// To write the file, or to own it.
    Write,
    /// To own the file.
    Own,
    /// To add names to this directory.
    AddTo(&'o Object<'a>),
    /// To remove the object's name from this directory.
    RemoveFrom(&'o Object<'a>),
}

/// What a caller may do with an object.
struct Granted {
    mask: u32,
    owns: bool,
    is_sticky: bool,
    is_durable: bool,
}

/// The sticky bit of a directory's mode.
const STICKY: u16 = 0o1000;

impl Granted {
    /// Looks it up. None if the operation will report why that fails.
    ///
    /// # Errors
    /// [`Error::WouldBlock`], [`Error::Busy`] and [`Error::ObjectBusy`]: it is not known yet.
    fn of(object: &Object<'_>) -> Result<Option<Granted>, Error> {
        let request = object.request();
        let asked = AccessMask::READ | AccessMask::LOOKUP | AccessMask::MODIFY | AccessMask::EXECUTE;
        let granted = match object.volume.access(&request, object.ino, AccessMask(asked)) {
            Ok(granted) => granted,
            Err(Failure { error: error @ (Error::WouldBlock | Error::Busy | Error::ObjectBusy), .. }) => {
                return Err(error);
            }
            Err(_) => return Ok(None),
        };
        let (mask, attributes) = (granted.value.granted.0, granted.value.attributes);
        Ok(Some(Granted {
            mask,
            owns: request.credentials.uid == 0 || request.credentials.uid == attributes.uid,
            is_sticky: attributes.mode & STICKY != 0,
            is_durable: object.volume.durability(granted.after) != Durable::NotYet,
        }))
    }

    fn has_any(&self, mask: u32) -> bool {
        self.mask & mask != 0
    }

    fn changes_names(&self) -> bool {
        self.has_any(AccessMask::MODIFY) && self.has_any(AccessMask::LOOKUP)
    }

    /// Refuses the operation, once what it shows is durable.
    fn refuse(&self, error: Error) -> Result<(), Error> {
        Err(if self.is_durable { error } else { Error::ObjectBusy })
    }
}

impl Right<'_, '_> {
    /// Returns the right to set attributes.
    pub(crate) fn to_set(attributes: &SetAttributes) -> Self {
        if attributes.need_owner() { Right::Own } else { Right::Write }
    }

    /// Checks that the caller has the right for `object`.
    ///
    /// # Errors
    /// [`Error::AccessDenied`] and [`Error::NotPermitted`]; [`Error::WouldBlock`], [`Error::Busy`] and [`Error::ObjectBusy`] if
    /// that is not known yet.
    fn check(self, object: &Object<'_>) -> Result<(), Error> {
        let at = match self {
            Right::None => return Ok(()),
            Right::Read | Right::Write | Right::Own => object,
            Right::AddTo(directory) | Right::RemoveFrom(directory) => directory,
        };
        let Some(granted) = Granted::of(at)? else { return Ok(()) };
        let suffices = match self {
            Right::None => true,
            Right::Read => granted.owns || granted.has_any(AccessMask::READ | AccessMask::EXECUTE),
            Right::Write => granted.owns || granted.has_any(AccessMask::MODIFY),
            Right::Own => granted.owns,
            Right::AddTo(_) | Right::RemoveFrom(_) => granted.changes_names(),
        };
        if !suffices {
            let is_owners = matches!(self, Right::Own);
            return granted.refuse(if is_owners { Error::NotPermitted } else { Error::AccessDenied });
        }
        if matches!(self, Right::RemoveFrom(_)) && granted.is_sticky && !granted.owns {
            match Granted::of(object)? {
                Some(removed) if !removed.owns => return removed.refuse(Error::NotPermitted),
                _ => {}
            }
        }
        Ok(())
    }
}

/// Recalls delegations for one caller.
pub(crate) struct Recaller<'a, 'c> {
    pub(crate) state: &'a SharedState,
    pub(crate) context: Context<'a>,
    /// The client of the caller's session. Its own delegations do not conflict.
    pub(crate) client: Option<&'c Arc<Client>>,
}

impl<'a> Recaller<'a, '_> {
    /// Recalls delegations that conflict with an operation on `object`, which needs `right`. Hold the guard until a change is
    /// done.
    ///
    /// # Errors
    /// [`StateError::TryLater`] until they are gone; if there are some, those of [`Right::check`].
    pub(crate) fn object(
        &self,
        object: &Object<'_>,
        conflict: ConflictKind,
        right: Right<'_, '_>,
    ) -> Result<InFlightModification<'a>, StateError> {
        let file = object.file_id();
        let in_flight = match conflict {
            ConflictKind::Read => InFlightModification::NONE,
            // The change is refused.
            ConflictKind::Modify if object.export.read_only => return Ok(InFlightModification::NONE),
            ConflictKind::Modify => self.state.begin_modification(file),
        };
        if self.state.is_delegated_to_others(self.client, file, conflict) {
            right.check(object)?;
            self.state.recall_from_others(&self.context, self.client, file, conflict)?;
        }
        Ok(in_flight)
    }

    /// Checks share reservations and recalls delegations that conflict with I/O on `file` without an open: it must respect both
    /// (RFC 7530 section 9.9). `host` is the address of an NFSv3 caller. Hold the guard until the I/O is done.
    ///
    /// # Errors
    /// Those of [`Recaller::object`] and [`SharedState::check_shares`].
    pub(crate) fn io(
        &self,
        file: &Object<'_>,
        wanted: IoMode,
        host: Option<IpAddr>,
    ) -> Result<InFlightModification<'a>, StateError> {
        let right = match wanted {
            IoMode::Write if file.export.read_only => return Ok(InFlightModification::NONE),
            IoMode::Write => Right::Write,
            IoMode::Read => Right::Read,
        };
        if self.state.has_denials() {
            right.check(file)?;
            self.state.check_shares(&self.context, file.file_id(), wanted, host)?;
        }
        self.object(file, wanted.into(), right)
    }

    /// Recalls delegations of the object that is about to lose the name `name`.
    ///
    /// # Errors
    /// Those of [`Recaller::object`]; [`Error::WouldBlock`], [`Error::Busy`] and [`Error::ObjectBusy`] if the name cannot be
    /// looked up now.
    pub(crate) fn name(
        &self,
        directory: &Object<'_>,
        name: &[u8],
    ) -> Result<InFlightModification<'a>, StateError> {
        if directory.export.read_only {
            return Ok(InFlightModification::NONE);
        }
        let in_flight = self.state.begin_modification_of_name(directory.file_id());
        if !self.state.has_delegations() {
            return Ok(in_flight);
        }
        match found(directory.volume.lookup(&directory.request(), directory.ino, name))? {
            Some(ino) => {
                let right = Right::RemoveFrom(directory);
                self.object(&directory.beside(ino), ConflictKind::Modify, right)
            }
            None => Ok(in_flight),
        }
    }

    /// What an operation on a name in `directory` does when it is done.
    pub(crate) fn post_op(&self, directory: &Object<'_>) -> PostOpRecall<'a> {
        let Recaller { state, context, client } = *self;
        PostOpRecall { state, context, client: client.cloned(), volume: directory.volume.id() }
    }
}

/// Returns the object that was looked up. If there is none, nothing is recalled, and the operation reports the error.
///
/// # Errors
/// [`Error::WouldBlock`], [`Error::Busy`] and [`Error::ObjectBusy`]: it is not known yet.
fn found(looked: Answer<Found>) -> Result<Option<Ino>, Error> {
    match looked {
        Ok(found) => Ok(Some(found.value.attributes.ino)),
        Err(Failure { error: error @ (Error::WouldBlock | Error::Busy | Error::ObjectBusy), .. }) => {
            Err(error)
        }
        Err(_) => Ok(None),
    }
}

/// Recalls delegations after an operation on a name.
///
/// Since the lookup, another file may have taken the name and been delegated. The holder of that delegation does not
/// look up the name again, so a late recall is better than none.
pub(crate) struct PostOpRecall<'a> {
    state: &'a SharedState,
    context: Context<'a>,
    client: Option<Arc<Client>>,
    volume: VolumeId,
}

impl PostOpRecall<'_> {
    /// A name was removed.
    pub(crate) fn removed(&self, removed: &Removed) {
        self.recall(removed.object);
    }

    /// An object was renamed, perhaps over another one.
    pub(crate) fn moved(&self, renamed: &Renamed) {
        self.recall(renamed.object);
        if let Some(replaced) = renamed.replaced {
            self.recall(replaced);
        }
    }

    fn recall(&self, ino: Ino) {
        let file = FileId { volume: self.volume, ino };
        self.state.recall_late(&self.context, self.client.as_ref(), file);
    }
}

impl<'a> Call<'a> {
    /// Recalls delegations for an operation of NFSv3.
    pub(crate) fn recaller(&self) -> Recaller<'a, 'static> {
        let (state, context) = (&self.service.shared.state, self.service.state_context(self.now));
        Recaller { state, context, client: None }
    }

    /// Does what [`Recaller::io`] does for NFSv3.
    ///
    /// # Errors
    /// NFS3ERR_JUKEBOX while something conflicts; NFS3ERR_ACCES if the caller may not do it anyway.
    pub(crate) fn check_io(
        &self,
        file: &Object<'a>,
        wanted: IoMode,
    ) -> Result<InFlightModification<'a>, Stop> {
        Ok(self.recaller().io(file, wanted, Some(self.client()))?)
    }

    /// Does the same for the file of a name, if there is one, which is about to be truncated. Only the file that is
    /// returned may be truncated, even if another one has taken the name: that one was not checked.
    ///
    /// # Errors
    /// Those of [`Call::check_io`].
    pub(crate) fn check_truncate_conflicts(
        &self,
        directory: &Object<'a>,
        name: &[u8],
    ) -> Result<(Option<Ino>, InFlightModification<'a>), Stop> {
        let looked = directory.volume.lookup(&directory.request(), directory.ino, name);
        let known = found(looked).map_err(StateError::from)?;
        let in_flight = known.map(|ino| self.check_io(&directory.beside(ino), IoMode::Write)).transpose()?;
        Ok((known, in_flight.unwrap_or(InFlightModification::NONE)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_cannot_be_looked_up_yet_is_not_missing() {
        let later = |error| Stop::from(StateError::from(error));
        for error in [Error::WouldBlock, Error::Busy, Error::ObjectBusy] {
            assert_eq!(found(Err(error.into())), Err(error));
        }
        assert_eq!(
            [Error::WouldBlock, Error::Busy, Error::ObjectBusy].map(later),
            [Stop::WouldBlock, Stop::Busy(None), Stop::Later]
        );
        for error in [Error::NoEntry, Error::Stale, Error::NotDirectory] {
            assert_eq!(found(Err(error.into())), Ok(None));
        }
    }
}
