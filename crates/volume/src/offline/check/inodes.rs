//! Checks each inode's record against what was counted.

use std::collections::BTreeMap;

use super::findings::Findings;
use super::maps::may_be_lost;
use super::quota_trees;
use super::tree::{Node, Tree};
use super::view::View;
use super::{FaultKind, Summary};
use crate::api::attributes::FileType;
use crate::api::ids::{Ino, ObjectId};
use crate::api::quotas::QuotaKind;
use crate::count::count;
use crate::encoding::key;
use crate::encoding::key::{Key, Table};
use crate::encoding::record::{InodeRecord, UsageRecord, decode_xattr};
use crate::limits::{FILE_BYTES_MAX, SYMLINK_BYTES_MAX, XATTR_OVERHEAD_BYTES};
use crate::tables::index::IndexError;

/// Usage of all inodes, by owner.
pub(super) type Totals = BTreeMap<(QuotaKind, u64), UsageRecord>;

/// Checks all inodes, and sums up their usage.
pub(super) fn check_inodes(
    view: &View,
    tree: &Tree,
    findings: &mut Findings,
    summary: &mut Summary,
) -> Result<Totals, IndexError> {
    let mut totals = Totals::new();
    let mut failed = None;
    view.each(view.volume, Table::Inode, &mut |fields, value| {
        let Some(ino) = key::number(fields).map(Ino) else { return };
        summary.inodes += 1;
        let (Ok(record), Some(node)) = (InodeRecord::decode(value), tree.nodes.get(&ino)) else { return };
        summary.directories += u64::from(record.file_type == FileType::Directory);
        summary.files += u64::from(record.file_type == FileType::Regular);
        summary.used_bytes = summary.used_bytes.saturating_add(record.used);
        tally(&mut totals, &record);
        let mut faults = Faults { ino, findings, view };
        check_names(&mut faults, &record, node);
        quota_trees::check_tree(tree, node, ino, &mut |what| faults.add(FaultKind::Inode, what));
        if record.file_type == FileType::Directory {
            summary.lost_names += check_directory(&mut faults, &record, node);
        } else if record.parent != Ino(0) {
            faults.add(
                FaultKind::Inode,
                format!("it is not a directory, but has inode {} as parent", record.parent),
            );
        }
        summary.lost_bytes += check_sizes(&mut faults, &record, node);
        if record.file_type == FileType::Symlink
            && let Err(error) = check_target(&mut faults, view, &record)
        {
            failed = Some(error);
        }
    })?;
    failed.map_or(Ok(totals), Err)
}

/// Collects the faults of one inode.
struct Faults<'f> {
    ino: Ino,
    findings: &'f mut Findings,
    view: &'f View,
}

impl Faults<'_> {
    fn add(&mut self, kind: FaultKind, what: String) {
        self.findings.add(kind, Some(self.ino), what);
    }

    /// Whether records of this object with keys in `from <= key < to` may be lost.
    fn may_lack(&self, range: impl Fn(ObjectId) -> Key) -> bool {
        let id = self.view.volume.object(self.ino);
        self.view.has_lost(&range(id), &range(id.next()))
    }

    /// Whether this file was changed when some of its map was lost already, and its bytes could not be counted.
    fn has_inexact_map(&self) -> bool {
        self.view.has_recorded(
            &key::map(self.view.volume.object(self.ino), 0),
            &key::map(self.view.volume.object(Ino(self.ino.0.saturating_add(1))), 0),
        )
    }

    /// Whether names anywhere may be lost.
    fn may_lack_names(&self) -> bool {
        let (from, to) = key::table_range(self.view.volume, Table::Name);
        self.view.has_lost(&from, &to)
    }

    fn unless(&mut self, sound: bool, kind: FaultKind, what: impl FnOnce() -> String) {
        if !sound {
            self.add(kind, what());
        }
    }
}

fn tally(totals: &mut Totals, record: &InodeRecord) {
    let mut counters = vec![
        (QuotaKind::Volume, 0),
        (QuotaKind::User, u64::from(record.uid)),
        (QuotaKind::Group, u64::from(record.gid)),
    ];
    if record.tree != 0 {
        counters.push((QuotaKind::Tree, record.tree));
    }
    for counter in counters {
        let total = totals.entry(counter).or_default();
        total.inodes += if counter.0 == QuotaKind::Volume { record.usage_objects() } else { 1 };
        total.bytes = total.bytes.saturating_add(record.usage_bytes());
    }
}

