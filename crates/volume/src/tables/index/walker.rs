//! Reads records without the library, around pages that cannot be read.
//!
//! The library refuses everything once a single read failed. The walker reads its trees instead, page by page, and
//! fails only where a page on the way to a record cannot be read: all other records are as good as before. What is
//! below a lost page is a range of keys, which the keys beside it in its parent bound.
//!
//! Blocks are verified by [`CheckedFile`]; the checksums of pages that the library keeps in their parents are not
//! read. A page that verifies but makes no sense, such as one whose keys are not those that its parent has it for, is
//! lost like one that cannot be read. So no page is read twice on one walk, whatever pages refer to.

use std::fmt;
use std::ops::ControlFlow;
use std::sync::{Arc, OnceLock};

use foldhash::fast::FixedState;
use quick_cache::Weighter;
use quick_cache::sync::{Cache, DefaultLifecycle};
use redb::{StorageBackend, TableHandle as _};

use super::pages::{Branch, HEADER_BYTES, Header, Nonsense, Page, PageNumber, Regions, table_root};
use super::slots::BLOCK_BYTES;
use super::{CheckedFile, IndexError, LOST, RECORDS, Record, Visit};

/// Most levels of a tree; the library has the same limit.
const DEPTH_MAX: usize = 128;

/// The records of the commit that was the last when this was opened. The library must not reuse their pages while it
/// has the file open: a transaction that reads keeps it from that. If the file is reopened and then changed, reads
/// fail with [`IndexError::Closed`].
pub struct Walker {
    file: CheckedFile,
    regions: Regions,
    root: Option<PageNumber>,
    cache_bytes: usize,
    /// Pages by number. Most walkers never read one.
    pages: OnceLock<Pages>,
}

type Pages = Cache<PageNumber, Arc<Page>, PageWeight, FixedState>;

#[derive(Clone, Debug)]
struct PageWeight;

impl Weighter<PageNumber, Arc<Page>> for PageWeight {
    fn weight(&self, _: &PageNumber, page: &Arc<Page>) -> u64 {
        const OVERHEAD: usize = 128;
        (page.len() + OVERHEAD) as u64
    }
}

/// What [`Walker::salvage`] finds, in the order of keys.
#[derive(Debug)]
pub enum Salvaged<'a> {
    /// A record that can be read.
    Record {
        /// Its key.
        key: &'a [u8],
        /// Its value.
        value: &'a [u8],
    },
    /// What records there are with `from <= key < to` is unknown.
    Lost {
        /// The least key that may be lost.
        from: Vec<u8>,
        /// `None` if all keys from `from` on may be.
        to: Option<Vec<u8>>,
        /// The first block of the page that cannot be used, as the library numbers blocks.
        block: u64,
        /// Why it cannot.
        why: IndexError,
    },
}

/// A page of a tree, with the keys that it may hold: above one and up to another.
#[derive(Clone, Debug)]
struct Subtree {
    page: PageNumber,
    above: Option<Vec<u8>>,
    up_to: Option<Vec<u8>>,
    depth: usize,
}

impl Subtree {
    fn whole(page: PageNumber) -> Subtree {
        Subtree { page, above: None, up_to: None, depth: 0 }
    }

    fn child(&self, branch: &Branch, n: usize) -> Subtree {
        let above = n.checked_sub(1).map(|before| branch.key(before).to_vec()).or_else(|| self.above.clone());
        let up_to = match n + 1 < branch.children() {
            true => Some(branch.key(n).to_vec()),
            false => self.up_to.clone(),
        };
        Subtree { page: branch.child(n), above, up_to, depth: self.depth + 1 }
    }

    /// Whether the keys of a page are among those of this subtree. The greatest key of a branch has keys above it.
    fn may_be(&self, page: &Page) -> bool {
        let (least, greatest) = page.key_range();
        let ends_well = self.up_to.as_deref().is_none_or(|up_to| match page {
            Page::Leaf(_) => greatest <= up_to,
            Page::Branch(_) => greatest < up_to,
        });
        self.above.as_deref().is_none_or(|above| above < least) && ends_well
    }
}

impl fmt::Debug for Walker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Walker").field("root", &self.root).finish_non_exhaustive()
    }
}

impl Walker {
    /// Finds the records of the last commit; `cache_bytes` bounds the pages that are kept in memory. No commit may be
    /// under way.
    ///
    /// # Errors
    /// [`IndexError::Corrupt`] if the header or a page with the list of tables does not verify or makes no sense.
    pub fn open(file: CheckedFile, cache_bytes: usize) -> Result<Walker, IndexError> {
        let name = RECORDS.name();
        let records = Walker::open_table(file, name, cache_bytes)?;
        records.ok_or_else(|| IndexError::Corrupt(format!("it has no table `{name}`")))
    }

