//! Recalls the delegations of NFSv4 clients that an operation of any version conflicts with.
//!
//! The operation is refused until they are gone, and its client tries again. NFSv3 data operations respect share
//! reservations in the same way. Without delegations and share denials, this costs two loads of counters.

use std::sync::Arc;

use volume::ids::{Ino, VolumeId};
use volume::request::{Answer, Error, Failure};
use volume::results::{Found, Removed, Renamed};
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
            StateError::Engine(Error::WouldBlock) => Stop::WouldBlock,
            StateError::Engine(Error::Busy) => Stop::Busy,
            StateError::Engine(_) => Stop::Later,
            _ => Stop::Status(NfsStat3::Jukebox),
        }
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
    /// Recalls delegations that conflict with an operation on `object`. Hold the guard until a change is done.
    ///
    /// # Errors
    /// [`StateError::TryLater`] until they are gone.
    pub(crate) fn object(
        &self,
        object: &Object<'_>,
        conflict: ConflictKind,
    ) -> Result<InFlightModification<'a>, StateError> {
        if conflict == ConflictKind::Read && !self.state.has_delegations() {
            return Ok(InFlightModification::NONE);
        }
        self.state.check_delegations(&self.context, self.client, object.file_id(), conflict)
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
        let in_flight = self.state.begin_modification_of_name(directory.file_id());
        if !self.state.has_delegations() {
            return Ok(in_flight);
        }
        match found(directory.volume.lookup(&directory.request(), directory.ino, name))? {
            Some(ino) => self.object(&directory.beside(ino), ConflictKind::Modify),
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

    /// Checks share reservations and recalls delegations that conflict with I/O on `file`: an operation without an open
    /// must respect both (RFC 7530 section 9.9).
    ///
    /// # Errors
    /// NFS3ERR_JUKEBOX while something conflicts.
    pub(crate) fn check_io(
        &self,
        file: &Object<'a>,
        wanted: IoMode,
    ) -> Result<InFlightModification<'a>, Stop> {
        let recaller = self.recaller();
        recaller.state.check_shares(&recaller.context, file.file_id(), wanted, Some(self.client()))?;
        Ok(recaller.object(file, wanted.into())?)
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
            [Stop::WouldBlock, Stop::Busy, Stop::Later]
        );
        for error in [Error::NoEntry, Error::Stale, Error::NotDirectory] {
            assert_eq!(found(Err(error.into())), Ok(None));
        }
    }
}