/// Names and links.
fn check_names(faults: &mut Faults<'_>, record: &InodeRecord, node: &Node) {
    let ino = faults.ino;
    let is_directory = record.file_type == FileType::Directory;
    faults.unless(!node.orphan || record.links == 0, FaultKind::Tree, || {
        format!("it is to be kept although it has no name, but it has {}", count(record.links.into(), "link"))
    });
    if ino != Ino::ROOT && node.names == 0 && !(node.orphan && record.links == 0) {
        let (file_type, size) = (record.file_type, count(record.size, "byte"));
        if record.links == 0 && faults.view.is_lost(&key::orphan(faults.view.volume.object(ino))) {
            let what = format!(
                "inode {ino} ({file_type:?}, {size}) was removed, but is kept: the record of whether clients \
                 still have it open is lost"
            );
            return faults.add(FaultKind::Lost, what);
        }
        if faults.may_lack_names() {
            let what =
                format!("the name of inode {ino} ({file_type:?}, {size}) is lost: nobody can reach it");
            return faults.add(FaultKind::Lost, what);
        }
        let what = format!("inode {ino} ({file_type:?}, {size}) has no name: nobody can reach it");
        return faults.add(FaultKind::Tree, what);
    }
    if is_directory && node.names > 1 {
        faults.add(FaultKind::Tree, format!("directory inode {ino} has {} names", node.names));
    }
    let expected = if is_directory { node.subdirectories.saturating_add(2) } else { node.names };
    if record.links > expected && faults.may_lack_names() {
        if !is_directory {
            let (missing, names) = (record.links - expected, count(record.links.into(), "name"));
            faults.add(FaultKind::Lost, format!("it has lost {missing} of its {names}"));
        }
        return;
    }
    faults.unless(record.links == expected, FaultKind::Links, || {
        format!("its link count is {}, but should be {expected}", record.links)
    });
    faults.unless(record.links <= record.file_type.links_max(), FaultKind::Links, || {
        format!("its link count of {} is too high", record.links)
    });
}

/// Checks a directory's record; returns the number of names that are lost.
fn check_directory(faults: &mut Faults<'_>, record: &InodeRecord, node: &Node) -> u64 {
    let mut lost = 0;
    if record.entries > node.entries && faults.may_lack(|id| key::name(id, b"")) {
        lost = record.entries - node.entries;
        let names = count(record.entries, "name");
        faults.add(FaultKind::Lost, format!("this directory has lost {lost} of its {names}"));
    } else {
        faults.unless(record.entries == node.entries, FaultKind::Directory, || {
            format!("its name count is {}, but should be {}", record.entries, node.entries)
        });
    }
    let parent = if faults.ino == Ino::ROOT { Some(Ino::ROOT) } else { node.first.map(|(parent, _)| parent) };
    if let Some(parent) = parent {
        faults.unless(record.parent == parent, FaultKind::Directory, || {
            format!("it says that its parent is inode {}, but it lies in inode {parent}", record.parent)
        });
    }
    faults.unless(record.next_cookie > node.highest_cookie, FaultKind::Directory, || {
        let (next, highest) = (record.next_cookie, node.highest_cookie);
        format!("a name has cookie {highest}, but the next name would be given cookie {next}")
    });
    lost
}

