//! Offline check of a volume that is closed or crashed: `holdfast check`.
//!
//! It changes nothing on media: writes that opening the index requires stay in memory, and the journal is replayed in
//! memory, as [`Volume::open`](crate::Volume::open) would, without cutting or rewriting anything. The check covers what
//! the next opening would see: the journal's records over the index's.
//!
//! The checks go from the bottom to the top. First every record must decode. Blocks of the index that cannot be read
//! leave ranges of keys whose records are lost; the check goes on around them, and reports what it then misses as lost
//! rather than as contradictory. Then come the tree of names, each inode's claims about itself, the maps of files, extents
//! and segments, with [`CheckOptions::read_data`] all file data, and the usage counters.
//!
//! A check neither repairs the index nor relies on its library, which refuses everything after one block that it could not
//! read.
//!
//! Neither a torn tail of the journal nor a segment file that nothing names is a fault: a crash leaves both.
//!
//! # Memory
//! Tables are streamed, but each inode takes some 100 bytes and each extent some 300, besides the journal's records
//! and [`INDEX_CACHE_BYTES`] for the index.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::api::ids::{SegmentId, VolumeNumber};
use crate::count::count;
use crate::encoding::entry::UsageDelta;
use crate::media::Media;
use crate::open::OpenError;
use crate::tables::index::IndexError;

mod copy;
mod data;
mod extents;
pub(crate) mod findings;
mod inodes;
mod maps;
mod names;
mod quota_trees;
pub(crate) mod records;
#[cfg(test)]
pub(crate) mod tests;
mod tree;
mod usage;
pub(crate) mod view;

use findings::Findings;
use maps::Uses;
use tree::Tree;
use view::View;

/// Memory of the index library during a check, bytes.
pub const INDEX_CACHE_BYTES: usize = 64 << 20;

/// How thorough a check is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckOptions {
    /// Also read all file data and verify its checksums.
    pub read_data: bool,
    /// Most faults to list; more are only counted.
    pub faults_max: usize,
}

impl Default for CheckOptions {
    fn default() -> CheckOptions {
        CheckOptions { read_data: true, faults_max: 1000 }
    }
}

/// Result of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// What is wrong; none means that the volume is sound.
    pub faults: Vec<Fault>,
    /// Faults beyond those listed.
    pub more_faults: u64,
    /// How many of all faults [`repair`](crate::repair::repair) can mend: none if there is an obstacle. The others are
    /// lost data.
    pub repairable_faults: u64,
    /// Why the volume cannot be repaired.
    pub obstacle: Option<Obstacle>,
    /// Remarks that are not faults, as plain sentences.
    pub notes: Vec<String>,
    /// What the volume contains.
    pub summary: Summary,
}

impl Report {
    /// Whether no fault was found.
    pub fn is_clean(&self) -> bool {
        self.faults.is_empty() && self.more_faults == 0
    }

    /// Says in a sentence what the faults leave intact.
    pub fn intact(&self) -> String {
        let loses = |fault: &Fault| {
            matches!(
                fault.kind,
                FaultKind::Index
                    | FaultKind::Lost
                    | FaultKind::Journal
                    | FaultKind::Record
                    | FaultKind::Extent
                    | FaultKind::Segment
                    | FaultKind::Data
            )
        };
        let Summary { inodes, verified_bytes, .. } = self.summary;
        let data = match verified_bytes {
            0 => "file data was not read".to_owned(),
            bytes => format!("{} of file data read and verified", count(bytes, "byte")),
        };
        let objects = count(inodes, "object");
        if self.is_clean() {
            return format!("everything is intact: {objects}; {data}");
        }
        if self.more_faults == 0 && !self.faults.iter().any(loses) {
            return format!("no object or data is lost: the faults concern names and counters; {data}");
        }
        format!("what is not named above is intact: {objects}, with all attributes; {data}")
    }
}

/// Why a volume can be neither opened nor repaired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// The record about the pool or that about a volume is lost.
    Meta,
    /// The journal is damaged, or is not this volume's.
    Journal,
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Obstacle::Meta => {
                "the record with the key of its file handles and its place in the journal is lost"
            }
            Obstacle::Journal => "its journal is damaged, or is not its own",
        })
    }
}