    /// Finds the lost ranges, in the same way; `None` if the index has none.
    pub(super) fn open_lost(file: CheckedFile, cache_bytes: usize) -> Result<Option<Walker>, IndexError> {
        Walker::open_table(file, LOST.name(), cache_bytes)
    }

    fn open_table(file: CheckedFile, name: &str, cache_bytes: usize) -> Result<Option<Walker>, IndexError> {
        let mut bytes = [0; HEADER_BYTES];
        file.read(0, &mut bytes)?;
        let header = Header::parse(&bytes).map_err(|nonsense| corrupt(0, nonsense))?;
        let tables = Walker {
            file: file.clone(),
            regions: header.regions,
            root: header.tables,
            cache_bytes: 0,
            pages: OnceLock::new(),
        };
        let Some(definition) = tables.get(name.as_bytes())? else { return Ok(None) };
        let root = table_root(&definition).map_err(|nonsense| corrupt(0, nonsense))?;
        Ok(Some(Walker { root, cache_bytes, pages: OnceLock::new(), ..tables }))
    }

    /// Returns the value of a key.
    ///
    /// # Errors
    /// [`IndexError::Corrupt`] or [`IndexError::Io`] if a page on the way to the key cannot be read,
    /// [`IndexError::Closed`] if the file was reopened and changed since.
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, IndexError> {
        let Some(root) = self.root else { return Ok(None) };
        let mut subtree = Subtree::whole(root);
        loop {
            match &*self.load(&subtree)? {
                Page::Branch(branch) => subtree = subtree.child(branch, branch.child_for(key)),
                Page::Leaf(leaf) => {
                    let n = leaf.first_from(key);
                    return Ok((n < leaf.len() && leaf.key(n) == key).then(|| leaf.value(n).to_vec()));
                }
            }
        }
    }

    /// Visits records with `from <= key < to`, in order, until `visit` breaks.
    ///
    /// # Errors
    /// Those of [`Walker::get`], after all records before the page that cannot be read were visited.
    pub fn scan(&self, from: &[u8], to: &[u8], visit: Visit<'_>) -> Result<(), IndexError> {
        match self.root {
            Some(root) if from < to => self.scan_subtree(&Subtree::whole(root), from, to, visit).map(drop),
            _ => Ok(()),
        }
    }

