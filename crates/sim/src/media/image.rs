//! The bytes of one file: pages that copies share until one of them writes.

use std::sync::Arc;

const PAGE_BYTES: usize = 4096;

type Page = [u8; PAGE_BYTES];

/// A file's content and length. Clones share pages; a page that was never written holds one repeated byte, zero by
/// default.
#[derive(Clone, Debug, Default)]
pub(crate) struct Image {
    length: u64,
    blank: u8,
    pages: Arc<Vec<Option<Arc<Page>>>>,
}

/// Returns the page number of an offset and the position within the page.
fn place(offset: u64) -> (usize, usize) {
    let offset = usize::try_from(offset).expect("simulated files fit in memory");
    (offset / PAGE_BYTES, offset % PAGE_BYTES)
}

impl Image {
    pub(crate) fn len(&self) -> u64 {
        self.length
    }

    /// Returns an empty file whose unwritten bytes show `blank`.
    pub(crate) fn over(blank: u8) -> Image {
        Image { blank, ..Image::default() }
    }

    /// Sets the length. Shrinking discards the bytes beyond it: growing again shows zeros.
    pub(crate) fn set_len(&mut self, length: u64) {
        if length < self.length {
            let (page, within) = place(length);
            let pages = Arc::make_mut(&mut self.pages);
            pages.truncate(page + 1);
            if let Some(Some(last)) = pages.get_mut(page) {
                Arc::make_mut(last)[within..].fill(0);
            }
        }
        self.length = length;
    }

    /// Fills `buffer`; returns false if that would pass the end.
    pub(crate) fn read(&self, offset: u64, buffer: &mut [u8]) -> bool {
        if offset.checked_add(buffer.len() as u64).is_none_or(|end| end > self.length) {
            return false;
        }
        let (mut page, mut within) = place(offset);
        let mut rest = buffer;
        while !rest.is_empty() {
            let (now, later) = rest.split_at_mut(rest.len().min(PAGE_BYTES - within));
            match self.pages.get(page) {
                Some(Some(bytes)) => now.copy_from_slice(&bytes[within..within + now.len()]),
                _ => now.fill(self.blank),
            }
            (page, within, rest) = (page + 1, 0, later);
        }
        true
    }

    /// Writes `bytes`; discards those beyond the length.
    pub(crate) fn write(&mut self, offset: u64, bytes: &[u8]) {
        let room = usize::try_from(self.length.saturating_sub(offset)).unwrap_or(usize::MAX);
        let mut rest = &bytes[..bytes.len().min(room)];
        let (mut page, mut within) = place(offset);
        let pages = Arc::make_mut(&mut self.pages);
        while !rest.is_empty() {
            let (now, later) = rest.split_at(rest.len().min(PAGE_BYTES - within));
            if pages.len() <= page {
                pages.resize(page + 1, None);
            }
            let target = pages[page].get_or_insert_with(|| Arc::new([self.blank; PAGE_BYTES]));
            Arc::make_mut(target)[within..within + now.len()].copy_from_slice(now);
            (page, within, rest) = (page + 1, 0, later);
        }
    }

    /// Flips one bit; returns false if it lies beyond the end or in a page that was never written.
    pub(crate) fn flip(&mut self, offset: u64, bit: u8) -> bool {
        let (page, within) = place(offset);
        if offset >= self.length || !matches!(self.pages.get(page), Some(Some(_))) {
            return false;
        }
        let mut byte = [0];
        self.read(offset, &mut byte);
        debug_assert!(within < PAGE_BYTES);
        self.write(offset, &[byte[0] ^ (1 << (bit % 8))]);
        true
    }
}
