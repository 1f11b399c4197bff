//! The pages of redb's file: the parts needed to read records.
//!
//! Written after redb 4.4: `docs/design.md`, `src/tree_store/page_store/header.rs`, `page_store/base.rs`,
//! `btree_base.rs` and `table_tree_base.rs`; file format version 3. Its numbers are little-endian. Everything is
//! verified when it is parsed, so nothing here panics on bytes that make no sense.

use std::cmp::Ordering;
use std::ops::Range;

use super::slots::BLOCK_BYTES;
use crate::limits::ENTRY_BYTES_MAX;

/// The version of the format that is understood.
pub(super) const VERSION: u8 = 3;

/// Bytes of the header at the beginning of the file.
pub(super) const HEADER_BYTES: usize = 320;

/// Greatest order of a page: 2^order blocks. The library allows more, but a record comes from a journal entry, and a
/// page is less than twice as large as a record that has it alone.
const ORDER_MAX: u32 = 9;
const _: () = assert!(BLOCK_BYTES << ORDER_MAX > 4 * ENTRY_BYTES_MAX);

const MAGIC: [u8; 9] = [b'r', b'e', b'd', b'b', 0x1a, 0x0a, 0xa9, 0x0d, 0x0a];
const LEAF: u8 = 1;
const BRANCH: u8 = 2;
/// Bytes of a child's checksum and page number in a branch.
const CHILD: usize = 24;
/// Bytes of a page number, a checksum and a length.
const ROOT: usize = 32;

/// Why a page is invalid.
pub(super) type Nonsense = &'static str;

/// Where the last commit begins.
#[derive(Clone, Copy, Debug)]
pub(super) struct Header {
    pub(super) regions: Regions,
    /// Root of the tree of tables, if there are any.
    pub(super) tables: Option<PageNumber>,
}

/// How regions divide the file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Regions {
    header_pages: u32,
    data_pages: u32,
}

/// A page, as others refer to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct PageNumber(u64);

#[cfg(test)]
impl PageNumber {
    pub(super) fn to_bytes(self) -> [u8; 8] {
        self.0.to_le_bytes()
    }
}

/// A place in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) offset: u64,
    pub(super) bytes: usize,
}

impl Header {
    pub(super) fn parse(bytes: &[u8; HEADER_BYTES]) -> Result<Header, Nonsense> {
        const SECOND_SLOT: u8 = 1;
        const TWO_PHASE: u8 = 4;
        const SLOTS_AT: [usize; 2] = [64, 192];
        if bytes[..9] != MAGIC {
            return Err("it is not a file of redb");
        }
        let flags = bytes[9];
        let (page_bytes, header_pages, data_pages) =
            (u32_in(bytes, 12), u32_in(bytes, 16), u32_in(bytes, 20));
        if u64::from(page_bytes) != BLOCK_BYTES || data_pages == 0 {
            return Err("its pages are not blocks of 4096 bytes");
        }
        let slot = &bytes[SLOTS_AT[usize::from(flags & SECOND_SLOT)]..][..128];
        if slot[0] != VERSION {
            return Err("its format has an unknown version");
        }
        // Otherwise the other slot could hold the last commit.
        if flags & TWO_PHASE == 0 {
            return Err("its last commit was not in two phases");
        }
        let tables = (slot[1] != 0).then(|| PageNumber(u64_in(slot, 8)));
        Ok(Header { regions: Regions { header_pages, data_pages }, tables })
    }
}

