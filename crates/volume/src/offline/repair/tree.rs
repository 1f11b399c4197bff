//! Every object has a name, and every directory is below the root: `lost+found` takes what has none.

use std::collections::BTreeMap;

use super::pass::Pass;
use crate::api::attributes::FileType;
use crate::api::ids::Ino;
use crate::encoding::key;
use crate::encoding::record::{InodeRecord, NameRecord};
use crate::offline::check::FaultKind;
use crate::tables::index::IndexError;

/// The directory for what has no name.
const LOST_AND_FOUND: &str = "lost+found";

impl Pass<'_, '_> {
    /// Connects everything with the root.
    pub(super) fn connect(&mut self) -> Result<(), IndexError> {
        let mut nameless = Vec::new();
        for (ino, object) in &mut self.objects {
            object.is_orphan &= object.names == 0;
            if object.names > 0 || *ino == Ino::ROOT || object.is_orphan {
                continue;
            }
            // A file without links was removed while a client had it open, but the record that says so is lost.
            if object.is_removed && object.file_type == FileType::Regular {
                object.is_orphan = true;
            } else {
                nameless.push(*ino);
            }
        }
        for ino in self.cycles() {
            self.detach(ino)?;
            nameless.push(ino);
        }
        nameless.into_iter().try_for_each(|ino| self.find(ino))
    }

    /// Returns a directory of each group of directories that lie below themselves.
    fn cycles(&self) -> Vec<Ino> {
        let mut cycles = Vec::new();
        // The directory from which the walk that reached each one began.
        let mut reached: BTreeMap<Ino, Ino> = BTreeMap::new();
        for (from, _) in self.objects.iter().filter(|(_, object)| object.is_directory()) {
            let mut at = *from;
            loop {
                if let Some(walk) = reached.get(&at) {
                    if walk == from {
                        cycles.push(at);
                    }
                    break;
                }
                reached.insert(at, *from);
                match self.objects.get(&at).and_then(|object| object.first) {
                    Some((directory, _)) => at = directory,
                    None => break,
                }
            }
        }
        cycles
    }

    /// Gives an object a name in `lost+found`.
    fn find(&mut self, ino: Ino) -> Result<(), IndexError> {
        let directory = match self.lost_and_found {
            Some(directory) => directory,
            None => self.open_lost_and_found()?,
        };
        let name = self.free_name(directory, &format!("#{ino}"))?;
        self.add_name(directory, name.as_bytes(), ino)?;
        self.changes.list(FaultKind::Tree, ino, "moved here, as its name is lost");
        self.changes.tally.objects_found += 1;
        Ok(())
    }

    /// Returns the directory `/lost+found`. If there is none, or others than root can reach what is in it, one is made, under
    /// another name if need be: who may see an object without a name is unknown.
    fn open_lost_and_found(&mut self) -> Result<Ino, IndexError> {
        let value = self.out.get(&key::name(self.volume.object(Ino::ROOT), LOST_AND_FOUND.as_bytes()))?;
        let named = value.and_then(|value| NameRecord::decode(&value).ok()).map(|record| record.ino);
        let directory = match named {
            Some(ino) if self.is_private_directory(ino)? => ino,
            _ => {
                let name = self.free_name(Ino::ROOT, LOST_AND_FOUND)?;
                let ino = self.make_directory();
                self.add_name(Ino::ROOT, name.as_bytes(), ino)?;
                ino
            }
        };
        self.lost_and_found = Some(directory);
        Ok(directory)
    }

    /// Whether an object is a directory that only root can use.
    fn is_private_directory(&self, ino: Ino) -> Result<bool, IndexError> {
        let Some(object) = self.objects.get(&ino).filter(|object| object.is_directory() && object.names > 0)
        else {
            return Ok(false);
        };
        // One whose record is lost gets such a record.
        let value = if object.is_new { None } else { self.view.get(&key::inode(self.volume.object(ino)))? };
        let record = value.and_then(|value| InodeRecord::decode(&value).ok());
        Ok(record.is_none_or(|record| record.uid == 0 && record.mode & 0o077 == 0))
    }

    /// Returns a name that a directory does not have.
    fn free_name(&self, directory: Ino, name: &str) -> Result<String, IndexError> {
        let mut free = name.to_owned();
        let mut number = 2_u64;
        while self.out.get(&key::name(self.volume.object(directory), free.as_bytes()))?.is_some() {
            free = format!("{name}.{number}");
            number += 1;
        }
        Ok(free)
    }
}
