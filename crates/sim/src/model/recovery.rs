//! What a crash may take back.
//!
//! Mutations (changes of names and attributes) go through one journal: a crash keeps the first *k* of them, where *k*
//! is at least the last mutation that any reply has shown. Each file's data is judged separately:
//! - A change is *safe* if it is a size set by one of those *k* mutations, a stable WRITE whose reply left, a byte of a
//!   stable WRITE that a READ whose reply left has shown, or a byte that a COMMIT whose reply left has covered.
//! - Each byte holds the value of its last safe change or of any later change. Later changes are kept or lost sector by
//!   sector; their order relative to safe ones is kept.
//! - The size is that of the safe changes, the end of any later WRITE, or the start of what replaced the tail of one;
//!   mtime, ctime and mode are those of the last safe change or of a later one.
//!
//! Everything else equals the model's state after mutation *k*.

use std::collections::BTreeMap;
use std::rc::Rc;

use volume::attributes::FileType;
use volume::quota::{Limits, Owner};

use super::content::Content;
use super::inode::{Change, ChangeKind, Inode};
use super::quotas::{Usage, count};
use super::{Judgement, Model};
use crate::call::{Attrs, Listed, OperationId};

/// The parts of a file that are compared: start and length. The workload writes only there.
pub const WINDOWS: [(u64, u32); 3] = [(0, 512 << 10), (1 << 30, 256 << 10), (1 << 41, 256 << 10)];

/// An object found in an engine.
#[derive(Clone, Debug)]
pub struct FoundObject {
    /// Its attributes.
    pub seen: Attrs,
    /// The entries of a directory, `.` and `..` included.
    pub entries: Vec<Listed>,
    /// The target of a symlink.
    pub target: Vec<u8>,
    /// Its extended attributes.
    pub xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
    /// The bytes in each of [`WINDOWS`] that starts below the size; `None` where they cannot be read.
    pub windows: Vec<Option<Vec<u8>>>,
    /// The ranges of a file that are no holes, start to end.
    pub data: Vec<(u64, u64)>,
    /// The attributes after all of that was read.
    pub seen_after: Attrs,
}

/// The whole content found in an engine.
#[derive(Clone, Debug, Default)]
pub struct Tree {
    /// The objects, by inode number.
    pub objects: BTreeMap<u64, FoundObject>,
    /// Records of protocol state.
    pub state: BTreeMap<Vec<u8>, Vec<u8>>,
    /// The limits in force of the owners that a workload limits.
    pub quotas: BTreeMap<Owner, Limits>,
    /// The limits that were set: an owner may have been given none, so that those of all others are not in force for him.
    pub set_limits: BTreeMap<Owner, Limits>,
}

impl FoundObject {
    /// Returns the bytes that count for its owners.
    fn used(&self) -> u64 {
        match self.seen.kind {
            FileType::Regular => self.seen.used,
            // Of a directory, the attribute also counts its names.
            _ => self.xattrs.iter().map(|(name, value)| (name.len() + value.len() + 32) as u64).sum(),
        }
    }

    /// Returns how many names count besides the first.
    fn further_names(&self) -> u64 {
        match self.seen.kind {
            FileType::Directory => 0,
            _ => u64::from(self.seen.links.max(1)) - 1,
        }
    }
}

impl Tree {
    /// Returns what all owners use.
    #[must_use]
    pub fn usage(&self) -> BTreeMap<Owner, Usage> {
        let mut used = BTreeMap::new();
        for found in self.objects.values() {
            count(&mut used, (found.seen.uid, found.seen.gid), found.used(), found.further_names());
        }
        used
    }
}

/// A range that a reply has shown.
#[derive(Clone, Copy, Debug)]
struct ShownRange {
    operation: OperationId,
    start: u64,
    end: u64,
    /// Whether it was a COMMIT.
    committed: bool,
}

/// The ranges that replies which left have shown.
#[derive(Clone, Debug, Default)]
pub struct SafeRanges {
    ranges: BTreeMap<u64, Vec<ShownRange>>,
}

impl SafeRanges {
    /// Adds a range from start to end that the reply to `operation` has shown or committed.
    pub fn add(&mut self, operation: OperationId, (ino, start, end): (u64, u64, u64), committed: bool) {
        self.ranges.entry(ino).or_default().push(ShownRange { operation, start, end, committed });
    }

    fn of(&self, ino: u64) -> &[ShownRange] {
        self.ranges.get(&ino).map_or(&[], Vec::as_slice)
    }

