//! The tree of names: all inodes, and how they are connected.

use std::collections::BTreeMap;

use super::findings::Findings;
use super::view::View;
use super::{FaultKind, Summary};
use crate::api::attributes::FileType;
use crate::api::ids::{Cookie, Ino};
use crate::api::trees::TreeState;
use crate::count::count;
use crate::encoding::key;
use crate::encoding::key::Table;
use crate::encoding::record::{CookieRecord, InodeRecord, TreeRecord};
use crate::limits::DIRECTORY_DEPTH_MAX;
use crate::tables::index::IndexError;

/// An inode: parts of its record, and what was counted elsewhere.
#[derive(Clone, Debug, Default)]
pub(super) struct Node {
    /// Its type; `None` if its record does not decode.
    pub file_type: Option<FileType>,
    /// Names that it has.
    pub names: u32,
    /// Of a directory: names in it.
    pub entries: u64,
    /// Of a directory: directories among these.
    pub subdirectories: u32,
    /// Of a directory: the highest cookie in it.
    pub highest_cookie: Cookie,
    /// The first of its names: the directory, and the cookie there.
    pub first: Option<(Ino, Cookie)>,
    /// Bytes that its map covers.
    pub mapped: u64,
    /// Extended attributes that it has, and what they count towards their limit.
    pub xattrs: (u32, u64),
    /// The quota tree that its record names; zero for none.
    pub tree: u64,
    /// Whether its record is lost.
    pub lost: bool,
    /// Whether the table of orphans lists it.
    pub orphan: bool,
    /// Whether the root was found above it, if it is a directory.
    connected: Connected,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Connected {
    #[default]
    Unknown,
    /// On the path that is being followed.
    OnPath,
    Known,
}

/// All inodes.
#[derive(Debug, Default)]
pub(super) struct Tree {
    pub nodes: BTreeMap<Ino, Node>,
    /// The quota trees, by the directory that each is of.
    pub quota_trees: BTreeMap<Ino, TreeState>,
}

impl Tree {
    /// Loads all inodes.
    pub(super) fn load(&mut self, view: &View) -> Result<(), IndexError> {
        view.each(view.volume, Table::Inode, &mut |fields, value| {
            let Some(ino) = key::number(fields).map(Ino) else { return };
            let record = InodeRecord::decode(value).ok();
            let file_type = record.as_ref().map(|record| record.file_type);
            let tree = record.map_or(0, |record| record.tree);
            self.nodes.insert(ino, Node { file_type, tree, ..Node::default() });
        })?;
        view.each(view.volume, Table::Tree, &mut |fields, value| {
            let record = TreeRecord::decode(value).ok().map(|record| record.state);
            self.quota_trees.extend(key::number(fields).map(Ino).zip(record));
        })?;
        if !self.nodes.contains_key(&Ino::ROOT) && view.is_lost(&key::inode(view.volume.object(Ino::ROOT))) {
            self.add_lost(Ino::ROOT, Some(FileType::Directory));
        }
        Ok(())
    }

    /// Loads the held files without a name.
    pub(super) fn load_orphans(&mut self, view: &View, findings: &mut Findings) -> Result<(), IndexError> {
        view.each(view.volume, Table::Orphan, &mut |fields, _| {
            let Some(ino) = key::number(fields).map(Ino) else { return };
            match self.nodes.get_mut(&ino) {
                Some(node) if matches!(node.file_type, None | Some(FileType::Regular)) => node.orphan = true,
                None if view.is_lost(&key::inode(view.volume.object(ino))) => {
                    self.add_lost(ino, Some(FileType::Regular))
                }
                other => {
                    let what = if other.is_none() { "does not exist" } else { "is not a regular file" };
                    let what = format!("inode {ino} is to be kept although it has no name, but it {what}");
                    findings.add(FaultKind::Tree, None, what);
                }
            }
        })
    }

    /// Adds an object whose record is lost.
    pub(super) fn add_lost(&mut self, ino: Ino, file_type: Option<FileType>) {
        self.nodes.insert(ino, Node { file_type, lost: true, ..Node::default() });
    }