impl Regions {
    /// Returns where a page lies.
    pub(super) fn locate(&self, page: PageNumber) -> Result<Place, Nonsense> {
        const INDEX_BITS: u64 = 0xf_ffff;
        let order = u32::try_from(page.0 >> 59).expect("five bits");
        if order > ORDER_MAX {
            return Err("a page is larger than any record needs");
        }
        let (region, index) = ((page.0 >> 20) & INDEX_BITS, page.0 & (INDEX_BITS >> order));
        if (index + 1) << order > u64::from(self.data_pages) {
            return Err("a page lies outside of its region");
        }
        let before = u64::from(self.header_pages) + (index << order);
        let region_pages = u64::from(self.header_pages) + u64::from(self.data_pages);
        // The header takes the first page.
        let pages = 1 + region * region_pages + before;
        let offset = pages.checked_mul(BLOCK_BYTES).ok_or("a page lies beyond any file")?;
        let bytes = usize::try_from(BLOCK_BYTES << order).map_err(|_| "a page is larger than memory")?;
        Ok(Place { offset, bytes })
    }
}

/// Returns the root of a table of byte strings to byte strings, from its record in the tree of tables; `None` if the
/// table is empty.
pub(super) fn table_root(definition: &[u8]) -> Result<Option<PageNumber>, Nonsense> {
    const NORMAL: u8 = 3;
    /// Where the root begins, after the kind, the number of records and whether there is a root.
    const ROOT_AT: usize = 1 + 8 + 1;
    const NO_FIXED_WIDTHS: [u8; 10] = [0; 10];
    /// Alignment 1 of keys and values, then the length of a type's name with its class, and both types.
    const TYPES: &[u8] = b"\x01\0\0\0\x01\0\0\0\x06\0\0\0\x01&[u8]\x01&[u8]";
    let (head, rest) = definition.split_at_checked(ROOT_AT).ok_or("a table's record is truncated")?;
    let (root, rest) = rest.split_at_checked(ROOT).ok_or("a table's record is truncated")?;
    if head[0] != NORMAL || rest.strip_prefix(&NO_FIXED_WIDTHS) != Some(TYPES) {
        return Err("a table does not map byte strings to byte strings");
    }
    Ok((head[9] != 0).then(|| PageNumber(u64_in(root, 0))))
}

/// A page of a tree, whose lengths and order of keys were verified.
#[derive(Debug)]
pub(super) enum Page {
    Leaf(Leaf),
    Branch(Branch),
}

/// Keys with their values, in order; at least one.
#[derive(Debug)]
pub(super) struct Leaf {
    bytes: Box<[u8]>,
    count: usize,
}

/// Children with keys between them: each key is at least the greatest of the child before it, and less than the least
/// of the child after it. There is at least one key.
#[derive(Debug)]
pub(super) struct Branch {
    bytes: Box<[u8]>,
    keys: usize,
}

impl Page {
    pub(super) fn parse(bytes: Box<[u8]>) -> Result<Page, Nonsense> {
        let Some((&[kind, _, low, high], _)) = bytes.split_first_chunk::<4>() else {
            return Err("a page is truncated");
        };
        let count = usize::from(u16::from_le_bytes([low, high]));
        if count == 0 {
            return Err("a page has no keys");
        }
        match kind {
            LEAF => {
                let leaf = Leaf { bytes, count };
                leaf.verify()?;
                Ok(Page::Leaf(leaf))
            }
            BRANCH => {
                let branch = Branch { bytes, keys: count };
                branch.verify()?;
                Ok(Page::Branch(branch))
            }
            _ => Err("a page is neither leaf nor branch"),
        }
    }

    /// Returns the bytes of the page.
    pub(super) fn len(&self) -> usize {
        match self {
            Page::Leaf(leaf) => leaf.bytes.len(),
            Page::Branch(branch) => branch.bytes.len(),
        }
    }

    /// Returns the least and the greatest key in the page.
    pub(super) fn key_range(&self) -> (&[u8], &[u8]) {
        match self {
            Page::Leaf(leaf) => (leaf.key(0), leaf.key(leaf.count - 1)),
            Page::Branch(branch) => (branch.key(0), branch.key(branch.keys - 1)),
        }
    }
}

/// Offset of the ends of keys in a leaf.
const LEAF_ENDS_AT: usize = 4;

