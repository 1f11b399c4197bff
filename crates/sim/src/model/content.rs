//! A file's bytes in the model: sparse, cheap to clone, with written ranges distinct from holes.

use std::collections::BTreeMap;
use std::rc::Rc;

const CHUNK: u64 = 4096;

/// A file's bytes. A range that was never written is a hole and reads as zeros.
#[derive(Clone, Debug, Default)]
pub(crate) struct Content {
    pub(crate) size: u64,
    chunks: BTreeMap<u64, Rc<[u8; 4096]>>,
    /// Ranges that were written and not truncated since: start to end, never adjacent.
    written: BTreeMap<u64, u64>,
}

fn within(offset: u64) -> usize {
    usize::try_from(offset % CHUNK).expect("below a chunk")
}

impl Content {
    pub(crate) fn read(&self, offset: u64, count: u64) -> Vec<u8> {
        let end = self.size.min(offset.saturating_add(count));
        let mut bytes = Vec::new();
        let mut at = offset;
        while at < end {
            let next = end.min((at / CHUNK + 1) * CHUNK);
            let length = usize::try_from(next - at).expect("within a chunk");
            match self.chunks.get(&(at / CHUNK)) {
                Some(chunk) => bytes.extend_from_slice(&chunk[within(at)..within(at) + length]),
                None => bytes.resize(bytes.len() + length, 0),
            }
            at = next;
        }
        bytes
    }

    pub(crate) fn write(&mut self, offset: u64, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let mut rest = bytes;
        let mut at = offset;
        while !rest.is_empty() {
            let (now, later) = rest.split_at(rest.len().min(4096 - within(at)));
            let chunk = Rc::make_mut(self.chunks.entry(at / CHUNK).or_insert_with(|| Rc::new([0; 4096])));
            chunk[within(at)..within(at) + now.len()].copy_from_slice(now);
            (at, rest) = (at + now.len() as u64, later);
        }
        self.size = self.size.max(at);
        self.mark(offset, at);
    }

    fn mark(&mut self, mut start: u64, mut end: u64) {
        let touching: Vec<(u64, u64)> = self
            .written
            .range(..=end)
            .filter(|(_, to)| **to >= start)
            .map(|(from, to)| (*from, *to))
            .collect();
        for (from, to) in touching {
            self.written.remove(&from);
            (start, end) = (start.min(from), end.max(to));
        }
        self.written.insert(start, end);
    }

    pub(crate) fn set_size(&mut self, size: u64) {
        if size < self.size {
            self.chunks.split_off(&size.div_ceil(CHUNK));
            if let Some(chunk) = self.chunks.get_mut(&(size / CHUNK)) {
                Rc::make_mut(chunk)[within(size)..].fill(0);
            }
            self.written.split_off(&size);
            if let Some((_, end)) = self.written.iter_mut().next_back() {
                *end = (*end).min(size);
            }
        }
        self.size = size;
    }

    /// Makes a range a hole; the size stays.
    pub(crate) fn punch(&mut self, start: u64, end: u64) {
        for (number, chunk) in self.chunks.range_mut(start / CHUNK..=end / CHUNK) {
            let (from, to) = (start.max(number * CHUNK), end.min((number + 1) * CHUNK));
            if from < to {
                let from = within(from);
                let length = usize::try_from(to - start.max(number * CHUNK)).expect("within a chunk");
                Rc::make_mut(chunk)[from..from + length].fill(0);
            }
        }
        let touched: Vec<(u64, u64)> =
            self.written.range(..end).filter(|(_, to)| **to > start).map(|(from, to)| (*from, *to)).collect();
        for (from, to) in touched {
            self.written.remove(&from);
            for (from, to) in [(from, to.min(start)), (from.max(end), to)] {
                if from < to {
                    self.written.insert(from, to);
                }
            }
        }
    }

    /// Copies a range of `source` from offset `from`, holes included.
    pub(crate) fn copy(&mut self, source: &Content, from: u64, at: u64, count: u64) {
        self.punch(at, at + count);
        for (start, end) in source.written.range(..from + count).filter(|(_, end)| **end > from) {
            let (start, end) = (*start.max(&from), *end.min(&(from + count)));
            self.write(at + (start - from), &source.read(start, end - start));
        }
        self.size = self.size.max(at + count);
    }

    /// Returns where the next data, or the next hole, starts at or after `at`, which lies before the end. The end of
    /// the file starts a hole.
    pub(crate) fn next(&self, at: u64, data: bool) -> Option<u64> {
        let around = self.written.range(..=at).next_back().filter(|(_, end)| **end > at);
        match (around, data) {
            (Some(_), true) => Some(at),
            (None, true) => self.written.range(at..).next().map(|(start, _)| *start),
            (Some((_, end)), false) => Some((*end).min(self.size)),
            (None, false) => Some(at),
        }
    }

    /// Returns the bytes of a range that are outside holes.
    fn used_in(&self, start: u64, end: u64) -> u64 {
        let overlapping = self.written.range(..end).filter(|(_, to)| **to > start);
        overlapping.map(|(from, to)| (*to).min(end) - (*from).max(start)).sum()
    }

    /// Returns the bytes of a range that are in holes.
    pub(crate) fn holes(&self, start: u64, end: u64) -> u64 {
        end.saturating_sub(start) - self.used_in(start, end)
    }

    /// Returns how many bytes a copy of a range of `source` adds, see [`Content::copy`].
    pub(crate) fn added_by_copy(&self, source: &Content, from: u64, at: u64, count: u64) -> u64 {
        source.used_in(from, from + count).saturating_sub(self.used_in(at, at + count))
    }

    /// Returns the most bytes that a copy of a range of `source` adds, if it may end anywhere.
    pub(crate) fn most_added_by_copy(&self, source: &Content, from: u64, at: u64, count: u64) -> u64 {
        // What is added is greatest where a written range of the source ends or one of the target begins.
        let ends = source.written.values().map(|end| end.saturating_sub(from));
        let starts = self.written.keys().map(|start| start.saturating_sub(at));
        let counts = ends.chain(starts).filter(|reached| *reached < count).chain([count]);
        counts.map(|count| self.added_by_copy(source, from, at, count)).max().unwrap_or(0)
    }

    /// Takes these ranges, start to end, as those that are no holes.
    pub(crate) fn set_written(&mut self, ranges: &[(u64, u64)]) {
        self.written = ranges.iter().copied().collect();
    }

    /// Returns the bytes outside holes.
    pub(crate) fn used(&self) -> u64 {
        self.written.iter().map(|(start, end)| end - start).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::Content;

    #[test]
    fn holes_overwrites_and_truncations_are_counted() {
        let mut content = Content::default();
        content.write(5000, b"abc");
        content.write(4999, b"xy");
        assert_eq!((content.size, content.used()), (5003, 4));
        assert_eq!(content.read(4998, 10), b"\0xybc");
        content.set_size(5001);
        content.set_size(6000);
        assert_eq!(content.read(4999, 4), b"xy\0\0");
        assert_eq!((content.used(), content.read(5000, 2)), (2, b"y\0".to_vec()));
    }
}
