//! A writer: random calls that add, free and move what owners use, and what is known of its files.

use std::collections::BTreeSet;
use std::sync::Arc;

use fastrand::Rng;

use super::super::client::rpc::Failure;
use super::calls::{Calls, Handle};
use super::ledger::{Amount, Ledger, Owner, UNLIMITED_ROOM};

/// Everything is written in whole blocks of 4 KiB, which other file systems count in too.
pub(super) const BLOCK: u64 = 4096;
/// Blocks of a file, and of a call.
const FILE_BLOCKS: usize = 64;
const CALL_BLOCKS: usize = 24;
/// Files and directories of a writer.
const FILES_MAX: usize = 4;
const FOLDERS_MAX: usize = 2;

/// NFS3ERR_DQUOT and NFS4ERR_DQUOT.
pub(super) const DQUOT: u32 = 69;
/// NFS3ERR_NOTSUPP, NFS4ERR_NOTSUPP and NFS4ERR_OP_ILLEGAL.
const UNSUPPORTED: [u32; 2] = [10_004, 10_044];

/// The users that own files, and call.
pub(super) const USERS: [u32; 4] = [5001, 5002, 5003, 5004];
/// The groups of directories, and so of files.
pub(super) const GROUPS: [u32; 2] = [6001, 6002];

/// What happened.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    pub(super) calls: u64,
    /// Calls refused for want of room, those that had room, and the most that would have fitted besides.
    pub(super) refused: u64,
    pub(super) refused_with_room: u64,
    pub(super) room_max: i128,
    /// Calls refused that take nothing: rewriting, and COMMIT.
    pub(super) refused_rewrites: u64,
    /// The same of those that free.
    pub(super) refused_frees: u64,
    pub(super) unsupported: BTreeSet<&'static str>,
}

impl Tally {
    pub(super) fn add(&mut self, other: &Tally) {
        self.calls += other.calls;
        self.refused += other.refused;
        self.refused_with_room += other.refused_with_room;
        self.room_max = self.room_max.max(other.room_max);
        self.refused_rewrites += other.refused_rewrites;
        self.refused_frees += other.refused_frees;
        self.unsupported.extend(&other.unsupported);
    }
}

/// What a refusal for want of room means.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Grows,
    Rewrites,
    Frees,
}

#[derive(Clone, Debug)]
struct File {
    name: String,
    handle: Handle,
    user: u32,
    group: u32,
    /// Which blocks are no holes.
    blocks: [bool; FILE_BLOCKS],
    /// The end of the file, blocks.
    end: usize,
    /// What the extended attribute counts, if there is one.
    xattr: u64,
}

impl File {
    fn filled(&self, from: usize, to: usize) -> u64 {
        bytes(self.blocks[from..to].iter().filter(|filled| **filled).count())
    }

    fn used(&self) -> Amount {
        Amount { bytes: self.filled(0, FILE_BLOCKS) + self.xattr, inodes: 1 }
    }
}

fn bytes(blocks: usize) -> u64 {
    BLOCK * u64::try_from(blocks).expect("few blocks")
}

/// A writer and its files.
pub(super) struct Writer {
    number: usize,
    random: Rng,
    calls: Calls,
    ledger: Arc<Ledger>,
    folder: Handle,
    group: u32,
    /// Whether the directory is in the quota tree.
    is_in_tree: bool,
    files: Vec<File>,
    folders: Vec<String>,
    made: u32,
    pub(super) tally: Tally,
}

impl Writer {
    pub(super) fn new(
        number: usize,
        seed: u64,
        calls: Calls,
        ledger: &Arc<Ledger>,
        (folder, group, is_in_tree): (Handle, u32, bool),
    ) -> Writer {
        Writer {
            number,
            random: Rng::with_seed(seed),
            calls,
            ledger: Arc::clone(ledger),
            folder,
            group,
            is_in_tree,
            files: Vec::new(),
            folders: Vec::new(),
            made: 0,
            tally: Tally::default(),
        }
    }

    /// The user that calls.
    fn user(&self) -> u32 {
        self.calls.link.user
    }

    fn owners(&self, user: u32, group: u32) -> Vec<Owner> {
        let tree = self.is_in_tree.then_some(Owner::Tree);
        [Owner::Volume, Owner::User(user), Owner::Group(group)].into_iter().chain(tree).collect()
    }

