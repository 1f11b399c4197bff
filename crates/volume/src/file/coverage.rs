//! How many bytes of a file are mapped, counted part by part.
//!
//! A file may have millions of mappings. They are counted in steps, each a moment under the file's lock. What was counted
//! stays with the file until the count is complete: every change of the map tells what it changed, and by how much. So a
//! count ends however many others change the file meanwhile, and whoever counts may give its turn up.

use std::collections::BTreeMap;

/// Most parts of a file that are kept; beyond, neighbours are joined.
const PARTS_MAX: usize = 1024;

/// So few parts are not kept when a count is complete: they are soon counted again.
const PARTS_FEW: usize = 64;

/// Memory of a part, bytes.
const PART_BYTES: u64 = 48;

/// What was counted. Parts do not overlap.
#[derive(Debug, Default)]
pub struct Coverage {
    /// By their first offset.
    parts: BTreeMap<u64, Part>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Part {
    end: u64,
    /// Mapped bytes.
    bytes: u64,
}

/// What is known at an offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    /// Up to `end` this many bytes are mapped.
    Part {
        /// Offset after the last.
        end: u64,
        /// Mapped bytes.
        bytes: u64,
    },
    /// This range must be counted first, from its start on.
    Not(u64, u64),
}

impl Coverage {
    /// Returns what is known from `at` on within a range that ends at `to`. To learn how much of a part lies in the range,
    /// the part is counted from its start on, as then what remains of it is known too.
    pub fn known(&self, at: u64, to: u64) -> Known {
        match self.parts.range(..=at).next_back() {
            Some((start, part)) if *start < at && at < part.end => Known::Not(*start, at),
            Some((start, part)) if *start == at && part.end <= to => {
                Known::Part { end: part.end, bytes: part.bytes }
            }
            Some((start, _)) if *start == at => Known::Not(at, to),
            _ => Known::Not(at, self.parts.range(at..to).next().map_or(to, |(start, _)| *start)),
        }
    }

    /// Notes the mapped bytes of a range that [`Coverage::known`] asked for, or of its beginning.
    pub fn note(&mut self, start: u64, end: u64, bytes: u64) {
        if let Some(whole) = self.parts.remove(&start)
            && end < whole.end
        {
            self.parts.insert(end, Part { end: whole.end, bytes: whole.bytes.saturating_sub(bytes) });
        }
        self.parts.insert(start, Part { end, bytes });
        if self.parts.len() > PARTS_MAX {
            self.join();
        }
    }

    /// Follows a change of the map from `start` to `end` that mapped this many bytes more than before.
    pub fn change(&mut self, start: u64, end: u64, bytes: i64) {
        let before = self.parts.range(..=start).next_back().filter(|(_, part)| start < part.end);
        let first = before.map_or(start, |(first, _)| *first);
        if let Some(part) = self.parts.get_mut(&first).filter(|part| end <= part.end) {
            part.bytes = part.bytes.saturating_add_signed(bytes);
            return;
        }
        // How much of it changed which part is not known.
        let touched: Vec<u64> = self.parts.range(first..end).map(|(start, _)| *start).collect();
        for start in touched {
            self.parts.remove(&start);
        }
    }

    /// Whether it is worth keeping after a count.
    pub fn is_large(&self) -> bool {
        self.parts.len() > PARTS_FEW
    }

    /// Returns the memory of the parts, bytes.
    pub fn memory_bytes(&self) -> u64 {
        self.parts.len() as u64 * PART_BYTES
    }

    /// Joins parts until it is no longer large. A count goes on from where it is; only what is known of small ranges is lost.
    pub fn shrink(&mut self) {
        let mut before = usize::MAX;
        while self.is_large() && self.parts.len() < before {
            before = self.parts.len();
            self.join();
        }
    }

