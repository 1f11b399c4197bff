//! Names. Each is stored twice, by name and by cookie; one record is restored from the other. A name that leads nowhere is
//! removed.

use super::pass::{Pass, each};
use crate::api::attributes::FileType;
use crate::api::ids::{Cookie, Ino};
use crate::encoding::key;
use crate::encoding::key::Table;
use crate::encoding::record::{CookieRecord, NameRecord};
use crate::tables::index::IndexError;
use crate::volume::check_name;

/// A name of a directory that has another, or lies elsewhere as its record says: of two, one is removed.
#[derive(Debug)]
pub(super) struct Later {
    directory: Ino,
    name: Box<[u8]>,
    cookie: Cookie,
    ino: Ino,
}

/// What a name says.
#[derive(Clone, Copy)]
struct Place<'n> {
    directory: Ino,
    name: &'n [u8],
    cookie: Cookie,
}

/// What is to become of a name.
enum Verdict {
    /// It names an object of this type.
    Keep(FileType),
    /// It leads nowhere, and why.
    Remove(String),
}

impl Pass<'_, '_> {
    /// Makes both records of each name agree, and counts what each directory holds.
    pub(super) fn mend_names(&mut self) -> Result<(), IndexError> {
        let view = self.view;
        each(view, self.volume, Table::Name, &mut |fields, value| self.visit_name(fields, value))?;
        each(view, self.volume, Table::Cookie, &mut |fields, value| self.visit_cookie(fields, value))?;
        for later in std::mem::take(&mut self.later) {
            let Later { directory, name, cookie, ino } = later;
            let is_free = self.objects.get(&ino).is_some_and(|object| object.names == 0);
            if is_free {
                self.enter(directory, cookie, ino);
            } else {
                let why = "it names a directory that has another name";
                self.remove_name(Place { directory, name: &name, cookie }, why)?;
            }
        }
        Ok(())
    }

    fn visit_name(&mut self, fields: &[u8], value: &[u8]) -> Result<(), IndexError> {
        let (Some((directory, name)), Ok(mut record)) =
            (fields.split_at_checked(8), NameRecord::decode(value))
        else {
            return Ok(());
        };
        let place =
            Place { directory: Ino(key::number(directory).unwrap_or(0)), name, cookie: record.cookie };
        let file_type = match self.judge(place, record.ino, Some(record.file_type))? {
            Verdict::Keep(file_type) => file_type,
            Verdict::Remove(why) => return self.remove_name(place, &why),
        };
        let listed = self.view.get(&key::cookie(self.volume.object(place.directory), record.cookie))?;
        let listed = listed.and_then(|listed| CookieRecord::decode(&listed).ok());
        let is_free = listed.as_ref().is_none_or(|listed| *listed.name == *name);
        let has_twin = listed.is_some_and(|listed| *listed.name == *name && listed.ino == record.ino);
        if record.cookie < Cookie::FIRST || !is_free {
            let floor = Cookie(Cookie::FIRST.0.saturating_add(self.stamp.seq.0));
            record.cookie = self.next_cookie(place.directory, floor);
        }
        let place = Place { cookie: record.cookie, ..place };
        if file_type != record.file_type
            || place.cookie != NameRecord::decode(value).map_or(Cookie(0), |old| old.cookie)
        {
            record.file_type = file_type;
            self.out.put(&key::name(self.volume.object(place.directory), name), &record.encode())?;
        }
        if !has_twin {
            self.put_cookie(place, record.ino)?;
            self.changes.tally.names_restored += 1;
        }
        self.enter_or_wait(place, record.ino);
        Ok(())
    }

    fn visit_cookie(&mut self, fields: &[u8], value: &[u8]) -> Result<(), IndexError> {
        let (Some(directory), Some(cookie), Ok(listed)) = (
            key::number(fields).map(Ino),
            key::second_number(fields).map(Cookie),
            CookieRecord::decode(value),
        ) else {
            return Ok(());
        };
        let name = &*listed.name;
        let mut place = Place { directory, name, cookie };
        if self.name_at(directory, cookie)?.is_none_or(|now| *now != *name) {
            // It went with its twin, or the place belongs to another name.
            return Ok(());
        }
        let twin = self.out.get(&key::name(self.volume.object(directory), name))?;
        if let Some(twin) = twin.and_then(|twin| NameRecord::decode(&twin).ok()) {
            if twin.cookie != cookie {
                self.out.delete(&key::cookie(self.volume.object(directory), cookie))?;
                self.changes.tally.records_dropped += 1;
            }
            return Ok(());
        }
        let file_type = match self.judge(place, listed.ino, None)? {
            Verdict::Keep(file_type) => file_type,
            Verdict::Remove(why) => return self.remove_name(place, &why),
        };
        if cookie < Cookie::FIRST {
            self.out.delete(&key::cookie(self.volume.object(directory), cookie))?;
            let floor = Cookie(Cookie::FIRST.0.saturating_add(self.stamp.seq.0));
            place.cookie = self.next_cookie(directory, floor);
            self.put_cookie(place, listed.ino)?;
        }
        self.put_name(place, listed.ino, file_type)?;
        self.changes.tally.names_restored += 1;
        self.enter_or_wait(place, listed.ino);
        Ok(())
    }

