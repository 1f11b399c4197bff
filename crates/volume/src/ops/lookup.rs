//! LOOKUP (RFC 1813 section 3.3.3).

use super::access::granted;
use super::check_directory;
use crate::api::attributes::Attributes;
use crate::api::ids::Ino;
use crate::api::request::{Answer, Error, Failure, Promised, Request};
use crate::api::results::{AccessMask, Accessible, Found, FoundHeld};
use crate::file::inodes::InodeState;
use crate::transaction::attempt::Stop;
use crate::transaction::permission;
use crate::transaction::permission::EXECUTE;
use crate::volume::{Volume, check_name};

impl Volume {
    /// Returns the parent of a directory (LOOKUPP, RFC 7530 section 16.14); the root has none.
    pub fn lookup_parent(&self, request: &Request<'_>, directory: Ino) -> Answer<Found> {
        if directory == Ino::ROOT {
            return Err(Error::NoEntry.into());
        }
        self.lookup(request, directory, b"..")
    }

    /// Returns what a name in a directory refers to; `.` and `..` are the directory and its parent.
    pub fn lookup(&self, request: &Request<'_>, directory: Ino, name: &[u8]) -> Answer<Found> {
        self.look_up(request, directory, name, |object, directory| Found {
            attributes: object.attributes(),
            directory,
        })
    }

    /// Does what [`Volume::lookup`] does, holds the object ([`Volume::hold`]) while it has the name, and returns which of the
    /// `wanted` permissions the caller has.
    pub fn lookup_and_hold(
        &self,
        request: &Request<'_>,
        directory: Ino,
        name: &[u8],
        wanted: AccessMask,
    ) -> Answer<FoundHeld> {
        self.look_up(request, directory, name, |object, directory| {
            self.orphans.hold(object.id);
            let granted = AccessMask(granted(request.credentials, object.record()) & wanted.0);
            FoundHeld { object: Accessible { granted, attributes: object.attributes() }, directory }
        })
    }

    /// Looks up a name. `show` returns the result, from the locked object and the attributes of the directory.
    fn look_up<T>(
        &self,
        request: &Request<'_>,
        directory: Ino,
        name: &[u8],
        show: impl Fn(&InodeState, Attributes) -> T,
    ) -> Answer<T> {
        let directory = self.object(directory);
        self.run(request.access, |attempt| {
            let state = attempt.lock(directory)?;
            let after = state.durability();
            let fail = |error| Stop::Failed(Failure { error, after });
            check_directory(state.record()).map_err(fail)?;
            permission::check(request.credentials, state.record(), EXECUTE).map_err(fail)?;
            let directory_attributes = state.attributes();
            let ino = match name {
                b"." => directory.ino,
                b".." => state.record().parent,
                _ => {
                    check_name(name).map_err(fail)?;
                    attempt.name(directory, name)?.ok_or_else(|| fail(Error::NoEntry))?.ino
                }
            };
            // Two inodes are locked together only in order, so the name may be gone before its object is locked.
            drop(state);
            let object = match attempt.lock(directory.sibling(ino)) {
                Ok(object) => object,
                Err(Stop::Failed(Failure { error: Error::Stale, .. })) => return Err(Stop::Again),
                Err(stop) => return Err(stop),
            };
            Ok(Promised { value: show(&object, directory_attributes), after: after.and(object.durability()) })
        })
    }
}
