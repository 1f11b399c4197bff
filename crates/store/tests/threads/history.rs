//! The operations of a caller on its own files, and the states of these files that a crash can leave.
//!
//! Each step is recorded twice: before it is tried, and when its answer is durable. In between both states are possible.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// The size of a unit in bytes. Contents are recorded and checked in units, with one number each.
pub const UNIT: u64 = 512;

/// A name: the directory and the file, both by number.
pub type Name = (u64, u64);

/// A step of a caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A directory was created: its number and inode number.
    Directory(u64, u64),
    Create(Name),
    /// File, first unit, number of units, tag, whether it is stable when it is answered.
    Write(u64, u64, u64, u64, bool),
    Commit(u64),
    /// File, new size in units.
    Truncate(u64, u64),
    /// Source and target.
    Rename(Name, Name),
    Remove(Name),
    /// The last step is durable; the inode number if it created a file.
    Done(u64),
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::Directory(which, ino) => write!(f, "d {which} {ino}"),
            Step::Create(name) => write!(f, "c {} {}", name.0, name.1),
            Step::Write(ino, start, count, tag, stable) => {
                write!(f, "w {ino} {start} {count} {tag} {}", u8::from(*stable))
            }
            Step::Commit(ino) => write!(f, "s {ino}"),
            Step::Truncate(ino, size) => write!(f, "t {ino} {size}"),
            Step::Rename(from, to) => write!(f, "m {} {} {} {}", from.0, from.1, to.0, to.1),
            Step::Remove(name) => write!(f, "r {} {}", name.0, name.1),
            Step::Done(ino) => write!(f, "a {ino}"),
        }
    }
}

impl Step {
    /// Parses the output of `Display`; `None` for a truncated line.
    pub fn parse(text: &str) -> Option<Step> {
        let (kind, rest) = text.split_once(' ')?;
        let numbers: Vec<u64> = rest.split(' ').map(|word| word.parse().ok()).collect::<Option<_>>()?;
        Some(match (kind, &numbers[..]) {
            ("d", [which, ino]) => Step::Directory(*which, *ino),
            ("c", [directory, name]) => Step::Create((*directory, *name)),
            ("w", [ino, start, count, tag, stable]) => Step::Write(*ino, *start, *count, *tag, *stable == 1),
            ("s", [ino]) => Step::Commit(*ino),
            ("t", [ino, size]) => Step::Truncate(*ino, *size),
            ("m", [a, b, c, d]) => Step::Rename((*a, *b), (*c, *d)),
            ("r", [directory, name]) => Step::Remove((*directory, *name)),
            ("a", [ino]) => Step::Done(*ino),
            _ => return None,
        })
    }
}

/// The possible states of a file.
#[derive(Clone, Debug)]
pub struct File {
    /// The possible sizes in units, the newest last.
    pub sizes: Vec<u64>,
    /// The possible tags of each unit, the newest last. Missing units are zero.
    pub units: BTreeMap<u64, Vec<u64>>,
}

impl File {
    fn new() -> File {
        File { sizes: vec![0], units: BTreeMap::new() }
    }

    /// Returns the size that the caller sees.
    pub fn size(&self) -> u64 {
        *self.sizes.last().unwrap()
    }

    /// Returns the tag that the caller sees.
    pub fn tag(&self, unit: u64) -> u64 {
        self.units.get(&unit).map_or(0, |tags| *tags.last().unwrap())
    }

    fn allow(&mut self, unit: u64, tag: u64) {
        self.units.entry(unit).or_insert_with(|| vec![0]).push(tag);
    }

    fn settle(&mut self, unit: u64) {
        if let Some(tags) = self.units.get_mut(&unit) {
            tags.drain(..tags.len() - 1);
        }
    }
}

/// The history of a caller.
#[derive(Clone, Debug, Default)]
pub struct History {
    pub directories: BTreeMap<u64, u64>,
    pub names: BTreeMap<Name, u64>,
    pub files: BTreeMap<u64, File>,
    /// The step that is not durable yet.
    pub open: Option<Step>,
}

impl History {
    pub fn record(&mut self, step: Step) {
        let Step::Done(ino) = step else {
            assert_eq!(self.open, None, "one step at a time");
            self.attempt(step);
            return;
        };
        match self.open.take().expect("no step was attempted") {
            Step::Create(name) => {
                self.names.insert(name, ino);
                self.files.insert(ino, File::new());
            }
            Step::Write(ino, start, count, _, true) => {
                let file = self.files.get_mut(&ino).unwrap();
                (start..start + count).for_each(|unit| file.settle(unit));
                file.sizes.retain(|size| *size >= start + count);
            }
            Step::Commit(ino) => {
                let file = self.files.get_mut(&ino).unwrap();
                file.sizes = vec![file.size()];
                let units: Vec<u64> = file.units.keys().copied().collect();
                units.into_iter().for_each(|unit| file.settle(unit));
            }
            Step::Truncate(ino, size) => {
                let file = self.files.get_mut(&ino).unwrap();
                file.sizes = vec![size];
                file.units.retain(|unit, _| *unit < size);
            }
            Step::Rename(from, to) => {
                let ino = self.names.remove(&from).unwrap();
                if let Some(replaced) = self.names.insert(to, ino) {
                    self.files.remove(&replaced);
                }
            }
            Step::Remove(name) => {
                let ino = self.names.remove(&name).unwrap();
                self.files.remove(&ino);
            }
            Step::Write(..) | Step::Directory(..) | Step::Done(_) => {}
        }
    }

    fn attempt(&mut self, step: Step) {
        match step {
            Step::Directory(which, ino) => {
                self.directories.insert(which, ino);
                return;
            }
            Step::Write(ino, start, count, tag, _) => {
                let file = self.files.get_mut(&ino).unwrap();
                (start..start + count).for_each(|unit| file.allow(unit, tag));
                let grown: Vec<u64> = file.sizes.iter().map(|size| (*size).max(start + count)).collect();
                // An earlier unstable write that ends beyond this one may become durable only up to it.
                let durable = file.sizes.iter().copied().min().unwrap_or(0);
                let is_cut = file.sizes.iter().any(|size| *size > start);
                file.sizes.extend((is_cut && start > durable).then_some(start));
                file.sizes.extend(grown);
                let seen = file.sizes.pop().unwrap();
                let known: BTreeSet<u64> = file.sizes.drain(..).filter(|size| *size != seen).collect();
                file.sizes.extend(known);
                file.sizes.push(seen);
            }
            Step::Truncate(ino, size) => {
                let file = self.files.get_mut(&ino).unwrap();
                let beyond: Vec<u64> = file.units.range(size..).map(|(unit, _)| *unit).collect();
                beyond.into_iter().for_each(|unit| file.allow(unit, 0));
                file.sizes.push(size);
            }
            _ => {}
        }
        self.open = Some(step);
    }
}

#[test]
fn an_overwritten_unstable_write_may_survive_up_to_the_new_one() {
    let mut history = History::default();
    for step in [Step::Create((0, 0)), Step::Done(9), Step::Write(9, 10, 50, 1, false), Step::Done(0)] {
        history.record(step);
    }
    assert_eq!(history.files[&9].sizes, [0, 60]);
    history.record(Step::Write(9, 40, 30, 2, false));
    assert_eq!(history.files[&9].sizes, [0, 40, 60, 70]);
    history.record(Step::Done(0));
    history.record(Step::Commit(9));
    history.record(Step::Done(0));
    history.record(Step::Write(9, 30, 10, 3, false));
    assert_eq!(history.files[&9].sizes, [70], "a durable size was reduced");
}