    /// Decides about a name. Makes records of objects that it proves to exist.
    fn judge(
        &mut self,
        place: Place<'_>,
        ino: Ino,
        named_type: Option<FileType>,
    ) -> Result<Verdict, IndexError> {
        let remove = |why: &str| Ok(Verdict::Remove(why.to_owned()));
        if check_name(place.name).is_err() || place.name == b"." || place.name == b".." {
            return remove("no client can use it");
        }
        if ino == Ino::ROOT {
            return remove("it names the root directory");
        }
        if !self.objects.contains_key(&place.directory) {
            self.recreate(place.directory, FileType::Directory);
        }
        if !self.objects.get(&place.directory).is_some_and(super::objects::Object::is_directory) {
            return remove("it lies in an object that is not a directory");
        }
        if let Some(object) = self.objects.get(&ino) {
            return Ok(Verdict::Keep(object.file_type));
        }
        if self.useless.contains(&ino) {
            return remove("the target of the symbolic link is lost");
        }
        if !self.is_lost(&key::inode(self.volume.object(ino))) {
            return Ok(Verdict::Remove(format!("it names inode {ino}, which does not exist")));
        }
        let file_type = match named_type {
            None => self.guess_type(ino)?,
            known => known,
        };
        match file_type {
            Some(
                file_type @ (FileType::Regular | FileType::Directory | FileType::Fifo | FileType::Socket),
            ) => {
                self.recreate(ino, file_type);
                Ok(Verdict::Keep(file_type))
            }
            Some(FileType::Symlink) => remove("the target of the symbolic link is lost"),
            Some(FileType::Block | FileType::Character) => remove("the numbers of the device are lost"),
            None => remove("its object is lost, and its type is unknown"),
        }
    }

    /// Counts a name, unless it is one of a directory and not certainly the only one.
    fn enter_or_wait(&mut self, place: Place<'_>, ino: Ino) {
        let Place { directory, name, cookie } = place;
        let is_first = self.objects.get(&ino).is_some_and(|object| {
            !object.is_directory() || object.names == 0 && (object.is_new || object.parent == directory)
        });
        if is_first {
            self.enter(directory, cookie, ino);
        } else {
            self.later.push(Later { directory, name: name.into(), cookie, ino });
        }
    }

    fn enter(&mut self, directory: Ino, cookie: Cookie, ino: Ino) {
        let Some(object) = self.objects.get_mut(&ino) else { return };
        object.names += 1;
        object.first.get_or_insert((directory, cookie));
        let is_directory = object.is_directory();
        let Some(parent) = self.objects.get_mut(&directory) else { return };
        parent.entries += 1;
        parent.subdirectories += u32::from(is_directory);
        parent.next_cookie = parent.next_cookie.max(Cookie(cookie.0.saturating_add(1)));
    }

    /// Hands out a cookie, which is at least `floor`.
    fn next_cookie(&mut self, directory: Ino, floor: Cookie) -> Cookie {
        let Some(object) = self.objects.get_mut(&directory) else { return floor };
        let cookie = object.next_cookie.max(floor);
        object.next_cookie = Cookie(cookie.0.saturating_add(1));
        cookie
    }

    /// Adds a name, which the directory does not have, for an object.
    pub(super) fn add_name(&mut self, directory: Ino, name: &[u8], ino: Ino) -> Result<(), IndexError> {
        let Some(file_type) = self.objects.get(&ino).map(|object| object.file_type) else { return Ok(()) };
        let cookie = self.next_cookie(directory, Cookie::FIRST);
        let place = Place { directory, name, cookie };
        self.put_name(place, ino, file_type)?;
        self.put_cookie(place, ino)?;
        self.enter(directory, cookie, ino);
        self.note_change(directory);
        Ok(())
    }

    /// Removes the only name of a directory, which was counted.
    pub(super) fn detach(&mut self, ino: Ino) -> Result<(), IndexError> {
        let Some(object) = self.objects.get_mut(&ino) else { return Ok(()) };
        object.names = 0;
        let Some((directory, cookie)) = object.first.take() else { return Ok(()) };
        if let Some(parent) = self.objects.get_mut(&directory) {
            parent.entries -= 1;
            parent.subdirectories -= 1;
        }
        let name = self.name_at(directory, cookie)?.unwrap_or_default();
        self.remove_name(Place { directory, name: &name, cookie }, "the directory lay below itself")
    }

    /// Removes a name that was not counted.
    fn remove_name(&mut self, place: Place<'_>, why: &str) -> Result<(), IndexError> {
        let Place { directory, name, cookie } = place;
        self.out.delete(&key::name(self.volume.object(directory), name))?;
        if self.name_at(directory, cookie)?.is_some_and(|listed| *listed == *name) {
            self.out.delete(&key::cookie(self.volume.object(directory), cookie))?;
        }
        self.note_change(directory);
        self.changes.list_name(directory, name, format!("removed: {why}"));
        self.changes.tally.names_removed += 1;
        Ok(())
    }

    fn note_change(&mut self, directory: Ino) {
        if let Some(object) = self.objects.get_mut(&directory) {
            object.is_changed = true;
        }
    }

    fn put_name(&mut self, place: Place<'_>, ino: Ino, file_type: FileType) -> Result<(), IndexError> {
        let record = NameRecord { ino, cookie: place.cookie, file_type };
        self.out.put(&key::name(self.volume.object(place.directory), place.name), &record.encode())
    }

    fn put_cookie(&mut self, place: Place<'_>, ino: Ino) -> Result<(), IndexError> {
        let record = CookieRecord { ino, name: place.name.into() };
        self.out.put(&key::cookie(self.volume.object(place.directory), place.cookie), &record.encode())
    }

    /// Returns the name that READDIR of the repaired volume lists at a cookie.
    pub(super) fn name_at(
        &self,
        directory: Ino,
        cookie: Cookie,
    ) -> Result<Option<std::sync::Arc<[u8]>>, IndexError> {
        let listed = self.out.get(&key::cookie(self.volume.object(directory), cookie))?;
        Ok(listed.and_then(|listed| CookieRecord::decode(&listed).ok()).map(|listed| listed.name))
    }
}