impl Leaf {
    fn verify(&self) -> Result<(), Nonsense> {
        let data_at = LEAF_ENDS_AT + 2 * 4 * self.count;
        // The ends of the values follow those of the keys, as the values do.
        verify_ends(&self.bytes, LEAF_ENDS_AT, 2 * self.count, data_at)?;
        verify_order(self.count, |n| self.key(n))
    }

    pub(super) fn len(&self) -> usize {
        self.count
    }

    pub(super) fn key(&self, n: usize) -> &[u8] {
        &self.bytes[self.part(n)]
    }

    pub(super) fn value(&self, n: usize) -> &[u8] {
        &self.bytes[self.part(self.count + n)]
    }

    /// Returns the place of the first key that is at least `key`.
    pub(super) fn first_from(&self, key: &[u8]) -> usize {
        partition_point(self.count, |n| self.key(n) < key)
    }

    /// The parts are all keys, then all values.
    fn part(&self, n: usize) -> Range<usize> {
        part(&self.bytes, LEAF_ENDS_AT, n, LEAF_ENDS_AT + 2 * 4 * self.count)
    }
}

impl Branch {
    fn verify(&self) -> Result<(), Nonsense> {
        verify_ends(&self.bytes, self.ends_at(), self.keys, self.data_at())?;
        verify_order(self.keys, |n| self.key(n))
    }

    /// Returns the number of children.
    pub(super) fn children(&self) -> usize {
        self.keys + 1
    }

    /// Returns the page of a child.
    pub(super) fn child(&self, n: usize) -> PageNumber {
        const CHECKSUM: usize = 16;
        PageNumber(u64_in(&self.bytes, 8 + CHECKSUM * self.children() + 8 * n))
    }

    /// Returns the key between child `n` and the next.
    pub(super) fn key(&self, n: usize) -> &[u8] {
        &self.bytes[part(&self.bytes, self.ends_at(), n, self.data_at())]
    }

    /// Returns the child that alone may hold `key`.
    pub(super) fn child_for(&self, key: &[u8]) -> usize {
        partition_point(self.keys, |n| self.key(n) < key)
    }

    fn ends_at(&self) -> usize {
        8 + CHILD * self.children()
    }

    fn data_at(&self) -> usize {
        self.ends_at() + 4 * self.keys
    }
}

/// Verifies the ends of `count` consecutive parts, the first of which begins at `data_at`.
fn verify_ends(bytes: &[u8], ends_at: usize, count: usize, data_at: usize) -> Result<(), Nonsense> {
    if data_at > bytes.len() {
        return Err("a page has more keys than fit");
    }
    let mut from = data_at;
    for n in 0..count {
        let end = end(bytes, ends_at, n);
        if end < from || end > bytes.len() {
            return Err("a page has a key or value that lies outside of it");
        }
        from = end;
    }
    Ok(())
}

fn verify_order<'a>(count: usize, key: impl Fn(usize) -> &'a [u8]) -> Result<(), Nonsense> {
    let ascend = (1..count).all(|n| key(n - 1).cmp(key(n)) == Ordering::Less);
    if ascend { Ok(()) } else { Err("a page has keys that do not ascend") }
}

fn part(bytes: &[u8], ends_at: usize, n: usize, data_at: usize) -> Range<usize> {
    let from = n.checked_sub(1).map_or(data_at, |previous| end(bytes, ends_at, previous));
    from..end(bytes, ends_at, n)
}

fn end(bytes: &[u8], ends_at: usize, n: usize) -> usize {
    usize::try_from(u32_in(bytes, ends_at + 4 * n)).unwrap_or(usize::MAX)
}

/// Returns the first of `0..count` for which `is_before` is false; it is true for all before that one.
fn partition_point(count: usize, is_before: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (0, count);
    while low < high {
        let middle = low.midpoint(high);
        if is_before(middle) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}

fn u32_in(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u64_in(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}
