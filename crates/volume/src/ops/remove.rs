//! REMOVE and RMDIR (RFC 1813 sections 3.3.12 and 3.3.13).

use super::{check_directory, is_dot};
use crate::api::attributes::{FileType, Wcc};
use crate::api::ids::{Ino, ObjectId};
use crate::api::request::{Answer, Encode, Error, Promised, Request};
use crate::api::results::Removed;
use crate::transaction::permission;
use crate::transaction::permission::EXECUTE;
use crate::volume::{Volume, check_name};

impl Volume {
    /// Removes a name of anything but a directory. An object without names is gone at once; its data is freed in the
    /// background.
    pub fn remove(
        &self,
        request: &Request<'_>,
        directory: Ino,
        name: &[u8],
        encode: Encode<'_, Removed>,
    ) -> Answer<Removed> {
        let directory = self.object(directory);
        if is_dot(name) {
            return Err(Error::IsDirectory.into());
        }
        self.remove_name(request, directory, name, false, encode)
    }

    /// Removes an empty directory.
    pub fn remove_directory(
        &self,
        request: &Request<'_>,
        directory: Ino,
        name: &[u8],
        encode: Encode<'_, Removed>,
    ) -> Answer<Removed> {
        let directory = self.object(directory);
        match name {
            b"." => return Err(Error::Invalid.into()),
            b".." => return Err(Error::NotEmpty.into()),
            _ => {}
        }
        self.remove_name(request, directory, name, true, encode)
    }

    fn remove_name(
        &self,
        request: &Request<'_>,
        directory: ObjectId,
        name: &[u8],
        is_rmdir: bool,
        encode: Encode<'_, Removed>,
    ) -> Answer<Removed> {
        check_name(name)?;
        let who = request.credentials;
        self.run(request.access, |attempt| {
            let (mut held, [found]) = attempt.lock_names([(directory, name)], &[])?;
            let parent = held.get(directory);
            let old = parent.record().clone();
            let before = parent.attributes().before();
            if let Err(error) = check_directory(&old).and_then(|()| permission::check(who, &old, EXECUTE)) {
                return Err(held.fail(error));
            }
            let Some(found) = found else { return Err(held.fail(Error::NoEntry)) };
            let id = directory.sibling(found.ino);
            let object = held.get(id).record();
            let kind = match object.file_type {
                FileType::Directory if !is_rmdir => Err(Error::IsDirectory),
                FileType::Directory if object.entries > 0 => Err(Error::NotEmpty),
                FileType::Directory => Ok(()),
                _ if is_rmdir => Err(Error::NotDirectory),
                _ => Ok(()),
            };
            if let Err(error) = permission::check_remove(who, &old, object).and(kind) {
                return Err(held.fail(error));
            }
            let mut change = self.begin_freeing()?;
            let (stamp, _) = self.committer.stamp(request.now);
            let mut record = self.drop_name(&mut change, (directory, &old), name, &found, stamp);
            if is_rmdir {
                record.links -= 1;
            }
            let left = self.unlink(&mut change, held.get(id), stamp);
            change.put_inode(directory, &record);
            let wcc = Wcc { before, after: record.attributes(directory.ino) };
            let removed = Removed { directory: wcc, object: found.ino };
            let seq = change.commit_answered(request, held.durability(), &removed, encode);
            let object = held.get(id);
            self.set_unlinked(object, left);
            object.seq = seq;
            let parent = held.get(directory);
            *parent.record_mut() = record;
            parent.journaled(seq);
            Ok(Promised { value: removed, after: held.durability() })
        })
    }
}