    fn owners_of(&self, file: &File) -> Vec<Owner> {
        self.owners(file.user, file.group)
    }

    fn new_name(&mut self) -> String {
        self.made += 1;
        format!("{}-{}", self.number, self.made)
    }

    /// Judges a call that failed. Returns whether it was refused for want of room.
    fn failed<T>(&mut self, kind: Kind, room: i128, result: Result<T, Failure>) -> Result<Option<T>, String> {
        self.tally.calls += 1;
        match result {
            Ok(value) => Ok(Some(value)),
            Err(Failure::Status(what, status)) if UNSUPPORTED.contains(&status) => {
                self.tally.unsupported.insert(what);
                Ok(None)
            }
            Err(Failure::Status(_, DQUOT)) => {
                match kind {
                    Kind::Grows => {
                        self.tally.refused += 1;
                        if room >= 0 {
                            self.tally.refused_with_room += 1;
                            let room = Some(room).filter(|room| *room != UNLIMITED_ROOM);
                            self.tally.room_max = self.tally.room_max.max(room.unwrap_or(0));
                        }
                    }
                    Kind::Rewrites => self.tally.refused_rewrites += 1,
                    Kind::Frees => self.tally.refused_frees += 1,
                }
                Ok(None)
            }
            Err(failure) => Err(format!("writer {}: {failure}", self.number)),
        }
    }

    /// Makes a call that adds at most `adds` to these owners; what it returns says how much it added.
    fn grow<T>(
        &mut self,
        owners: &[Owner],
        adds: Amount,
        call: impl FnOnce(&mut Calls) -> Result<T, Failure>,
        added: impl FnOnce(&T) -> Amount,
    ) -> Result<Option<T>, String> {
        let ticket = self.ledger.begin(owners, adds);
        let result = call(&mut self.calls);
        let kind = if adds == Amount::default() { Kind::Rewrites } else { Kind::Grows };
        let room = match &result {
            Ok(value) => {
                self.ledger.succeed(ticket, added(value));
                0
            }
            Err(_) => self.ledger.refuse(ticket),
        };
        self.failed(kind, room, result)
    }

    /// Makes a call that adds nothing and may free something. Returns whether it succeeded.
    fn shrink(
        &mut self,
        owners: &[Owner],
        freed: Amount,
        call: impl FnOnce(&mut Calls) -> Result<(), Failure>,
    ) -> Result<bool, String> {
        let result = call(&mut self.calls);
        let is_done = self.failed(Kind::Frees, 0, result)?.is_some();
        if is_done {
            self.ledger.free(owners, freed);
        }
        Ok(is_done)
    }

    /// Makes so many random calls, and saves everything.
    pub(super) fn work(&mut self, calls: usize) -> Result<(), String> {
        for _ in 0..calls {
            self.calls.is_v4 = self.random.bool();
            self.step()?;
        }
        self.commit_all()
    }

    fn step(&mut self) -> Result<(), String> {
        let kind = self.random.usize(..100);
        if self.files.is_empty() || kind < 12 && self.files.len() < FILES_MAX {
            return self.create();
        }
        let at = self.random.usize(..self.files.len());
        match kind {
            0..45 => self.write(at),
            45..50 => self.commit(at),
            50..58 => self.truncate(at),
            58..66 => self.punch(at),
            66..76 => self.copy(at),
            76..82 => self.change_xattr(at),
            82..88 => self.give(at),
            88..92 => self.rename(at),
            92..96 => self.change_folders(),
            _ => self.remove(at),
        }
    }

    fn create(&mut self) -> Result<(), String> {
        let (name, folder, user, group) = (self.new_name(), self.folder.clone(), self.user(), self.group);
        let owners = self.owners(user, group);
        let made =
            self.grow(&owners, Amount::OBJECT, |calls| calls.create(&folder, &name), |_| Amount::OBJECT)?;
        if let Some(handle) = made {
            let blocks = [false; FILE_BLOCKS];
            self.files.push(File { name, handle, user, group, blocks, end: 0, xattr: 0 });
        }
        Ok(())
    }

    /// Draws a range of blocks that ends by `end`.
    fn range(&mut self, end: usize) -> (usize, usize) {
        let from = self.random.usize(..end);
        let most = (end - from).min(CALL_BLOCKS);
        (from, from + self.random.usize(1..=most))
    }

