//! COMMIT (RFC 1813 section 3.3.21).

use crate::api::attributes::FileType;
use crate::api::ids::Ino;
use crate::api::request::{Answer, Durability, Error, Failure, Promised, Request};
use crate::api::results::Committed;
use crate::transaction::attempt::Stop;
use crate::transaction::permission::check_write;
use crate::volume::Volume;

impl Volume {
    /// Makes the unstable data of a file stable. Commits the whole file, whatever range is given: that is allowed,
    /// and the rest would follow soon anyway. A small amount goes into the journal at once.
    pub fn commit(&self, request: &Request<'_>, ino: Ino, _offset: u64, _count: u32) -> Answer<Committed> {
        let ino = self.object(ino);
        self.run(request.access, |attempt| {
            let mut state = attempt.lock(ino)?;
            let fail = |error, after| Stop::Failed(Failure { error, after });
            if state.record().file_type != FileType::Regular {
                return Err(fail(Error::Invalid, state.durability()));
            }
            check_write(request.credentials, state.record())
                .map_err(|error| fail(error, state.durability()))?;
            let verifier = self.write_verifier();
            if self.fits_an_entry(&state) {
                self.save_inline(attempt, &mut state)?;
            } else {
                if self.refuses_changes().is_some() {
                    return Err(fail(Error::ReadOnly, Durability::NOW));
                }
                state.flush_generation = self.write_back.request(ino);
            }
            let file = state.attributes().unchanged();
            Ok(Promised { value: Committed { verifier, file }, after: state.durability() })
        })
    }
}
