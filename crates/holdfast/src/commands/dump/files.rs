//! `holdfast dump --files`: copies all files that can be read out of a volume into a directory.
//!
//! Everything is created relative to the directory that is being filled, whose descriptor is open, and no symbolic link
//! is ever followed. So no name in a volume leads out of the directory, and paths may be longer than the kernel accepts.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::ops::ControlFlow;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use rustix::fs::{AtFlags, Gid, Mode, OFlags, Timespec, Timestamps, Uid, XattrFlags};
use rustix::io::Errno;
use server::data::Data;
use server::error::{Error, ErrorKind};
use volume::attributes::{Attributes, FileType};
use volume::files::{Entry, Files, Part};
use volume::ids::Ino;
use volume::index::IndexError;
use volume::media::Media;
use volume::time::Time;

use super::names::{in_lost_and_found, safe, shown};
use super::outcome::Copied;
use crate::report::{Outcome, count};

/// Where objects without a readable name go.
const LOST_AND_FOUND: &str = "lost+found";

/// Holds one name of each object that has several, under its number, while files are copied.
const LINKS: &str = ".holdfast-links";

const OPEN_DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Why a copy cannot go on.
enum Stop {
    /// The volume.
    Volume(IndexError),
    /// The destination.
    Destination(String, io::Error),
}

impl From<IndexError> for Stop {
    fn from(error: IndexError) -> Stop {
        Stop::Volume(error)
    }
}

