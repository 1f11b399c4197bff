//! Random volumes with objects of each kind, and what can be seen of them.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::Arc;

use crate::api::attributes::{Attributes, FileType, SetAttributes};
use crate::api::ids::Ino;
use crate::api::results::Stability;
use crate::media::Media;
use crate::media::memory::{MemoryMedia, Random};
use crate::offline::check::tests::world::World;
use crate::offline::files::{Files, Part};

/// Objects of a volume.
const OBJECTS: usize = 160;

/// What can be seen of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    pub paths: BTreeSet<String>,
    /// Where its names are.
    pub places: Vec<(Ino, String)>,
    pub file_type: Option<FileType>,
    /// Its attributes but those that a repair stamps or counts.
    pub attributes: Option<Attributes>,
    pub content: Vec<u8>,
    /// Ranges of the content that cannot be read.
    pub lost: Vec<(u64, u64)>,
    pub target: Option<Vec<u8>>,
    pub xattrs: Vec<(Vec<u8>, Vec<u8>)>,
    pub lost_xattrs: u32,
}

impl Seen {
    /// Whether nothing of the object is lost.
    pub(super) fn is_whole(&self) -> bool {
        let has_target = self.file_type != Some(FileType::Symlink) || self.target.is_some();
        self.attributes.is_some() && self.lost.is_empty() && has_target && self.lost_xattrs == 0
    }
}

/// All objects that names lead to.
pub(super) type Objects = BTreeMap<Ino, Seen>;

/// Returns a closed volume.
pub(super) fn grown(random: &mut Random) -> Arc<MemoryMedia> {
    let mut world = World::new();
    let mut directories = vec![Ino::ROOT];
    let mut files: Vec<Ino> = Vec::new();
    for number in 0..OBJECTS {
        let directory = directories[random.index(directories.len())];
        let name = format!("{number} and so on");
        match random.index(12) {
            0 => directories.push(world.mkdir(directory, &name).unwrap()),
            1 => drop(world.symlink(directory, &name, &format!("target {number}")).unwrap()),
            2 if !files.is_empty() => {
                let file = files[random.index(files.len())];
                world.link(file, directory, &name).unwrap();
            }
            3 => {
                world.create(directory, &name).unwrap();
                world.remove(directory, &name).unwrap();
            }
            _ => files.push(world.create(directory, &name).unwrap()),
        }
        for _ in 0..random.below(3) {
            if !files.is_empty() {
                let file = files[random.index(files.len())];
                change(&mut world, file, files[random.index(files.len())], random);
            }
        }
        world.write_back();
        if number % 9 == 0 {
            world.checkpoint();
        }
    }
    world.close()
}

/// Changes a file at random.
pub(super) fn change(world: &mut World, file: Ino, other: Ino, random: &mut Random) {
    let (offset, length) = (random.below(100_000), 1 + random.index(20_000));
    match random.index(8) {
        0 => {
            let size = Some(random.below(80_000));
            let _ = world.set(file, &SetAttributes { size, ..SetAttributes::default() });
        }
        1 => drop(world.punch(file, offset, length as u64)),
        2 => drop(world.clone_range((other, 0), (file, 4096 * random.below(8)), 4096 * random.below(4))),
        3 => {
            let (uid, gid, mode) = (random.below(9), random.below(9), random.below(0o7777));
            let small = |number: u64| u32::try_from(number).ok();
            let set = SetAttributes {
                uid: small(uid),
                gid: small(gid),
                mode: small(mode),
                ..SetAttributes::default()
            };
            let _ = world.set(file, &set);
        }
        4 => drop(world.set_xattr(file, &format!("name {offset}"), &random.bytes(40))),
        _ => drop(world.write(file, offset, &random.bytes(length), Stability::Unstable)),
    }
}

/// Returns what names lead to.
pub(super) fn see(media: &Arc<MemoryMedia>) -> Objects {
    let files = Files::open(Arc::clone(media) as Arc<dyn Media>).unwrap();
    let mut objects = Objects::new();
    objects.insert(Ino::ROOT, look(&files, Ino::ROOT));
    let mut waiting = vec![(Ino::ROOT, String::new())];
    while let Some((directory, path)) = waiting.pop() {
        for entry in files.list(directory).unwrap().entries {
            let name = String::from_utf8(entry.name).unwrap();
            let path = format!("{path}/{name}");
            let seen = objects.entry(entry.ino).or_insert_with(|| look(&files, entry.ino));
            seen.paths.insert(path.clone());
            seen.places.push((directory, name));
            if seen.file_type == Some(FileType::Directory) {
                assert_eq!(seen.places.len(), 1, "{path}");
                waiting.push((entry.ino, path));
            }
        }
    }
    objects
}

/// Returns all that is known of an object but its names.
pub(super) fn look(files: &Files, ino: Ino) -> Seen {
    let found = files.attributes(ino).unwrap();
    let file_type = files.file_type(ino).unwrap();
    let attributes = found.as_ref().map(|found| {
        let (change, ctime, links) = (0, found.atime, 0);
        let (size, used, mtime) = match file_type {
            Some(FileType::Directory) => (0, 0, found.atime),
            _ => (found.size, found.used, found.mtime),
        };
        Attributes { change, ctime, links, size, used, mtime, ..*found }
    });
    let xattrs = files.xattrs(ino).unwrap();
    let mut seen = Seen {
        paths: BTreeSet::new(),
        places: Vec::new(),
        file_type,
        attributes,
        content: Vec::new(),
        lost: Vec::new(),
        target: files.target(ino).unwrap(),
        xattrs: xattrs.found,
        lost_xattrs: xattrs.missing,
    };
    if file_type == Some(FileType::Regular) {
        let size = found.map_or(0, |found| usize::try_from(found.size).unwrap());
        seen.content.resize(size, 0);
        let (content, lost) = (&mut seen.content, &mut seen.lost);
        files
            .read(ino, &mut |part| {
                match part {
                    Part::Data(offset, data) => {
                        let from = usize::try_from(offset).unwrap();
                        content.resize(content.len().max(from + data.len()), 0);
                        content[from..from + data.len()].copy_from_slice(data);
                    }
                    Part::Lost(from, to, _) => lost.push((from, to)),
                }
                ControlFlow::Continue(())
            })
            .unwrap();
    }
    seen
}