    /// Whether this byte of the change is safe.
    fn covers(&self, ino: u64, change: &Change, at: u64) -> bool {
        let ChangeKind::Write { stable, .. } = &change.kind else { return true };
        self.of(ino).iter().any(|range| {
            range.operation >= change.operation
                && (range.start..range.end).contains(&at)
                && (*stable || range.committed)
        })
    }

    /// Returns the parts of a WRITE, start to end, and whether each is safe.
    fn parts(&self, ino: u64, change: &Change) -> Vec<(u64, u64, bool)> {
        let ChangeKind::Write { offset, bytes, .. } = &change.kind else { return Vec::new() };
        let end = offset + bytes.len() as u64;
        let mut cuts = vec![*offset, end];
        for range in self.of(ino) {
            cuts.extend([range.start, range.end].iter().filter(|at| (*offset..end).contains(at)));
        }
        cuts.sort_unstable();
        cuts.dedup();
        cuts.windows(2).map(|ends| (ends[0], ends[1], self.covers(ino, change, ends[0]))).collect()
    }

    /// Whether any byte of the change is safe; with `all`, whether all bytes are.
    fn touches(&self, ino: u64, change: &Change, all: bool) -> bool {
        if !matches!(change.kind, ChangeKind::Write { .. }) {
            return true;
        }
        let parts = self.parts(ino, change);
        let mut safe = parts.iter().map(|(_, _, safe)| *safe);
        if all { safe.all(|safe| safe) } else { safe.any(|safe| safe) }
    }
}

fn value(change: &Change, at: u64) -> Option<u8> {
    match &change.kind {
        ChangeKind::Write { offset, bytes, .. } => {
            let within = usize::try_from(at.checked_sub(*offset)?).ok()?;
            bytes.get(within).copied()
        }
        ChangeKind::Size(size) if at >= *size => Some(0),
        ChangeKind::Punch(start, end) if (*start..*end).contains(&at) => Some(0),
        ChangeKind::Copy(start, end, source, from) if (*start..*end).contains(&at) => {
            Some(source.read(from + (at - start), 1).first().copied().unwrap_or(0))
        }
        _ => None,
    }
}

/// Returns where a WRITE may end that was not safe: at its end, or where a later change begins that replaced its tail before the
/// engine had saved it.
fn saved_ends(change: &Change, later: &[Change]) -> Vec<u64> {
    let ChangeKind::Write { offset, bytes, .. } = &change.kind else { return Vec::new() };
    let end = offset + bytes.len() as u64;
    let starts = later.iter().filter_map(|change| match &change.kind {
        ChangeKind::Write { offset: start, .. }
        | ChangeKind::Punch(start, _)
        | ChangeKind::Copy(start, ..) => Some(*start),
        _ => None,
    });
    starts.filter(|start| (*offset + 1..end).contains(start)).chain([end]).collect()
}

impl Model {
    /// Compares a tree found after a crash with this state.
    ///
    /// # Errors
    /// The first difference.
    pub fn compare(&self, tree: &Tree, safe: &SafeRanges) -> Judgement<()> {
        if *self.state != tree.state {
            return Err(format!("the state is {:?}, expected {:?}", tree.state, self.state));
        }
        if let Some(ino) = tree.objects.keys().find(|ino| !self.inodes.contains_key(ino)) {
            return Err(format!("inode {ino} should not exist"));
        }
        for (ino, inode) in &self.inodes {
            let found = tree.objects.get(ino).ok_or_else(|| format!("inode {ino} is missing"))?;
            inode.compare(*ino, found, safe).map_err(|wrong| {
                let times = (found.seen.mtime, found.seen.ctime, &inode.mtime, &inode.ctime);
                format!("inode {ino} ({:?}): {wrong}; times {times:?}", inode.kind)
            })?;
        }
        self.compare_quotas(tree)
    }

    /// Adopts the tree as the new state.
    pub fn adopt(&mut self, tree: &Tree) {
        for (ino, found) in &tree.objects {
            let inode = self.edit(*ino);
            inode.changes.clear();
            inode.soft = 0;
            inode.adopt(&found.seen_after);
            if inode.kind == FileType::Regular {
                inode.adopt_bytes(found);
            }
            inode.base = inode.content.clone();
            inode.base_stamp = inode.stamp();
            inode.untouched = false;
            for listed in &found.entries {
                if let Some(entry) = inode.entries.get_mut(&listed.name) {
                    entry.cookie = Some(listed.cookie);
                }
            }
        }
    }

