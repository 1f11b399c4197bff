//! What an operation of any version does before it touches a file of which an NFSv4 client may have a delegation: it
//! recalls that, and asks its own client to come again. So does one on data that a share reservation denies.
//!
//! As long as there is no delegation at all, and nobody denies anything, this costs a look at two counters.

use volume::request::Answer;
use volume::results::Found;
use wire::nfs3::NfsStat3;

use crate::call::{Call, Object, Stop};
use crate::v4::held::file_of;
use crate::v4::state::changing::Changing;
use crate::v4::state::delegations::Touch;
use crate::v4::state::stateids::Use;
use crate::v4::state::{Caller, Refusal, State};

/// What a name in a directory stands for, if anything may be delegated at all.
pub(crate) fn named(state: &State, directory: &Object<'_>, name: &[u8]) -> Option<Answer<Found>> {
    state.has_delegations().then(|| directory.volume.lookup(&directory.request(), directory.ino, name))
}

impl<'a> Call<'a> {
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

    /// The same for the file of a name, if there is one, which is about to be cut.
    ///
    /// # Errors
    /// NFS3ERR_JUKEBOX until nothing is in the way.
    pub(crate) fn check_cut_of(&self, directory: &Object<'a>, name: &[u8]) -> Result<Changing<'a>, Stop> {
        let state = &self.service.shared.state;
        let changing = state.changing_name(file_of(directory));
        if !state.has_delegations() && !state.has_denials() {
            return Ok(changing);
        }
        match directory.volume.lookup(&directory.request(), directory.ino, name) {
            Ok(found) => self.check_use(&directory.beside(found.value.attributes.ino), Use::Write),
            Err(_) => Ok(changing),
        }
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
        match named(state, directory, name) {
            Some(Ok(found)) => {
                self.check_delegations(&directory.beside(found.value.attributes.ino), Touch::Change)
            }
            // Without it there is nothing to recall; the operation itself says what is wrong.
            Some(Err(_)) | None => Ok(changing),
        }
    }
}