    fn write(&mut self, at: usize) -> Result<(), String> {
        let (from, to) = self.range(FILE_BLOCKS);
        self.write_range(at, (from, to))
    }

    fn write_range(&mut self, at: usize, (from, to): (usize, usize)) -> Result<(), String> {
        let file = self.files[at].clone();
        let data = vec![self.random.u8(1..); usize::try_from(bytes(to - from)).expect("a few blocks")];
        let is_stable = self.random.usize(..3) == 0;
        let owners = self.owners_of(&file);
        let fills = |to: usize| Amount::of_bytes(bytes(to - from) - file.filled(from, to));
        let reached = |count: &u64| from + usize::try_from(count.div_ceil(BLOCK)).expect("a few blocks");
        let written = self.grow(
            &owners,
            fills(to),
            |calls| calls.write(&file.handle, bytes(from), is_stable, &data),
            |count| fills(reached(count)),
        )?;
        if let Some(count) = written {
            let file = &mut self.files[at];
            let reached = reached(&count);
            file.blocks[from..reached].fill(true);
            file.end = file.end.max(reached);
        }
        Ok(())
    }

    fn commit(&mut self, at: usize) -> Result<(), String> {
        let handle = self.files[at].handle.clone();
        let result = self.calls.commit(&handle);
        self.failed(Kind::Rewrites, 0, result).map(drop)
    }

    /// Saves all unstable data.
    pub(super) fn commit_all(&mut self) -> Result<(), String> {
        (0..self.files.len()).try_for_each(|at| self.commit(at))
    }

    /// Writes everything that is there once more, which takes nothing.
    pub(super) fn rewrite_all(&mut self) -> Result<(), String> {
        for at in 0..self.files.len() {
            let mut from = 0;
            while from < FILE_BLOCKS {
                let blocks = &self.files[at].blocks;
                let length = blocks[from..].iter().take(CALL_BLOCKS).take_while(|filled| **filled).count();
                if length > 0 {
                    self.calls.is_v4 = self.random.bool();
                    self.write_range(at, (from, from + length))?;
                }
                from += length.max(1);
            }
        }
        self.commit_all()
    }

    fn truncate(&mut self, at: usize) -> Result<(), String> {
        let file = self.files[at].clone();
        let end = self.random.usize(..=FILE_BLOCKS);
        let freed = Amount::of_bytes(file.filled(end, FILE_BLOCKS));
        let owners = self.owners_of(&file);
        if self.shrink(&owners, freed, |calls| calls.truncate(&file.handle, bytes(end)))? {
            let file = &mut self.files[at];
            file.blocks[end..].fill(false);
            file.end = end;
        }
        Ok(())
    }

    fn punch(&mut self, at: usize) -> Result<(), String> {
        let file = self.files[at].clone();
        let (from, to) = self.range(FILE_BLOCKS);
        let owners = self.owners_of(&file);
        let freed = Amount::of_bytes(file.filled(from, to));
        if self.shrink(&owners, freed, |calls| calls.punch(&file.handle, bytes(from), bytes(to - from)))? {
            self.files[at].blocks[from..to].fill(false);
        }
        Ok(())
    }

    /// CLONE or COPY between two files, holes included.
    fn copy(&mut self, at: usize) -> Result<(), String> {
        let from_file = self.files[self.random.usize(..self.files.len())].clone();
        let file = self.files[at].clone();
        if from_file.end == 0 || from_file.name == file.name {
            return Ok(());
        }
        let (from, to) = self.range(from_file.end);
        let is_clone = self.random.bool();
        let change = |to: usize| (from_file.filled(from, to), file.filled(from, to));
        let adds = |to: usize| change(to).0.saturating_sub(change(to).1);
        // A part of it may add more than all.
        let most = (from..=to).map(adds).max().unwrap_or(0);
        let reached = |count: &u64| from + usize::try_from(count / BLOCK).expect("a few blocks");
        let owners = self.owners_of(&file);
        let copied = self.grow(
            &owners,
            Amount::of_bytes(most),
            |calls| {
                let (offset, length) = (bytes(from), bytes(to - from));
                if is_clone {
                    calls.clone_range(&from_file.handle, &file.handle, offset, length).map(|()| length)
                } else {
                    calls.copy_range(&from_file.handle, &file.handle, offset, length)
                }
            },
            |count| Amount::of_bytes(adds(reached(count))),
        )?;
        if let Some(count) = copied {
            if !count.is_multiple_of(BLOCK) {
                return Err(format!("COPY of whole blocks copied {count} bytes"));
            }
            let reached = reached(&count);
            let (new, old) = change(reached);
            self.ledger.free(&owners, Amount::of_bytes(old.saturating_sub(new)));
            let file = &mut self.files[at];
            file.blocks[from..reached].copy_from_slice(&from_file.blocks[from..reached]);
            file.end = file.end.max(reached);
        }
        Ok(())
    }