    /// Makes everything safe, as closing the volume does.
    pub fn declare_durable(&mut self) {
        let inodes: Vec<u64> = self.inodes.keys().copied().collect();
        for ino in inodes {
            let inode = self.edit(ino);
            inode.changes.clear();
            (inode.base, inode.base_stamp) = (inode.content.clone(), inode.stamp());
        }
    }

    /// Marks all data as written back.
    pub fn written_back(&mut self) {
        let inodes: Vec<u64> = self.inodes.keys().copied().collect();
        inodes.into_iter().for_each(|ino| self.edit(ino).soft = 0);
    }

    /// Adopts the atimes that reading the tree has set.
    pub fn adopt_reads(&mut self, tree: &Tree) {
        for (ino, found) in &tree.objects {
            self.edit(*ino).atime = super::PossibleTimes::at(found.seen_after.atime);
        }
    }

    /// Returns the bytes that all objects use.
    #[must_use]
    pub fn used(&self) -> u64 {
        self.inodes.values().map(|inode| inode.used()).sum()
    }
}

impl Inode {
    fn compare(&self, ino: u64, found: &FoundObject, safe: &SafeRanges) -> Judgement<()> {
        let seen = &found.seen;
        let mut fixed = self.clone();
        fixed.atime = super::PossibleTimes::at(seen.atime);
        fixed.compare_fixed(seen)?;
        self.compare_names(ino, &found.entries)?;
        if self.kind == FileType::Symlink && found.target != self.target {
            return Err("another target".to_owned());
        }
        if found.xattrs != *self.xattrs {
            let names: Vec<_> = found.xattrs.keys().collect();
            return Err(format!(
                "extended attributes {names:?}, expected {:?}; or their values differ",
                self.xattrs.keys()
            ));
        }
        let settled = self.changes.iter().all(|change| safe.touches(ino, change, true));
        if settled {
            fixed.compare_and_adopt(seen)?;
            return self.compare_bytes(ino, found, safe, &self.content);
        }
        self.compare_stamps(ino, seen, safe)?;
        let certain = self.certain(ino, safe);
        self.compare_size(ino, seen.size, safe, &certain)?;
        self.compare_bytes(ino, found, safe, &certain)
    }

    fn compare_names(&self, ino: u64, entries: &[Listed]) -> Judgement<()> {
        if !self.is_directory() {
            return Ok(());
        }
        let plain = entries.iter().filter(|listed| listed.name != b"." && listed.name != b"..");
        let mut count = 0;
        for listed in plain {
            let name = listed.name.escape_ascii();
            let entry = self.entries.get(&listed.name).ok_or_else(|| format!("{name} should not exist"))?;
            if entry.ino != listed.ino {
                return Err(format!("{name} is inode {}, expected {}", listed.ino, entry.ino));
            }
            if entry.cookie.is_some_and(|cookie| cookie != listed.cookie) {
                return Err(format!("{name} has cookie {}, had {:?}", listed.cookie, entry.cookie));
            }
            count += 1;
        }
        if count != self.entries.len() {
            let missing: Vec<_> = self
                .entries
                .iter()
                .filter(|(name, _)| entries.iter().all(|listed| listed.name != **name))
                .map(|(name, entry)| (name.escape_ascii().to_string(), entry.ino, entry.cookie))
                .collect();
            return Err(format!("{count} names; {missing:?} are missing"));
        }
        let dots = entries.iter().find(|listed| listed.name == b"..");
        match dots {
            Some(listed) if listed.ino != self.parent => {
                Err(format!("inode {ino}: `..` is {}, expected {}", listed.ino, self.parent))
            }
            _ => Ok(()),
        }
    }

    /// Returns the content that the safe changes alone produce.
    fn certain(&self, ino: u64, safe: &SafeRanges) -> Content {
        let mut content = self.base.clone();
        for change in &self.changes {
            match &change.kind {
                ChangeKind::Size(size) => content.set_size(*size),
                ChangeKind::Grow(size) => content.set_size(content.size.max(*size)),
                ChangeKind::Punch(start, end) => content.punch(*start, *end),
                ChangeKind::Copy(start, end, source, from) => {
                    content.copy(source, *from, *start, end - start)
                }
                ChangeKind::Touch => {}
                ChangeKind::Write { offset, bytes, .. } => {
                    let within = |at: u64| usize::try_from(at - offset).expect("within a WRITE");
                    for (start, end, _) in safe.parts(ino, change).iter().filter(|(_, _, safe)| *safe) {
                        content.write(*start, &bytes[within(*start)..within(*end)]);
                    }
                }
            }
        }
        content
    }

