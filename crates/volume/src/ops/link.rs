//! LINK (RFC 1813 section 3.3.15).

use super::{check_directory, is_dot};
use crate::api::attributes::{FileType, Wcc};
use crate::api::ids::Ino;
use crate::api::request::{Answer, Encode, Error, Promised, Request};
use crate::api::results::Linked;
use crate::limits::LINKS_MAX;
use crate::transaction::permission;
use crate::transaction::permission::EXECUTE;
use crate::volume::{Volume, check_name};

impl Volume {
    /// Adds a name to an object other than a directory.
    pub fn link(
        &self,
        request: &Request<'_>,
        ino: Ino,
        directory: Ino,
        name: &[u8],
        encode: Encode<'_, Linked>,
    ) -> Answer<Linked> {
        let ino = self.object(ino);
        let directory = self.object(directory);
        if is_dot(name) {
            return Err(Error::Exists.into());
        }
        check_name(name)?;
        let who = request.credentials;
        self.run(request.access, |attempt| {
            let (mut held, [found]) = attempt.lock_names([(directory, name)], &[ino])?;
            let parent = held.get(directory);
            let old = parent.record().clone();
            let before = parent.attributes().before();
            let object = held.get(ino).record().clone();
            let checked =
                check_directory(&old).and_then(|()| permission::check(who, &old, EXECUTE)).and_then(|()| {
                    if found.is_some() {
                        return Err(Error::Exists);
                    }
                    if object.file_type == FileType::Directory {
                        return Err(Error::NotPermitted);
                    }
                    permission::check_change_names(who, &old)?;
                    if object.links == 0 {
                        return Err(Error::NoEntry);
                    }
                    if object.links >= LINKS_MAX {
                        return Err(Error::TooManyLinks);
                    }
                    if object.tree == old.tree { Ok(()) } else { Err(Error::CrossDevice) }
                });
            if let Err(error) = checked {
                return Err(held.fail(error));
            }
            let growth = self.reserve_name(request, &object).map_err(|stop| held.or_fail(stop))?;
            let mut change = self.begin()?;
            let (stamp, _) = self.committer.stamp(request.now);
            let record =
                self.add_name(&mut change, (directory, &old), name, (ino.ino, object.file_type), stamp);
            let mut object = object;
            object.links += 1;
            self.touch(&mut object, stamp, false);
            change.add_further_names(1);
            change.add_growth(growth.keep());
            change.put_inode(ino, &object);
            change.put_inode(directory, &record);
            *held.get(ino).record_mut() = object;
            *held.get(directory).record_mut() = record;
            let attributes = held.get(ino).attributes();
            let linked =
                Linked { attributes, directory: Wcc { before, after: held.get(directory).attributes() } };
            let seq = change.commit_answered(request, held.durability(), &linked, encode);
            for changed in [ino, directory] {
                let state = held.get(changed);
                state.journaled(seq);
            }
            Ok(Promised { value: linked, after: held.durability() })
        })
    }
}