    /// Sets an extended attribute of a length that is no multiple of anything, or removes it.
    fn change_xattr(&mut self, at: usize) -> Result<(), String> {
        let file = self.files[at].clone();
        let owners = self.owners_of(&file);
        if file.xattr > 0 && self.random.bool() {
            let freed = Amount::of_bytes(file.xattr);
            if self.shrink(&owners, freed, |calls| calls.remove_xattr(&file.handle, XATTR))? {
                self.files[at].xattr = 0;
            }
            return Ok(());
        }
        let value = vec![b'v'; self.random.usize(1..3000)];
        let counts = (XATTR.len() + value.len()) as u64 + 32;
        let adds = Amount::of_bytes(counts.saturating_sub(file.xattr));
        let set =
            self.grow(&owners, adds, |calls| calls.set_xattr(&file.handle, XATTR, &value), |()| adds)?;
        if set.is_some() {
            self.ledger.free(&owners, Amount::of_bytes(file.xattr.saturating_sub(counts)));
            self.files[at].xattr = counts;
        }
        Ok(())
    }

    /// Has a file given to another user, or to another group.
    fn give(&mut self, at: usize) -> Result<(), String> {
        let file = self.files[at].clone();
        let (new, old, to);
        if self.random.bool() {
            let user = USERS[self.random.usize(..USERS.len())];
            (new, old, to) = (Owner::User(user), Owner::User(file.user), (Some(user), None));
        } else {
            let group = GROUPS[self.random.usize(..GROUPS.len())];
            (new, old, to) = (Owner::Group(group), Owner::Group(file.group), (None, Some(group)));
        }
        let used = file.used();
        if new == old {
            return Ok(());
        }
        let given = self.grow(&[new], used, |calls| calls.give(&file.handle, to, None), |()| used)?;
        if given.is_some() {
            self.ledger.free(&[old], used);
            let file = &mut self.files[at];
            (file.user, file.group) = (to.0.unwrap_or(file.user), to.1.unwrap_or(file.group));
        }
        Ok(())
    }

    /// Renames a file, half of the time over another one.
    fn rename(&mut self, at: usize) -> Result<(), String> {
        let folder = self.folder.clone();
        let victim = self.random.usize(..self.files.len());
        let is_over = victim != at && self.random.bool();
        let as_name = if is_over { self.files[victim].name.clone() } else { self.new_name() };
        let name = self.files[at].name.clone();
        let freed = if is_over { self.files[victim].used() } else { Amount::default() };
        let owners = self.owners_of(&self.files[victim]);
        if self.shrink(&owners, freed, |calls| calls.rename(&folder, &name, &as_name))? {
            self.files[at].name = as_name;
            if is_over {
                self.files.remove(victim);
            }
        }
        Ok(())
    }

    fn change_folders(&mut self) -> Result<(), String> {
        let (folder, owners) = (self.folder.clone(), self.owners(self.user(), self.group));
        if self.folders.len() >= FOLDERS_MAX {
            let name = self.folders[0].clone();
            if self.shrink(&owners, Amount::OBJECT, |calls| calls.remove(&folder, &name, true))? {
                self.folders.remove(0);
            }
            return Ok(());
        }
        let name = self.new_name();
        let make = |calls: &mut Calls| calls.make_folder(&folder, &name);
        if self.grow(&owners, Amount::OBJECT, make, |()| Amount::OBJECT)?.is_some() {
            self.folders.push(name);
        }
        Ok(())
    }

    fn remove(&mut self, at: usize) -> Result<(), String> {
        let (file, folder) = (self.files[at].clone(), self.folder.clone());
        let owners = self.owners_of(&file);
        if self.shrink(&owners, file.used(), |calls| calls.remove(&folder, &file.name, false))? {
            self.files.remove(at);
        }
        Ok(())
    }
}

/// The name of the extended attribute.
const XATTR: &str = "note";
