//! READDIR and READDIRPLUS (RFC 1813 sections 3.3.16 and 3.3.17).

use std::ops::ControlFlow;
use std::sync::Arc;

use super::check_directory;
use crate::api::ids::{Cookie, Ino, ObjectId};
use crate::api::request::{Access, Answer, Durability, Error, Failure, Promised, Request};
use crate::api::results::{Entry, Listing};
use crate::encoding::key;
use crate::encoding::record::{CookieRecord, InodeRecord};
use crate::pool::Subject;
use crate::tables::index::IndexError;
use crate::transaction::attempt::Stop;
use crate::transaction::permission;
use crate::transaction::permission::{EXECUTE, READ};
use crate::volume::Volume;

/// Cookies of the two names that every directory has.
const DOT: Cookie = Cookie(1);
const DOT_DOT: Cookie = Cookie(2);

/// Most removed names that one call passes over: a millisecond's work.
const REMOVED_NAMES_MAX: usize = 4096;

impl Volume {
    /// Returns up to `max` names after `cookie` (zero: from the start), in the order of their creation; with `plus`,
    /// with the attributes that can be read: an object whose record is lost does not hide other names. Who may read the
    /// directory but not search it gets names only, as LOOKUP would be refused. Names removed or added meanwhile may or may not
    /// show; all others show exactly once.
    ///
    /// # Errors
    /// `BadCookie` for a cookie that was never handed out; `WouldBlock` with [`Access::Cached`], as it always reads
    /// media, and when more than [`REMOVED_NAMES_MAX`] names in a row are removed: another call goes on after them.
    pub fn read_directory(
        &self,
        request: &Request<'_>,
        directory: Ino,
        cookie: Cookie,
        max: usize,
        plus: bool,
    ) -> Answer<Listing> {
        let id = self.object(directory);
        if request.access == Access::Cached {
            return Err(Error::WouldBlock.into());
        }
        let parent = self.run(request.access, |attempt| {
            let state = attempt.lock(id)?;
            let fail = |error| Stop::Failed(Failure { error, after: state.durability() });
            check_directory(state.record()).map_err(fail)?;
            permission::check(request.credentials, state.record(), READ).map_err(fail)?;
            if cookie >= state.record().next_cookie {
                return Err(fail(Error::BadCookie));
            }
            let may_search = permission::check(request.credentials, state.record(), EXECUTE).is_ok();
            Ok(Promised { value: (state.record().parent, may_search), after: state.durability() })
        })?;
        let (dot_dot, may_search) = parent.value;
        let mut entries = Vec::new();
        for (own, name, ino) in [(DOT, &b"."[..], directory), (DOT_DOT, &b".."[..], dot_dot)] {
            if cookie < own && entries.len() < max {
                entries.push(Entry::new(ino, own, Arc::from(name)));
            }
        }
        let end = self.add_names(id, cookie, max, &mut entries)?;
        let mut after = parent.after;
        if plus && may_search {
            after = after.and(self.add_attributes(request, &mut entries)?);
        } else if plus {
            entries.iter_mut().for_each(|entry| entry.withheld = Some(Error::AccessDenied));
        }
        // Read last: each name that was seen was added under the directory's lock, which also noted its entry there.
        let own = self.attributes(request, directory)?;
        let listing = Listing { entries, end, may_search, directory: own.value };
        Ok(Promised { value: listing, after: after.and(own.after) })
    }

    /// Adds the names after `cookie`; returns whether they are the last.
    fn add_names(
        &self,
        directory: ObjectId,
        cookie: Cookie,
        max: usize,
        entries: &mut Vec<Entry>,
    ) -> Result<bool, Error> {
        let next = Cookie(cookie.0 + 1).max(Cookie::FIRST);
        let first = self.after_removed_names(directory, next);
        let room = max - entries.len();
        let of = Subject::Object(directory);
        let cookie_of = |key: &[u8]| {
            let number = key::parse(key).and_then(|(_, _, fields)| key::second_number(fields));
            number.map(Cookie).ok_or_else(|| self.report(of, &"a name's key is malformed"))
        };
        let (from, to) = (key::cookie(directory, first), key::cookie(directory, Cookie(u64::MAX)));
        let (found, rest) = self
            .view()
            .scan_some(&from, &to, room + 1, REMOVED_NAMES_MAX)
            .map_err(|error| self.index_failed(of, &error))?;
        for (key, value) in found.iter().take(room) {
            let record = self.decode(of, CookieRecord::decode(value))?;
            entries.push(Entry::new(record.ino, cookie_of(key)?, record.name));
        }
        match rest {
            None => Ok(found.len() <= room),
            Some(_) if !found.is_empty() => Ok(false),
            Some(rest) => {
                self.note_removed_names(directory, next, cookie_of(&rest)?);
                Err(Error::WouldBlock)
            }
        }
    }