    /// Joins parts with their neighbours.
    fn join(&mut self) {
        let mut joined: Vec<(u64, Part, bool)> = Vec::with_capacity(self.parts.len());
        for (start, part) in std::mem::take(&mut self.parts) {
            match joined.last_mut() {
                Some((_, last, is_pair)) if last.end == start && !*is_pair => {
                    *last = Part { end: part.end, bytes: last.bytes + part.bytes };
                    *is_pair = true;
                }
                _ => joined.push((start, part, false)),
            }
        }
        self.parts = joined.into_iter().map(|(start, part, _)| (start, part)).collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts a range of a model, in steps of `step` bytes. Returns the mapped bytes and the steps.
    fn count(coverage: &mut Coverage, model: &[bool], range: (u64, u64), step: u64) -> (u64, usize) {
        let (mut at, mut bytes, mut steps) = (range.0, 0, 0);
        while at < range.1 {
            match coverage.known(at, range.1) {
                Known::Part { end, bytes: of_part } => {
                    bytes += of_part;
                    at = end;
                }
                Known::Not(start, end) => {
                    assert!(start <= at && start < end && end <= range.1);
                    let end = end.min(start + step);
                    coverage.note(start, end, mapped(model, start, end));
                    steps += 1;
                }
            }
        }
        (bytes, steps)
    }

    fn mapped(model: &[bool], start: u64, end: u64) -> u64 {
        (start..end).filter(|at| model[usize::try_from(*at).unwrap()]).count() as u64
    }

    fn fill(coverage: &mut Coverage, model: &mut [bool], (start, end): (u64, u64), with: bool) {
        let before = mapped(model, start, end).cast_signed();
        for at in start..end {
            model[usize::try_from(at).unwrap()] = with;
        }
        coverage.change(start, end, mapped(model, start, end).cast_signed() - before);
    }

    #[test]
    fn a_count_goes_on_from_what_is_known_and_splits_it() {
        let model: Vec<bool> = (0..10_000).map(|at| at % 3 == 0).collect();
        let mut coverage = Coverage::default();
        assert_eq!(count(&mut coverage, &model, (100, 9000), 100), (mapped(&model, 100, 9000), 89));
        assert_eq!(count(&mut coverage, &model, (100, 9000), 100), (mapped(&model, 100, 9000), 0));
        let (bytes, steps) = count(&mut coverage, &model, (150, 8950), 100);
        assert_eq!((bytes, steps), (mapped(&model, 150, 8950), 2), "only the parts at both ends are split");
        assert_eq!(count(&mut coverage, &model, (100, 9000), 100), (mapped(&model, 100, 9000), 0));
    }

    #[test]
    fn changes_by_others_are_followed() {
        for seed in 0..20_u64 {
            let mut random = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
            let mut below = |bound: u64| {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                random % bound
            };
            let mut model: Vec<bool> = (0..5000).map(|at| at % 7 < 3).collect();
            let mut coverage = Coverage::default();
            for _ in 0..200 {
                let start = below(4900);
                let range = (start, start + 1 + below(5000 - start));
                if below(3) > 0 {
                    let range = (start, start + 1 + below(60));
                    fill(&mut coverage, &mut model, range, below(2) == 0);
                } else {
                    let (bytes, _) = count(&mut coverage, &model, range, 40);
                    assert_eq!(bytes, mapped(&model, range.0, range.1), "seed {seed}");
                }
            }
        }
    }

    #[test]
    fn memory_is_bounded() {
        let model = vec![true; 10_000];
        let mut coverage = Coverage::default();
        assert_eq!(count(&mut coverage, &model, (0, 10_000), 1).0, 10_000);
        assert!(coverage.parts.len() <= PARTS_MAX);
        assert!(coverage.is_large());
        assert_eq!(coverage.memory_bytes(), coverage.parts.len() as u64 * PART_BYTES);
        coverage.shrink();
        assert!(!coverage.is_large());
        assert_eq!(
            count(&mut coverage, &model, (0, 10_000), 1),
            (10_000, 0),
            "nothing that was counted is lost"
        );
    }
}