/// Contents of a volume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Objects of all types, the root directory included.
    pub inodes: u64,
    /// Directories, the root included.
    pub directories: u64,
    /// Regular files.
    pub files: u64,
    /// Names.
    pub names: u64,
    /// Bytes of file data, holes left out.
    pub used_bytes: u64,
    /// Extents that files refer to, or that wait to be freed.
    pub extents: u64,
    /// Segments.
    pub segments: u64,
    /// Bytes of the extents in the index.
    pub live_bytes: u64,
    /// Journal entries that the next opening replays.
    pub journal_entries: u64,
    /// Their bytes.
    pub journal_bytes: u64,
    /// Bytes of torn journal batches that the next opening cuts.
    pub journal_cut_bytes: u64,
    /// Bytes of file data in segments that were read and verified.
    pub verified_bytes: u64,
    /// Objects that exist, but whose own record is lost.
    pub lost_objects: u64,
    /// Names that directories had beyond those that can be read.
    pub lost_names: u64,
    /// Bytes of file data that cannot be read.
    pub lost_bytes: u64,
}

/// A fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// What it is about.
    pub kind: FaultKind,
    /// The affected path, from the volume's root: one of the names if the object has several. Bytes that are not
    /// UTF-8 are shown as U+FFFD. `None` if no path is affected, or the object has none.
    pub path: Option<String>,
    /// What is wrong, in plain words.
    pub what: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.path {
            Some(path) => write!(f, "{path}: {}", self.what),
            None => f.write_str(&self.what),
        }
    }
}

/// The subject of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FaultKind {
    /// Part of the index cannot be read.
    Index,
    /// What an object lacks because the index lost records.
    Lost,
    /// The journal is damaged, or is not this volume's.
    Journal,
    /// A record of the index does not decode, or belongs to no table.
    Record,
    /// A counter would hand out a number again.
    Number,
    /// A name that names nothing, or that LOOKUP and READDIR see differently.
    Name,
    /// An object without a name, or directories that are not connected to the root.
    Tree,
    /// A wrong count of links.
    Links,
    /// A wrong field in the record of a directory.
    Directory,
    /// A wrong field in the record of another object.
    Inode,
    /// A symbolic link without a proper target.
    Symlink,
    /// The map of a file.
    Map,
    /// A file's count of bytes in use.
    Used,
    /// An extent: its row, its place, its reference count.
    Extent,
    /// A segment: its row, its file, its count of live bytes.
    Segment,
    /// File data that is missing or does not verify.
    Data,
    /// A usage counter.
    Usage,
}

impl FaultKind {
    /// All kinds.
    pub const ALL: [FaultKind; 17] = [
        FaultKind::Index,
        FaultKind::Lost,
        FaultKind::Journal,
        FaultKind::Record,
        FaultKind::Number,
        FaultKind::Name,
        FaultKind::Tree,
        FaultKind::Links,
        FaultKind::Directory,
        FaultKind::Inode,
        FaultKind::Symlink,
        FaultKind::Map,
        FaultKind::Used,
        FaultKind::Extent,
        FaultKind::Segment,
        FaultKind::Data,
        FaultKind::Usage,
    ];

    /// Whether a repair mends it. Data that is lost stays lost, and a volume with a damaged journal is not opened.
    pub fn is_repairable(self) -> bool {
        !matches!(self, FaultKind::Data | FaultKind::Journal)
    }

    /// Returns the word for `--json`.
    pub fn word(self) -> &'static str {
        match self {
            FaultKind::Index => "index",
            FaultKind::Lost => "lost",
            FaultKind::Journal => "journal",
            FaultKind::Record => "record",
            FaultKind::Number => "number",
            FaultKind::Name => "name",
            FaultKind::Tree => "tree",
            FaultKind::Links => "links",
            FaultKind::Directory => "directory",
            FaultKind::Inode => "inode",
            FaultKind::Symlink => "symlink",
            FaultKind::Map => "map",
            FaultKind::Used => "used",
            FaultKind::Extent => "extent",
            FaultKind::Segment => "segment",
            FaultKind::Data => "data",
            FaultKind::Usage => "usage",
        }
    }
}