    /// Returns the first cookie from `cookie` on that may have a name, as far as is known.
    fn after_removed_names(&self, directory: ObjectId, cookie: Cookie) -> Cookie {
        let Some(cell) = self.inodes.peek(directory) else { return cookie };
        let state = cell.lock();
        state.notes.as_ref().map_or(cookie, |notes| notes.removed_names.after(cookie))
    }

    /// Notes that no name has a cookie of this range.
    fn note_removed_names(&self, directory: ObjectId, from: Cookie, to: Cookie) {
        let Some(cell) = self.inodes.peek(directory) else { return };
        let mut state = cell.lock();
        state.notes.get_or_insert_default().removed_names.note(from..to);
        self.inodes.count_notes(&mut state);
    }

    fn add_attributes(&self, request: &Request<'_>, entries: &mut [Entry]) -> Result<Durability, Failure> {
        self.add_attributes_of_index(entries)?;
        let mut after = Durability::NOW;
        for entry in entries.iter_mut().filter(|entry| entry.attributes.is_none()) {
            match self.attributes(request, entry.ino) {
                Ok(promised) => {
                    entry.attributes = Some(promised.value);
                    after = after.and(promised.after);
                }
                // Removed since the name was read.
                Err(Failure { error: Error::Stale, after: removed }) => after = after.and(removed),
                Err(Failure { error: Error::Io, after: lost }) => {
                    entry.withheld = Some(Error::Io);
                    after = after.and(lost);
                }
                Err(failure) => return Err(failure),
            }
        }
        Ok(after)
    }

    /// Adds the attributes of objects that only the index knows, in its order: listing a large directory would
    /// otherwise evict all other inodes. What the index says is durable. An object changed meanwhile may show a state
    /// from after the names were read. Objects after one whose record cannot be read are left without.
    fn add_attributes_of_index(&self, entries: &mut [Entry]) -> Result<(), Error> {
        /// Inodes this close to each other are read in one scan, including those between them.
        const NEAR: u64 = 8;
        let view = self.view();
        let only_in_index = |ino: Ino| {
            let id = self.object(ino);
            self.inodes.peek(id).is_none() && view.recent(&key::inode(id)).is_none()
        };
        let mut wanted: Vec<(Ino, usize)> = (entries.iter().enumerate())
            .filter(|(_, entry)| only_in_index(entry.ino))
            .map(|(place, entry)| (entry.ino, place))
            .collect();
        wanted.sort_unstable();
        for near in wanted.chunk_by(|(a, _), (b, _)| b.0 - a.0 <= NEAR) {
            let (Some((first, _)), Some((last, _))) = (near.first(), near.last()) else { continue };
            let mut rest = near.iter().peekable();
            let scanned = view.index.scan(
                &key::inode(self.object(*first)),
                &key::inode(self.object(*last).next()),
                &mut |key, value| {
                    let ino =
                        key::parse(key).and_then(|(_, _, fields)| key::number(fields)).map_or(*last, Ino);
                    while rest.next_if(|(wanted, _)| *wanted < ino).is_some() {}
                    // Several names may name one object.
                    while let Some((_, place)) = rest.next_if(|(wanted, _)| *wanted == ino) {
                        entries[*place].attributes =
                            InodeRecord::decode(value).ok().map(|record| record.attributes(ino));
                    }
                    ControlFlow::Continue(())
                },
            );
            match scanned {
                // Each of the rest is read by itself, which also reports the damage.
                Ok(()) | Err(IndexError::Corrupt(_) | IndexError::Io(_)) => {}
                Err(error) => return Err(self.index_failed(Subject::Object(self.object(*first)), &error)),
            }
        }
        Ok(())
    }
}