    /// Reports the objects whose records are lost.
    pub(super) fn report_lost(&self, findings: &mut Findings, summary: &mut Summary) {
        for (ino, node) in self.nodes.iter().filter(|(_, node)| node.lost) {
            summary.lost_objects += 1;
            let what = match node.file_type {
                Some(FileType::Directory) => format!(
                    "the record of this directory (inode {ino}) is lost, with its owner, mode and times; it still has {}",
                    count(node.entries, "name")
                ),
                _ => format!(
                    "the record of this object (inode {ino}) is lost, with its owner, mode, times and size; its data may \
                     be readable"
                ),
            };
            findings.add(FaultKind::Lost, Some(*ino), what);
        }
    }

    /// Whether a directory has this number.
    pub(super) fn is_directory(&self, ino: Ino) -> bool {
        self.nodes.get(&ino).is_some_and(|node| matches!(node.file_type, None | Some(FileType::Directory)))
    }

    /// Returns the path of an object, if it has one. Above a nameless object, the path begins with its number.
    pub(super) fn path(&self, view: &View, ino: Ino) -> Option<String> {
        if ino == Ino::ROOT {
            return self.nodes.contains_key(&ino).then(|| "/".to_owned());
        }
        let mut names: Vec<String> = Vec::new();
        let mut at = ino;
        while at != Ino::ROOT {
            let Some((directory, cookie)) = self.nodes.get(&at).and_then(|node| node.first) else { break };
            if names.len() == DIRECTORY_DEPTH_MAX {
                return None;
            }
            names.push(name_of(view, directory, cookie));
            at = directory;
        }
        if names.is_empty() {
            return None;
        }
        names.push(if at == Ino::ROOT { String::new() } else { format!("(inode {at})") });
        names.reverse();
        Some(names.join("/"))
    }

    /// Checks that there is a root and that every directory with a name is below it. Objects without a name are found
    /// elsewhere.
    pub(super) fn check_connected(&mut self, findings: &mut Findings) {
        match self.nodes.get_mut(&Ino::ROOT) {
            None => findings.add(FaultKind::Tree, None, "the root directory is missing".to_owned()),
            Some(root) => {
                root.connected = Connected::Known;
                if root.file_type.is_some_and(|file_type| file_type != FileType::Directory) {
                    let what = "the root is not a directory".to_owned();
                    findings.add(FaultKind::Tree, Some(Ino::ROOT), what);
                }
            }
        }
        let directories: Vec<Ino> = self
            .nodes
            .iter()
            .filter(|(_, node)| node.file_type == Some(FileType::Directory))
            .map(|(ino, _)| *ino)
            .collect();
        for directory in directories {
            if let Some(cycle) = self.follow(directory) {
                let what = format!("directory inode {cycle} lies below itself: nothing in it can be reached");
                findings.add(FaultKind::Tree, None, what);
            }
        }
    }

    /// Follows the parents of a directory up to one whose connection is known; returns a directory of a new cycle.
    fn follow(&mut self, from: Ino) -> Option<Ino> {
        let mut path = Vec::new();
        let mut at = from;
        let mut cycle = None;
        while let Some(node) = self.nodes.get_mut(&at) {
            match node.connected {
                Connected::Known => break,
                Connected::OnPath => {
                    cycle = Some(at);
                    break;
                }
                Connected::Unknown => node.connected = Connected::OnPath,
            }
            path.push(at);
            let Some((directory, _)) = node.first else { break };
            at = directory;
        }
        for ino in path {
            if let Some(node) = self.nodes.get_mut(&ino) {
                node.connected = Connected::Known;
            }
        }
        cycle
    }
}

/// Returns a name by its cookie, or the cookie's number if it cannot be read.
fn name_of(view: &View, directory: Ino, cookie: Cookie) -> String {
    let value = view.get(&key::cookie(view.volume.object(directory), cookie)).ok().flatten();
    match value.and_then(|value| CookieRecord::decode(&value).ok()) {
        Some(record) => String::from_utf8_lossy(&record.name).into_owned(),
        None => format!("(name {cookie} of inode {directory})"),
    }
}
