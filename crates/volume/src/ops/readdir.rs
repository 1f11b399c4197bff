//! READDIR and READDIRPLUS (RFC 1813 sections 3.3.16 and 3.3.17).

use std::sync::Arc;

use super::check_directory;
use crate::access::{self, READ};
use crate::attempt::Stop;
use crate::ids::{Cookie, Ino};
use crate::key;
use crate::open::FIRST_COOKIE;
use crate::record::CookieRecord;
use crate::request::{Access, Answer, Durability, Error, Failure, Promised, Request};
use crate::results::{Entry, Listing};
use crate::volume::Volume;

/// Cookies of the two names that every directory has.
const DOT: Cookie = Cookie(1);
const DOT_DOT: Cookie = Cookie(2);

/// Cookies never change and are never reused, so the verifier that would tell that they did is always the same.
const COOKIE_VERIFIER: [u8; 8] = *b"forever\0";

impl Volume {
    /// The names after `cookie` (zero: from the start), at most `most`, in the order in which they were made; with
    /// `plus`, with attributes. What is removed or made meanwhile may or may not show; all else shows once.
    ///
    /// # Errors
    /// `BadCookie` for a cookie that was never handed out. It always reads media: with [`Access::Cached`] it is
    /// `WouldBlock`.
    pub fn read_directory(
        &self,
        request: &Request<'_>,
        directory: Ino,
        cookie: Cookie,
        most: usize,
        plus: bool,
    ) -> Answer<Listing> {
        if request.access == Access::Cached {
            return Err(Error::WouldBlock.into());
        }
        let parent = self.run(request.access, |attempt| {
            let state = attempt.lock(directory)?;
            let fail = |error| Stop::Failed(Failure { error, after: state.durability() });
            check_directory(state.record()).map_err(fail)?;
            access::check(request.credentials, state.record(), READ).map_err(fail)?;
            if cookie >= state.record().next_cookie {
                return Err(fail(Error::BadCookie));
            }
            Ok(Promised { value: state.record().parent, after: state.durability() })
        })?;
        let mut entries = Vec::new();
        for (own, name, ino) in [(DOT, &b"."[..], directory), (DOT_DOT, &b".."[..], parent.value)] {
            if cookie < own && entries.len() < most {
                entries.push(Entry { ino, cookie: own, name: Arc::from(name), attributes: None });
            }
        }
        let end = self.add_names(directory, cookie, most, &mut entries)?;
        let mut after = parent.after;
        if plus {
            after = after.and(self.add_attributes(request, &mut entries)?);
        }
        // Only now, as each name that was seen was entered under the directory's lock, with its entry noted there.
        let own = self.attributes(request, directory)?;
        let listing = Listing { entries, end, verifier: COOKIE_VERIFIER, directory: own.value };
        Ok(Promised { value: listing, after: after.and(own.after) })
    }

    /// Adds the names behind `cookie`; returns whether they are the last.
    fn add_names(
        &self,
        directory: Ino,
        cookie: Cookie,
        most: usize,
        entries: &mut Vec<Entry>,
    ) -> Result<bool, Error> {
        let first = Cookie(cookie.0 + 1).max(FIRST_COOKIE);
        let room = most - entries.len();
        let (from, to) = (key::cookie(directory, first), key::cookie(directory, Cookie(u64::MAX)));
        let found = self.layers().scan(&from, &to, room + 1).map_err(|error| self.index_failed(&error))?;
        for (key, value) in found.iter().take(room) {
            let record = self.decode(CookieRecord::decode(value))?;
            let number = key::parse(key).and_then(|(_, _, fields)| key::second_number(fields));
            let cookie = Cookie(number.ok_or_else(|| self.report(&"a name's key is malformed"))?);
            entries.push(Entry { ino: record.ino, cookie, name: record.name, attributes: None });
        }
        Ok(found.len() <= room)
    }

    fn add_attributes(&self, request: &Request<'_>, entries: &mut [Entry]) -> Result<Durability, Failure> {
        let mut after = Durability::NOW;
        for entry in entries {
            match self.attributes(request, entry.ino) {
                Ok(promised) => {
                    entry.attributes = Some(promised.value);
                    after = after.and(promised.after);
                }
                // Removed since the name was read.
                Err(Failure { error: Error::Stale, after: removed }) => after = after.and(removed),
                Err(failure) => return Err(failure),
            }
        }
        Ok(after)
    }
}