    /// Compares times, change value and mode with those of the last safe change and of later ones.
    fn compare_stamps(&self, ino: u64, seen: &Attrs, safe: &SafeRanges) -> Judgement<()> {
        let touched = |change: &Change| {
            !matches!(change.kind, ChangeKind::Write { .. }) || safe.touches(ino, change, false)
        };
        let last = self.changes.iter().rposition(touched);
        let first = last.map_or(&self.base_stamp, |at| &self.changes[at].stamp);
        let later = &self.changes[last.map_or(0, |at| at + 1)..];
        let stamps = || std::iter::once(first).chain(later.iter().map(|change| &change.stamp));
        // A safe change of attributes may carry the times of earlier writes that are not safe.
        let all = || std::iter::once(&self.base_stamp).chain(self.changes.iter().map(|change| &change.stamp));
        if !stamps().any(|stamp| stamp.ctime.is(seen.ctime)) {
            return Err(format!(
                "ctime {} belongs to no change from the last safe one on ({:?})",
                seen.ctime, first.ctime
            ));
        }
        if !all().any(|stamp| stamp.mtime.is(seen.mtime)) {
            return Err(format!("mtime {} never was", seen.mtime));
        }
        if !stamps().any(|stamp| stamp.mode.is_empty() || stamp.mode.contains(&seen.mode)) {
            return Err(format!("mode {:o} belongs to no change from the last safe one on", seen.mode));
        }
        Ok(())
    }

    fn compare_size(&self, ino: u64, size: u64, safe: &SafeRanges, certain: &Content) -> Judgement<()> {
        let cut = self
            .changes
            .iter()
            .rposition(|change| matches!(change.kind, ChangeKind::Size(_)))
            .map_or(0, |at| at + 1);
        let changes = &self.changes[cut..];
        let unsafe_writes = (0..changes.len()).filter(|at| !safe.touches(ino, &changes[*at], true));
        let ends = unsafe_writes.flat_map(|at| saved_ends(&changes[at], &changes[at + 1..]));
        let possible: Vec<u64> = ends.filter(|end| *end > certain.size).chain([certain.size]).collect();
        if possible.contains(&size) {
            Ok(())
        } else {
            Err(format!("size is {size}, expected one of {possible:?}"))
        }
    }

    fn compare_bytes(
        &self,
        ino: u64,
        found: &FoundObject,
        safe: &SafeRanges,
        certain: &Content,
    ) -> Judgement<()> {
        if self.kind != FileType::Regular {
            return Ok(());
        }
        for ((start, length), bytes) in WINDOWS.iter().zip(&found.windows) {
            let Some(bytes) = bytes else { continue };
            let expected = found.seen.size.saturating_sub(*start).min(u64::from(*length));
            if bytes.len() as u64 != expected {
                return Err(format!("{} bytes at {start}, expected {expected}", bytes.len()));
            }
            let mut likely = certain.read(*start, expected);
            likely.resize(bytes.len(), 0);
            if likely == *bytes {
                continue;
            }
            for (at, (byte, likely)) in (*start..).zip(bytes.iter().zip(&likely)) {
                if likely != byte && !self.may_hold(ino, at, *byte, safe) {
                    return Err(format!(
                        "byte {at} is {byte:#x}, expected {likely:#x} or that of a later write"
                    ));
                }
            }
        }
        Ok(())
    }

    /// Whether a change after this byte's last safe one wrote `byte` there.
    fn may_hold(&self, ino: u64, at: u64, byte: u8, safe: &SafeRanges) -> bool {
        let mut allowed = Vec::new();
        for change in &self.changes {
            if let Some(value) = value(change, at) {
                if safe.covers(ino, change, at) {
                    allowed.clear();
                }
                allowed.push(value);
            }
        }
        allowed.contains(&byte)
    }

    /// Adopts the bytes found, and which ranges are holes.
    fn adopt_bytes(&mut self, found: &FoundObject) {
        let before = self.content.clone();
        self.content.set_size(found.seen_after.size);
        for ((start, _), bytes) in WINDOWS.iter().zip(&found.windows) {
            let Some(bytes) = bytes else { continue };
            let mut known = before.read(*start, bytes.len() as u64);
            known.resize(bytes.len(), 0);
            let differs = |at: &usize| known[*at] != bytes[*at];
            let (Some(first), Some(last)) = ((0..bytes.len()).find(differs), (0..bytes.len()).rfind(differs))
            else {
                continue;
            };
            self.content.write(start + first as u64, &bytes[first..=last]);
        }
        self.content.set_written(&found.data);
        self.used_free = self.used() != found.seen_after.used;
    }
}

/// A model that all boundaries share at which its state may be recovered.
pub type State = Rc<Model>;