    fn scan_subtree(
        &self,
        subtree: &Subtree,
        from: &[u8],
        to: &[u8],
        visit: Visit<'_>,
    ) -> Result<ControlFlow<()>, IndexError> {
        match &*self.load(subtree)? {
            Page::Leaf(leaf) => {
                for n in leaf.first_from(from)..leaf.first_from(to) {
                    if visit(leaf.key(n), leaf.value(n)).is_break() {
                        return Ok(ControlFlow::Break(()));
                    }
                }
            }
            Page::Branch(branch) => {
                for n in children(branch, from, to) {
                    if self.scan_subtree(&subtree.child(branch, n), from, to, visit)?.is_break() {
                        return Ok(ControlFlow::Break(()));
                    }
                }
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Returns the record with the greatest key in `from <= key < bound`.
    ///
    /// # Errors
    /// Those of [`Walker::get`], if a page that could hold that record cannot be read.
    pub fn last_before(&self, from: &[u8], bound: &[u8]) -> Result<Option<Record>, IndexError> {
        match self.root {
            Some(root) if from < bound => self.last_in_subtree(&Subtree::whole(root), from, bound),
            _ => Ok(None),
        }
    }

    fn last_in_subtree(
        &self,
        subtree: &Subtree,
        from: &[u8],
        bound: &[u8],
    ) -> Result<Option<Record>, IndexError> {
        match &*self.load(subtree)? {
            Page::Leaf(leaf) => {
                let last = leaf.first_from(bound).checked_sub(1).filter(|n| leaf.key(*n) >= from);
                Ok(last.map(|n| (leaf.key(n).to_vec(), leaf.value(n).to_vec())))
            }
            Page::Branch(branch) => {
                for n in children(branch, from, bound).rev() {
                    let last = self.last_in_subtree(&subtree.child(branch, n), from, bound)?;
                    if last.is_some() {
                        return Ok(last);
                    }
                }
                Ok(None)
            }
        }
    }

    /// Visits every record that can be read, and between them the ranges of keys that are lost, until `visit` breaks.
    ///
    /// # Errors
    /// [`IndexError::Io`] if the file as a whole can no longer be trusted; [`IndexError::Closed`] if it was reopened and
    /// changed since.
    pub fn salvage(&self, visit: &mut dyn FnMut(Salvaged<'_>) -> ControlFlow<()>) -> Result<(), IndexError> {
        let Some(root) = self.root else { return Ok(()) };
        self.salvage_subtree(&Subtree::whole(root), visit).map(drop)
    }

    fn salvage_subtree(
        &self,
        subtree: &Subtree,
        visit: &mut dyn FnMut(Salvaged<'_>) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>, IndexError> {
        let page = match self.load(subtree) {
            Ok(page) => page,
            Err(IndexError::Closed) => return Err(IndexError::Closed),
            Err(why) => {
                self.file.check_usable()?;
                let successor = |key: &Vec<u8>| [key.as_slice(), &[0]].concat();
                return Ok(visit(Salvaged::Lost {
                    from: subtree.above.as_ref().map_or_else(Vec::new, successor),
                    to: subtree.up_to.as_ref().map(successor),
                    block: self.regions.locate(subtree.page).map_or(0, |place| place.offset / BLOCK_BYTES),
                    why,
                }));
            }
        };
        match &*page {
            Page::Leaf(leaf) => {
                for n in 0..leaf.len() {
                    if visit(Salvaged::Record { key: leaf.key(n), value: leaf.value(n) }).is_break() {
                        return Ok(ControlFlow::Break(()));
                    }
                }
            }
            Page::Branch(branch) => {
                for n in 0..branch.children() {
                    if self.salvage_subtree(&subtree.child(branch, n), visit)?.is_break() {
                        return Ok(ControlFlow::Break(()));
                    }
                }
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Returns the page of a subtree.
    fn load(&self, subtree: &Subtree) -> Result<Arc<Page>, IndexError> {
        let pages = self.pages.get_or_init(|| pages(self.cache_bytes));
        let page = match pages.get(&subtree.page) {
            Some(page) => page,
            None => {
                let page = self.read(subtree.page);
                if self.file.is_superseded() {
                    return Err(IndexError::Closed);
                }
                let page = Arc::new(page.inspect_err(|error| self.note(error))?);
                pages.insert(subtree.page, Arc::clone(&page));
                page
            }
        };
        if subtree.depth < DEPTH_MAX && subtree.may_be(&page) {
            return Ok(page);
        }
        let block = self.regions.locate(subtree.page).map_or(0, |place| place.offset / BLOCK_BYTES);
        let error = corrupt(block, "a page has other keys than its parent says");
        self.note(&error);
        Err(error)
    }

    /// Notes a page that verifies and makes no sense.
    fn note(&self, error: &IndexError) {
        if matches!(error, IndexError::Corrupt(_)) {
            self.file.bad_blocks().note_damage();
        }
    }

    fn read(&self, number: PageNumber) -> Result<Page, IndexError> {
        let place = self.regions.locate(number).map_err(|nonsense| corrupt(0, nonsense))?;
        let block = place.offset / BLOCK_BYTES;
        let end = place.offset.checked_add(place.bytes as u64);
        if end.is_none_or(|end| self.file.len().is_ok_and(|length| length < end)) {
            return Err(corrupt(block, "a page lies beyond the end"));
        }
        let mut bytes = vec![0; place.bytes].into_boxed_slice();
        self.file.read(place.offset, &mut bytes)?;
        Page::parse(bytes).map_err(|nonsense| corrupt(block, nonsense))
    }
}

/// Returns the children that may hold keys with `from <= key < to`.
fn children(branch: &Branch, from: &[u8], to: &[u8]) -> std::ops::Range<usize> {
    // A child holds only keys greater than the one before it.
    branch.child_for(from)..branch.child_for(to) + 1
}

fn pages(bytes: usize) -> Pages {
    let items = bytes / usize::try_from(BLOCK_BYTES).unwrap_or(usize::MAX);
    // Block numbers are not chosen by clients, so a fixed seed is safe.
    Cache::with(items.max(16), bytes as u64, PageWeight, FixedState::default(), DefaultLifecycle::default())
}

fn corrupt(block: u64, nonsense: Nonsense) -> IndexError {
    IndexError::Corrupt(format!("index block {block}: {nonsense}"))
}

#[cfg(test)]
mod tests;
