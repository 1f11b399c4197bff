//! What an operation of any version does before it touches a file of which an NFSv4 client may have a delegation: it
//! recalls that, and asks its own client to come again. So does one on data that a share reservation denies.
//!
//! As long as there is no delegation at all, and nobody denies anything, this costs a look at two counters.

use std::sync::Arc;

use volume::ids::{Ino, VolumeId};
use volume::request::{Answer, Error, Failure};
use volume::results::{Found, Removed, Renamed};
use wire::nfs3::NfsStat3;

use crate::call::file_of;
use crate::call::{Call, Object, Stop};
use crate::state::changing::Changing;
use crate::state::client::Client;
use crate::state::delegations::Touch;
use crate::state::ids::FileId;
use crate::state::stateids::Use;
use crate::state::{Caller, Context, Refusal, State};
use crate::status;

/// What a name in a directory stands for, if anything may be delegated at all.
///
/// # Errors
/// Those of [`found`].
pub(crate) fn named(state: &State, directory: &Object<'_>, name: &[u8]) -> Result<Option<Ino>, Error> {
    if !state.has_delegations() {
        return Ok(None);
    }
    found(directory.volume.lookup(&directory.request(), directory.ino, name))
}

/// What was looked up. If there is nothing, nothing is to be recalled; the operation itself says what is wrong.
///
/// # Errors
/// That it is not known yet: `WouldBlock` and `Busy`.
fn found(looked: Answer<Found>) -> Result<Option<Ino>, Error> {
    match looked {
        Ok(found) => Ok(Some(found.value.attributes.ino)),
        Err(Failure { error: error @ (Error::WouldBlock | Error::Busy), .. }) => Err(error),
        Err(_) => Ok(None),
    }
}

/// It is not known yet what there is to recall.
fn later(error: Error) -> Stop {
    status::nfs3(error).map_or_else(Stop::from, Stop::Status)
}

/// What an operation on a name does when it is done.
///
/// Others may have given the name to another file since it was looked up, and had that delegated. Who has it delegated does
/// not ask what its name stands for any more: it is recalled late rather than never.
pub(crate) struct Afterwards<'a> {
    pub(crate) state: &'a State,
    pub(crate) context: Context<'a>,
    /// The client of the session that it came by.
    pub(crate) client: Option<Arc<Client>>,
    pub(crate) volume: VolumeId,
}

impl Afterwards<'_> {
    /// A name was taken away.
    pub(crate) fn removed(&self, removed: &Removed) {
        self.recall(removed.object);
    }

    /// A name was taken from an object and given to it again elsewhere, where it may have been another's.
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
    /// See [`Afterwards`].
    pub(crate) fn afterwards(&self, directory: &Object<'a>) -> Afterwards<'a> {
        let (state, context) = (&self.service.shared.state, self.service.context(self.now));
        Afterwards { state, context, client: None, volume: directory.volume.id() }
    }

    /// Recalls the delegations that are in the way of an operation of NFSv3. What is returned is kept until a change is
    /// done.
    ///
    /// # Errors
    /// NFS3ERR_JUKEBOX until they are gone.
    pub(crate) fn check_delegations(&self, object: &Object<'a>, touch: Touch) -> Result<Changing<'a>, Stop> {
        let state = &self.service.shared.state;
        if touch == Touch::Read && !state.has_delegations() {
            return Ok(Changing::NOTHING);
        }
        let context = self.service.context(self.now);
        match state.check_delegations(&context, Caller::Unknown, file_of(object), touch) {
            Ok(changing) => Ok(changing),
            Err(Refusal::Status(_)) => Err(Stop::Status(NfsStat3::Jukebox)),
            Err(Refusal::Engine(_)) => Err(Stop::Busy),
        }
    }

    /// The same for an operation of NFSv3 on the data of a file, with which share reservations interfere too: an operation
    /// without an open must heed them (RFC 7530 section 9.9).
    ///
    /// # Errors
    /// NFS3ERR_JUKEBOX until nothing is in the way.
    pub(crate) fn check_use(&self, file: &Object<'a>, wanted: Use) -> Result<Changing<'a>, Stop> {
        let (state, context) = (&self.service.shared.state, self.service.context(self.now));
        match state.check_shares(&context, file_of(file), wanted, Some(self.client())) {
            Ok(()) => self.check_delegations(file, wanted.into()),
            Err(Refusal::Status(_)) => Err(Stop::Status(NfsStat3::Jukebox)),
            Err(Refusal::Engine(_)) => Err(Stop::Busy),
        }
    }

    /// The same for the file of a name, if there is one, which is about to be cut. No other may be cut than the one that is
    /// returned, even if it has taken the name: nobody has looked who holds that.
    ///
    /// # Errors
    /// NFS3ERR_JUKEBOX until nothing is in the way.
    pub(crate) fn check_cut_of(
        &self,
        directory: &Object<'a>,
        name: &[u8],
    ) -> Result<(Option<Ino>, Changing<'a>), Stop> {
        let looked = directory.volume.lookup(&directory.request(), directory.ino, name);
        let known = found(looked).map_err(later)?;
        let changing = known.map(|ino| self.check_use(&directory.beside(ino), Use::Write)).transpose()?;
        Ok((known, changing.unwrap_or(Changing::NOTHING)))
    }

    /// The same for what a name stands for, which is about to lose that name.
    ///
    /// # Errors
    /// NFS3ERR_JUKEBOX until they are gone.
    pub(crate) fn check_delegations_of(
        &self,
        directory: &Object<'a>,
        name: &[u8],
    ) -> Result<Changing<'a>, Stop> {
        let state = &self.service.shared.state;
        let changing = state.changing_name(file_of(directory));
        match named(state, directory, name).map_err(later)? {
            Some(ino) => self.check_delegations(&directory.beside(ino), Touch::Change),
            None => Ok(changing),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_cannot_be_looked_up_yet_is_not_one_that_stands_for_nothing() {
        for error in [Error::WouldBlock, Error::Busy] {
            assert_eq!(found(Err(error.into())).map_err(later), Err(later(error)));
        }
        assert_eq!((later(Error::WouldBlock), later(Error::Busy)), (Stop::WouldBlock, Stop::Busy));
        for error in [Error::NoEntry, Error::Stale, Error::NotDirectory] {
            assert_eq!(found(Err(error.into())), Ok(None));
        }
    }
}