/// Checks a volume that is not open, and changes nothing.
///
/// # Errors
/// The check is impossible: the index is missing, does not open, or holds no volume of this format; or media cannot
/// be listed. Every other problem is a [`Fault`].
pub fn check(media: &Arc<dyn Media>, options: &CheckOptions) -> Result<Report, OpenError> {
    let blobs = media
        .list_blobs()
        .map_err(|error| OpenError(format!("the segments of the pool cannot be listed: {error}")))?;
    let mut findings = Findings::new(options.faults_max);
    let mut summary = Summary::default();
    let mut view = View::open(media.as_ref())?;
    records::check_index(&mut view, &mut findings)
        .map_err(|error| OpenError(format!("the index cannot be read: {error}")))?;
    if view.lost().iter().all(|lost| lost.is_recorded)
        && let Err(error) = view::open_for_changes(media.as_ref())
    {
        let what = format!("all records can be read, but the index takes no changes: {error}");
        findings.add(FaultKind::Index, None, what);
    }
    let usage_deltas = view.replay(media.log().as_ref(), &mut findings, &mut summary);
    if summary.journal_cut_bytes > 0 {
        findings.note(format!(
            "a crash tore the end of the journal: the next start discards {} of changes that were never acknowledged",
            count(summary.journal_cut_bytes, "byte")
        ));
    }
    let mut trees = BTreeMap::new();
    let walked = Walk { media, view: &mut view, options, findings: &mut findings, summary: &mut summary }
        .run(&mut trees, &blobs, &usage_deltas);
    if let Err(error) = walked {
        findings.add(FaultKind::Index, None, format!("{error}; what follows it was not checked"));
    }
    Ok(findings.report(&mut view, &trees, summary))
}

/// A check in progress.
struct Walk<'a> {
    media: &'a Arc<dyn Media>,
    view: &'a mut View,
    options: &'a CheckOptions,
    findings: &'a mut Findings,
    summary: &'a mut Summary,
}

impl Walk<'_> {
    fn run(
        &mut self,
        trees: &mut BTreeMap<VolumeNumber, Tree>,
        blobs: &[SegmentId],
        usage_deltas: &[(VolumeNumber, UsageDelta)],
    ) -> Result<(), IndexError> {
        records::check_numbers(self.view, self.findings)?;
        let mut uses = Uses::default();
        let volumes: Vec<(VolumeNumber, bool)> =
            self.view.volumes.iter().map(|(number, record)| (*number, record.is_deleted)).collect();
        for (volume, is_deleted) in volumes {
            (self.view.volume, self.findings.volume) = (volume, volume);
            if is_deleted {
                maps::count_deleted(self.view, &mut uses)?;
            } else {
                self.check_volume(trees.entry(volume).or_default(), &mut uses, usage_deltas)?;
            }
        }
        let segments = extents::check_extents(self.view, uses, blobs, self.findings, self.summary)?;
        if self.options.read_data {
            data::check_data(self.media.as_ref(), &segments, self.findings, self.summary);
        }
        Ok(())
    }

    /// Checks the volume that the view looks at.
    fn check_volume(
        &mut self,
        tree: &mut Tree,
        uses: &mut Uses,
        usage_deltas: &[(VolumeNumber, UsageDelta)],
    ) -> Result<(), IndexError> {
        tree.load(self.view)?;
        tree.load_orphans(self.view, self.findings)?;
        names::check_names(self.view, tree, self.findings, self.summary)?;
        names::check_cookies(self.view, tree, self.findings, self.summary)?;
        tree.report_lost(self.findings, self.summary);
        tree.check_connected(self.findings);
        let mappings = maps::check_index_maps(self.view, tree, uses, self.findings, self.summary)?;
        usage::check_map_count(self.view, mappings, self.findings)?;
        maps::check_recent_maps(self.view, tree, uses, self.findings)?;
        inodes::count_xattrs(self.view, tree, self.findings)?;
        let totals = inodes::check_inodes(self.view, tree, self.findings, self.summary)?;
        inodes::check_symlinks(self.view, tree, self.findings)?;
        quota_trees::check_roots(self.view, tree, self.findings);
        usage::check_usage(self.view, usage_deltas, &totals, self.findings)
    }
}