/// Checks size, used bytes, map and truncations; returns the bytes of data whose place is lost.
fn check_sizes(faults: &mut Faults<'_>, record: &InodeRecord, node: &Node) -> u64 {
    let mut lost = 0;
    let (size, used, mapped_end) = (record.size, record.used, record.mapped_end);
    faults.unless(record.mode <= 0o7777, FaultKind::Inode, || {
        format!("its mode {:o} is out of range", record.mode)
    });
    faults.unless(size <= FILE_BYTES_MAX, FaultKind::Inode, || {
        format!("its size of {size} bytes is out of range")
    });
    faults.unless(mapped_end <= size, FaultKind::Inode, || {
        format!("its data may reach up to byte {mapped_end}, beyond its size of {size}")
    });
    if used > node.mapped && faults.may_lack(|id| key::map(id, 0)) {
        lost = used - node.mapped;
        let what = format!(
            "{lost} of its {} of data cannot be read: the records of their places are lost",
            count(used, "byte")
        );
        faults.add(FaultKind::Lost, what);
    } else if used < node.mapped && faults.has_inexact_map() {
        let what = format!(
            "places of its data are lost: its count of used bytes is {used}, but should be {}",
            node.mapped
        );
        faults.add(FaultKind::Lost, what);
    } else {
        faults.unless(used == node.mapped, FaultKind::Used, || {
            format!("its count of used bytes is {used}, but should be {}", node.mapped)
        });
    }
    if record.file_type != FileType::Regular {
        let empty = used == 0 && mapped_end == 0 && record.pending_truncations.is_empty();
        faults.unless(empty, FaultKind::Inode, || "it is not a regular file, but holds data".to_owned());
    }
    let (number, bytes) = (record.xattrs, u64::from(record.xattr_bytes));
    let lacks_xattrs = number > node.xattrs.0 && faults.may_lack(|id| key::xattr(id, b""));
    faults.unless(!lacks_xattrs, FaultKind::Lost, || {
        let all = count(number.into(), "extended attribute");
        format!("it has lost {} of its {all}", number - node.xattrs.0)
    });
    faults.unless(lacks_xattrs || (number, bytes) == node.xattrs, FaultKind::Inode, || {
        format!(
            "its extended attribute count is {number} ({}), but should be {} ({})",
            count(bytes, "byte"),
            node.xattrs.0,
            count(node.xattrs.1, "byte")
        )
    });
    let has_size = matches!(record.file_type, FileType::Regular | FileType::Symlink);
    faults.unless(has_size || size == 0, FaultKind::Inode, || {
        format!("it is neither file nor symbolic link, but has a size of {}", count(size, "byte"))
    });
    let ordered = record
        .pending_truncations
        .windows(2)
        .all(|pair| pair[0].from < pair[1].from && pair[0].count < pair[1].count);
    let counted = record.pending_truncations.last().is_none_or(|cut| cut.count <= record.truncations);
    faults.unless(ordered && counted, FaultKind::Inode, || {
        let pending = count(record.pending_truncations.len() as u64, "pending truncation");
        format!("its list of {pending} contradicts itself")
    });
    lost
}

fn check_target(faults: &mut Faults<'_>, view: &View, record: &InodeRecord) -> Result<(), IndexError> {
    let Some(value) = view.get(&key::symlink(faults.view.volume.object(faults.ino)))? else {
        if view.is_lost(&key::symlink(faults.view.volume.object(faults.ino))) {
            faults.add(FaultKind::Lost, "the target of this symbolic link is lost".to_owned());
        } else {
            faults.add(FaultKind::Symlink, "the symbolic link has no target".to_owned());
        }
        return Ok(());
    };
    let target = &value;
    let usable = !target.is_empty() && target.len() <= SYMLINK_BYTES_MAX && !target.contains(&0);
    faults.unless(usable, FaultKind::Symlink, || "no client can use the symbolic link's target".to_owned());
    faults.unless(target.len() as u64 == record.size, FaultKind::Symlink, || {
        let length = count(target.len() as u64, "byte");
        format!("the symbolic link's target has {length}, but it says {}", record.size)
    });
    Ok(())
}

/// Counts extended attributes; those of an object that does not exist must be waiting to be freed.
pub(super) fn count_xattrs(view: &View, tree: &mut Tree, findings: &mut Findings) -> Result<(), IndexError> {
    let mut strays: BTreeMap<Ino, u32> = BTreeMap::new();
    view.each(view.volume, Table::Xattr, &mut |fields, value| {
        let (Some(ino), Ok(value)) = (key::number(fields).map(Ino), decode_xattr(value)) else { return };
        match tree.nodes.get_mut(&ino) {
            Some(node) => {
                node.xattrs.0 += 1;
                node.xattrs.1 += (fields.len() - 8 + value.len() + XATTR_OVERHEAD_BYTES) as u64;
            }
            None => *strays.entry(ino).or_default() += 1,
        }
    })?;
    for (ino, number) in strays {
        if view.get(&key::reap(view.volume.object(ino)))?.is_none() && !may_be_lost(view, ino) {
            let found = count(number.into(), "extended attribute");
            let what = format!("inode {ino}, which does not exist, has {found}");
            findings.add(FaultKind::Inode, None, what);
        }
    }
    Ok(())
}

/// Checks that targets belong to symbolic links.
pub(super) fn check_symlinks(view: &View, tree: &Tree, findings: &mut Findings) -> Result<(), IndexError> {
    view.each(view.volume, Table::Symlink, &mut |fields, _| {
        let Some(ino) = key::number(fields).map(Ino) else { return };
        let what = match tree.nodes.get(&ino).map(|node| node.file_type) {
            None if view.is_lost(&key::inode(view.volume.object(ino))) => return,
            None => "does not exist",
            Some(Some(file_type)) if file_type != FileType::Symlink => "is not a symbolic link",
            Some(_) => return,
        };
        findings.add(
            FaultKind::Symlink,
            Some(ino),
            format!("there is a link target for inode {ino}, which {what}"),
        );
    })
}