/// Copies the files of a volume, the only one of the pool if it is not named, to the directory `to`, which is empty or does
/// not exist.
pub(super) fn run(data: &Path, (pool, volume): (&str, Option<&str>), to: &Path, json: bool) -> Outcome {
    let root = destination(to)?;
    let data = Data::open_to_read(data)?;
    let files = open(data.open_pool(pool, None)?.media, pool, volume)?;
    let mut copy = Copy {
        files: &files,
        root,
        reached: BTreeSet::new(),
        linked: BTreeSet::new(),
        is_superuser: rustix::process::geteuid().is_root(),
        copied: Copied::new(json),
    };
    for problem in files.problems() {
        copy.copied.damage("/", problem);
    }
    match copy.all() {
        Ok(()) => {}
        Err(Stop::Volume(error)) => {
            return Err(Error::failed(format!("the pool {pool:?} cannot be read further: {error}")));
        }
        Err(Stop::Destination(path, error)) => {
            return Err(Error::failed(format!(
                "cannot write {path} below {}: {error}; empty the directory and try again",
                to.display()
            )));
        }
    }
    Ok(if copy.copied.finish(!copy.is_superuser) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn open(media: Arc<dyn Media>, pool: &str, volume: Option<&str>) -> Result<Files, Error> {
    let mut files = Files::open(media)
        .map_err(|error| Error::failed(format!("cannot read the files of the pool {pool:?}: {error}")))?;
    if let Some(name) = volume {
        let sentence = |error| format!("{error}; --pool chooses another pool than {pool:?}");
        files.select(name).map_err(|error| Error { kind: ErrorKind::NotFound, sentence: sentence(error) })?;
    } else if files.volumes().nth(1).is_some() {
        let names: Vec<&str> = files.volumes().map(|(_, name)| name).collect();
        return Err(Error::usage(format!(
            "the pool {pool:?} has several volumes: choose one with --volume, of {}",
            names.join(", ")
        )));
    }
    Ok(files)
}

/// Opens the directory to fill, and makes it if it does not exist.
fn destination(to: &Path) -> Result<OwnedFd, Error> {
    let failed =
        |error: io::Error| Error::failed(format!("cannot use the directory {}: {error}", to.display()));
    match fs::create_dir(to) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(failed(error)),
        _ => {}
    }
    if fs::read_dir(to).map_err(failed)?.next().is_some() {
        return Err(Error::usage(format!(
            "{} is not empty: name a directory that is empty or does not exist",
            to.display()
        )));
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::open(to, flags, Mode::empty()).map_err(|error| failed(error.into()))
}

/// A copy in progress.
struct Copy<'f> {
    files: &'f Files,
    root: OwnedFd,
    /// Objects that were copied.
    reached: BTreeSet<Ino>,
    /// Those of them that are in [`LINKS`].
    linked: BTreeSet<Ino>,
    is_superuser: bool,
    copied: Copied,
}

/// A directory that is being filled.
struct Level {
    ino: Ino,
    path: String,
    entries: std::vec::IntoIter<Entry>,
}

impl Copy<'_> {
    fn all(&mut self) -> Result<(), Stop> {
        self.make_directory(&self.root, LINKS.as_ref(), LINKS)?;
        let root = self.root.try_clone().map_err(|error| Stop::Destination("/".to_owned(), error))?;
        self.reached.insert(Ino::ROOT);
        // The attributes of the root come last: a mode without write permission would prevent creating `lost+found`.
        self.fill(root, Ino::ROOT, String::new(), false)?;
        self.nameless()?;
        self.remove_links()?;
        let root = self.root.try_clone().map_err(|error| Stop::Destination("/".to_owned(), error))?;
        self.finish_directory(&root, Ino::ROOT, "/")
    }

    /// Copies the objects that no name leads to.
    fn nameless(&mut self) -> Result<(), Stop> {
        let mut place: Option<(OwnedFd, String)> = None;
        loop {
            let found = self.files.nameless(&self.reached)?;
            if found.is_empty() {
                return Ok(());
            }
            let (into, path) = match &place {
                Some(place) => place,
                None => place.insert(self.lost_and_found()?),
            };
            let into = into.try_clone().map_err(|error| Stop::Destination(path.clone(), error))?;
            let path = path.clone();
            for nameless in found {
                let name = in_lost_and_found(nameless.ino);
                let path = format!("{path}/{name}");
                let from =
                    nameless.parent.map_or_else(String::new, |parent| format!("; it lay in inode {parent}"));
                self.copied
                    .damage(&path, &format!("inode {} has no name that can be read{from}", nameless.ino));
                let entry = Entry {
                    name: name.into_bytes(),
                    ino: nameless.ino,
                    file_type: self.files.file_type(nameless.ino)?,
                };
                if let Some(inner) = self.object(&into, &entry, &path)? {
                    self.fill(inner, entry.ino, path, true)?;
                }
                // Even if it could not be copied, it is not tried again.
                self.reached.insert(nameless.ino);
            }
        }
    }

    fn lost_and_found(&self) -> Result<(OwnedFd, String), Stop> {
        for number in 0..u32::MAX {
            let name =
                if number == 0 { LOST_AND_FOUND.to_owned() } else { format!("{LOST_AND_FOUND}.{number}") };
            match rustix::fs::mkdirat(&self.root, name.as_str(), Mode::RWXU) {
                Err(Errno::EXIST) => {}
                Err(error) => return Err(Stop::Destination(name, error.into())),
                Ok(()) => {
                    let opened = rustix::fs::openat(&self.root, name.as_str(), OPEN_DIRECTORY, Mode::empty());
                    let opened = opened.map_err(|error| Stop::Destination(name.clone(), error.into()))?;
                    return Ok((opened, format!("/{name}")));
                }
            }
        }
        Err(Stop::Destination(LOST_AND_FOUND.to_owned(), io::ErrorKind::AlreadyExists.into()))
    }

    /// Fills the directory `at`, which is directory `ino` of the volume, with all that lies below it.
    fn fill(&mut self, at: OwnedFd, ino: Ino, path: String, finish: bool) -> Result<(), Stop> {
        let mut at = at;
        let mut levels = vec![self.level(ino, path)?];
        while let Some(level) = levels.last_mut() {
            if let Some(entry) = level.entries.next() {
                let path = format!("{}/{}", level.path, shown(&entry.name));
                if let Some(inner) = self.object(&at, &entry, &path)? {
                    at = inner;
                    levels.push(self.level(entry.ino, path)?);
                }
                continue;
            }
            let Some(done) = levels.pop() else { break };
            let is_top = levels.is_empty();
            // Opened before the mode may forbid it.
            let above = if is_top { None } else { Some(self.open_parent(&at, &done.path)?) };
            if !is_top || finish {
                self.finish_directory(&at, done.ino, &done.path)?;
            }
            if let Some(above) = above {
                at = above;
            }
        }
        Ok(())
    }

    fn open_parent(&self, at: &OwnedFd, path: &str) -> Result<OwnedFd, Stop> {
        rustix::fs::openat(at, "..", OPEN_DIRECTORY, Mode::empty())
            .map_err(|error| Stop::Destination(path.to_owned(), error.into()))
    }

    fn level(&mut self, ino: Ino, path: String) -> Result<Level, Stop> {
        let listing = self.files.list(ino)?;
        let place = if path.is_empty() { "/" } else { &path };
        match listing.missing {
            Some(0) => {}
            Some(missing) => {
                self.copied.damage(place, &format!("this directory has lost {}", count(missing, "name")));
            }
            None => self.copied.damage(place, "names in this directory may be lost: its own record is"),
        }
        Ok(Level { ino, path, entries: listing.entries.into_iter() })
    }

    /// Copies an object into the directory `at`; of a directory only itself, and returns it.
    fn object(&mut self, at: &OwnedFd, entry: &Entry, path: &str) -> Result<Option<OwnedFd>, Stop> {
        let Some(file_type) = entry.file_type else {
            self.copied.damage(path, &format!("all records of inode {} are lost: not copied", entry.ino));
            return Ok(None);
        };
        let name = self.free_name(at, entry, path);
        if self.linked.contains(&entry.ino) {
            self.link(at, entry.ino, &name, path)?;
            return Ok(None);
        }
        if !self.reached.insert(entry.ino) {
            if file_type == FileType::Directory {
                self.copied.damage(path, "this directory has another name already: not copied again");
                return Ok(None);
            }
            // Its record says that it has only one name.
            self.copied
                .damage(path, "another name of a file whose record says that it has only one: copied again");
        }
        let attributes = self.files.attributes(entry.ino)?;
        if attributes.is_none() {
            let what = "its owner, mode, times and size are lost: only the user that copied it can read it";
            self.copied.damage(path, what);
        }
        if file_type == FileType::Directory {
            self.copied.counts.directories += 1;
            return self.make_directory(at, OsStr::from_bytes(&name), path).map(Some);
        }
        let is_made = match file_type {
            FileType::Regular => self.regular(at, entry.ino, &name, path, attributes.as_ref())?,
            FileType::Symlink => self.symlink(at, entry.ino, &name, path)?,
            _ => self.special(at, &name, path, file_type, attributes.as_ref())?,
        };
        if is_made {
            if let Some(attributes) = &attributes {
                self.set_attributes(at, &name, attributes, path)?;
            }
            if attributes.is_some_and(|attributes| attributes.links > 1) {
                self.keep_link(at, entry.ino, &name, path)?;
            }
        }
        Ok(None)
    }

    /// Returns the name to use for an entry: its own, unless that is unusable or taken.
    fn free_name(&mut self, at: &OwnedFd, entry: &Entry, path: &str) -> Vec<u8> {
        let is_taken =
            |name: &[u8]| rustix::fs::statat(at, OsStr::from_bytes(name), AtFlags::SYMLINK_NOFOLLOW).is_ok();
        let mut name = safe(&entry.name, None);
        if is_taken(&name) {
            name = safe(&entry.name, Some(entry.ino));
        }
        if *name != *entry.name {
            self.copied
                .damage(path, &format!("this name cannot be used here; it is copied as {}", shown(&name)));
        }
        name
    }

    fn make_directory(&self, at: &OwnedFd, name: &OsStr, path: &str) -> Result<OwnedFd, Stop> {
        rustix::fs::mkdirat(at, name, Mode::RWXU)
            .and_then(|()| rustix::fs::openat(at, name, OPEN_DIRECTORY, Mode::empty()))
            .map_err(|error| Stop::Destination(path.to_owned(), error.into()))
    }

    fn finish_directory(&mut self, at: &OwnedFd, ino: Ino, path: &str) -> Result<(), Stop> {
        self.set_xattrs(at, ino, path)?;
        match self.files.attributes(ino)? {
            Some(attributes) => self.set_attributes(at, b".", &attributes, path),
            None => Ok(()),
        }
    }

    fn regular(
        &mut self,
        at: &OwnedFd,
        ino: Ino,
        name: &[u8],
        path: &str,
        attributes: Option<&Attributes>,
    ) -> Result<bool, Stop> {
        let failed = |error: io::Error| Stop::Destination(path.to_owned(), error);
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(at, OsStr::from_bytes(name), flags, Mode::RUSR | Mode::WUSR)
            .map_err(|error| failed(error.into()))?;
        let file = File::from(file);
        let mut lost: BTreeMap<String, Vec<(u64, u64)>> = BTreeMap::new();
        let (mut result, mut bytes) = (Ok(()), 0);
        if let Some(attributes) = attributes {
            file.set_len(attributes.size).map_err(failed)?;
        }
        self.files.read(ino, &mut |part| {
            match part {
                Part::Data(offset, data) => {
                    bytes += data.len() as u64;
                    result = file.write_all_at(data, offset);
                }
                Part::Lost(from, to, why) => {
                    let ranges = lost.entry(why.to_owned()).or_default();
                    match ranges.last_mut() {
                        Some(last) if last.1 == from => last.1 = to,
                        _ => ranges.push((from, to)),
                    }
                }
            }
            if result.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        result.map_err(failed)?;
        self.copied.counts.files += 1;
        self.copied.counts.bytes += bytes;
        for (why, ranges) in lost {
            self.copied.lost_ranges(path, &ranges, &why);
        }
        self.set_xattrs(&file.into(), ino, path)?;
        Ok(true)
    }

    fn symlink(&mut self, at: &OwnedFd, ino: Ino, name: &[u8], path: &str) -> Result<bool, Stop> {
        let target = self.files.target(ino)?.filter(|target| !target.is_empty() && !target.contains(&0));
        let Some(target) = target else {
            self.copied.damage(path, "the target of this symbolic link is lost: not copied");
            return Ok(false);
        };
        let made = rustix::fs::symlinkat(OsStr::from_bytes(&target), at, OsStr::from_bytes(name));
        self.copied.counts.others += u64::from(made.is_ok());
        self.tolerate(made, path, "cannot be created here")
    }

    fn special(
        &mut self,
        at: &OwnedFd,
        name: &[u8],
        path: &str,
        file_type: FileType,
        attributes: Option<&Attributes>,
    ) -> Result<bool, Stop> {
        let kind = match file_type {
            FileType::Block => rustix::fs::FileType::BlockDevice,
            FileType::Character => rustix::fs::FileType::CharacterDevice,
            FileType::Socket => rustix::fs::FileType::Socket,
            _ => rustix::fs::FileType::Fifo,
        };
        let is_device = matches!(file_type, FileType::Block | FileType::Character);
        let device = attributes.map(|attributes| attributes.device).filter(|_| is_device);
        if is_device && device.is_none() {
            self.copied.damage(path, "the numbers of this device are lost: not copied");
            return Ok(false);
        }
        let device = device.map_or(0, |device| rustix::fs::makedev(device.major, device.minor));
        let made = rustix::fs::mknodat(at, OsStr::from_bytes(name), kind, Mode::RUSR | Mode::WUSR, device);
        self.copied.counts.others += u64::from(made.is_ok());
        self.tolerate(made, path, "cannot be created here")
    }

    fn link(&mut self, at: &OwnedFd, ino: Ino, name: &[u8], path: &str) -> Result<(), Stop> {
        let links = self.links(path)?;
        let made = rustix::fs::linkat(
            links.as_fd(),
            format!("{ino}"),
            at.as_fd(),
            OsStr::from_bytes(name),
            AtFlags::empty(),
        );
        self.copied.counts.links += u64::from(made.is_ok());
        self.tolerate(made, path, "is not copied: this hard link cannot be created here").map(drop)
    }

    /// Keeps a name of an object for its further names.
    fn keep_link(&mut self, at: &OwnedFd, ino: Ino, name: &[u8], path: &str) -> Result<(), Stop> {
        let links = self.links(path)?;
        let made = rustix::fs::linkat(
            at.as_fd(),
            OsStr::from_bytes(name),
            links.as_fd(),
            format!("{ino}"),
            AtFlags::empty(),
        );
        if self.tolerate(made, path, "loses its other names: hard links cannot be created here")? {
            self.linked.insert(ino);
        }
        Ok(())
    }

    fn links(&self, path: &str) -> Result<OwnedFd, Stop> {
        rustix::fs::openat(&self.root, LINKS, OPEN_DIRECTORY, Mode::empty())
            .map_err(|error| Stop::Destination(path.to_owned(), error.into()))
    }

    fn remove_links(&mut self) -> Result<(), Stop> {
        let links = self.links(LINKS)?;
        let failed = |error: Errno| Stop::Destination(LINKS.to_owned(), error.into());
        for ino in &self.linked {
            rustix::fs::unlinkat(&links, format!("{ino}"), AtFlags::empty()).map_err(failed)?;
        }
        rustix::fs::unlinkat(&self.root, LINKS, AtFlags::REMOVEDIR).map_err(failed)
    }

    fn set_xattrs(&mut self, at: &OwnedFd, ino: Ino, path: &str) -> Result<(), Stop> {
        let xattrs = self.files.xattrs(ino)?;
        if xattrs.missing > 0 {
            let missing = count(xattrs.missing.into(), "extended attribute");
            self.copied.damage(path, &format!("it has lost {missing}"));
        }
        for (name, value) in xattrs.found {
            let name = [b"user.", &name[..]].concat();
            let set = rustix::fs::fsetxattr(at, OsStr::from_bytes(&name), &value, XattrFlags::empty());
            let what = format!("its extended attribute {} cannot be set here", shown(&name));
            self.tolerate(set, path, &what)?;
        }
        Ok(())
    }

    /// Sets owner, mode and times, in this order: a new owner clears bits of the mode.
    fn set_attributes(
        &mut self,
        at: &OwnedFd,
        name: &[u8],
        attributes: &Attributes,
        path: &str,
    ) -> Result<(), Stop> {
        let name = OsStr::from_bytes(name);
        if self.is_superuser {
            let (uid, gid) = (Uid::from_raw(attributes.uid), Gid::from_raw(attributes.gid));
            let set = rustix::fs::chownat(at, name, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW);
            self.tolerate(set, path, "its owner cannot be set here")?;
        }
        if attributes.file_type != FileType::Symlink {
            let mode = Mode::from_raw_mode(attributes.mode.into());
            let set = rustix::fs::chmodat(at, name, mode, AtFlags::empty());
            self.tolerate(set, path, "its mode cannot be set here")?;
        }
        let times = Timestamps {
            last_access: timespec(attributes.atime),
            last_modification: timespec(attributes.mtime),
        };
        let set = rustix::fs::utimensat(at, name, &times, AtFlags::SYMLINK_NOFOLLOW);
        self.tolerate(set, path, "its times cannot be set here").map(drop)
    }

    /// Reports what the destination refuses for one object; stops if nothing more can be written to it.
    fn tolerate(&mut self, result: Result<(), Errno>, path: &str, what: &str) -> Result<bool, Stop> {
        match result {
            Ok(()) => Ok(true),
            Err(error) if matches!(error, Errno::NOSPC | Errno::DQUOT | Errno::IO | Errno::ROFS) => {
                Err(Stop::Destination(path.to_owned(), error.into()))
            }
            Err(error) => {
                self.copied.damage(path, &format!("{what}: {}", io::Error::from(error)));
                Ok(false)
            }
        }
    }
}

fn timespec(time: Time) -> Timespec {
    const SECOND: i64 = 1_000_000_000;
    Timespec { tv_sec: time.nanos().div_euclid(SECOND), tv_nsec: time.nanos().rem_euclid(SECOND) }
}
