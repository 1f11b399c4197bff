//! Parts of an extent: which of them mappings name, and which are stored.
//!
//! Both are recorded for each sector, so that an extent with few named sectors takes little space once the cleaner has moved it.

use std::fmt;
use std::ops::Range;

use crate::encoding::codec::{Malformed, Reader, Write};
use crate::limits::EXTENT_BYTES_MAX;

/// Bytes of a sector. A mapping of one byte keeps this much.
pub const SECTOR: u32 = 512;

/// Sectors of the largest extents.
pub const SECTORS_MAX: u16 = 256;

const _: () = assert!(SECTORS_MAX as usize * SECTOR as usize == EXTENT_BYTES_MAX);

/// A range of sectors of an extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span {
    /// The first.
    pub from: u16,
    /// The one after the last.
    pub to: u16,
}

impl Span {
    /// No sectors.
    pub const NONE: Span = Span { from: 0, to: 0 };

    /// Returns the sectors of `length` bytes from `offset` on.
    pub fn of(offset: u32, length: u64) -> Span {
        let end = u64::from(offset).saturating_add(length).div_ceil(SECTOR.into());
        let number = |sector: u64| u16::try_from(sector).unwrap_or(u16::MAX);
        Span { from: number(u64::from(offset / SECTOR)), to: number(end) }
    }

    /// Returns the bytes of these sectors in an extent of `length` bytes, whose last sector may be shorter.
    pub fn bytes(self, length: u32) -> Range<u32> {
        let byte = |sector: u16| (u32::from(sector) * SECTOR).min(length);
        byte(self.from)..byte(self.to)
    }

    /// Returns the number of these bytes.
    pub fn length(self, length: u32) -> u32 {
        let bytes = self.bytes(length);
        bytes.end - bytes.start
    }
}

/// Returns the number of sectors of an extent.
pub fn sectors(length: u32) -> u16 {
    Span::of(0, length.into()).to
}

/// The parts of an extent that its segment has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kept {
    /// All of it.
    Whole,
    /// These, one behind the other; the cleaner left out the rest, which no mapping named. They ascend and do not touch.
    Parts(Box<[Span]>),
}

impl Kept {
    /// Returns these parts of an extent of `length` bytes.
    pub fn parts(parts: Vec<Span>, length: u32) -> Kept {
        match parts[..] {
            [Span { from: 0, to }] if to >= sectors(length) => Kept::Whole,
            _ => Kept::Parts(parts.into()),
        }
    }

    /// Returns the parts of an extent of `length` bytes, in their order.
    pub fn spans(&self, length: u32) -> impl Iterator<Item = Span> + '_ {
        let whole = matches!(self, Kept::Whole).then_some(Span { from: 0, to: sectors(length) });
        let parts: &[Span] = if let Kept::Parts(parts) = self { parts } else { &[] };
        whole.into_iter().chain(parts.iter().copied())
    }

    /// Whether all these sectors are stored.
    pub fn has(&self, span: Span) -> bool {
        match self {
            Kept::Whole => true,
            Kept::Parts(parts) => {
                span.from >= span.to || parts.iter().any(|part| part.from <= span.from && span.to <= part.to)
            }
        }
    }

    /// Returns how many bytes of an extent of `length` bytes are stored.
    pub fn bytes(&self, length: u32) -> u32 {
        match self {
            Kept::Whole => length,
            Kept::Parts(parts) => parts.iter().map(|part| part.length(length)).sum(),
        }
    }

    pub(super) fn encode_into(&self, out: &mut Vec<u8>) {
        let parts: &[Span] = if let Kept::Parts(parts) = self { parts } else { &[] };
        out.u16(u16::try_from(parts.len()).expect("parts are no more than half of the sectors"));
        for Span { from, to } in parts {
            out.u16(*from);
            out.u16(*to);
        }
    }

    pub(super) fn decode(r: &mut Reader<'_>, length: u32) -> Result<Kept, Malformed> {
        let count = r.u16()?;
        if count == 0 {
            return Ok(Kept::Whole);
        }
        let (mut parts, mut end) = (Vec::with_capacity(usize::from(count)), None);
        for _ in 0..count {
            let part = Span { from: r.u16()?, to: r.u16()? };
            if part.from >= part.to || part.to > sectors(length) || end.is_some_and(|end| end >= part.from) {
                return Err(r.malformed());
            }
            end = Some(part.to);
            parts.push(part);
        }
        match Kept::parts(parts, length) {
            Kept::Whole => Err(r.malformed()),
            parts => Ok(parts),
        }
    }
}

/// How many mappings name the sectors of an extent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum References {
    /// Each of them this many.
    Each(u32),
    /// The sectors up to each end, from the end before, this many: two runs at least, neighbours differ, and the last ends with
    /// the extent.
    Runs(Box<[(u16, u32)]>),
    /// Nobody knows, as the record was lost, or there are more than can be counted: then it stays so, and the extent is never
    /// freed.
    Unknown,
}

/// More references were dropped than there were.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooFew;

impl References {
    /// Those of an extent that no mapping names.
    pub const NONE: References = References::Each(0);

    /// Returns these references after changes of an extent of so many sectors. `steps` is a buffer.
    ///
    /// # Errors
    /// If more are dropped than there were.
    pub fn changed(
        &self,
        sectors: u16,
        changes: impl Iterator<Item = (Span, i64)> + Clone,
        steps: &mut Vec<i64>,
    ) -> Result<References, TooFew> {
        let is_whole = |span: Span| span.from == 0 && span.to >= sectors || span.from >= span.to;
        match self {
            References::Unknown => return Ok(References::Unknown),
            References::Each(count) if changes.clone().all(|(span, _)| is_whole(span)) => {
                let change: i64 =
                    changes.filter(|(span, _)| span.from < span.to).map(|(_, change)| change).sum();
                let count = i64::from(*count) + change;
                return if count < 0 { Err(TooFew) } else { Ok(References::each(count)) };
            }
            References::Each(_) | References::Runs(_) => {}
        }
        // How the count differs from that of the sector before.
        steps.clear();
        steps.resize(usize::from(sectors) + 1, 0);
        let mut add = |span: Span, change: i64| {
            steps[usize::from(span.from.min(sectors))] += change;
            steps[usize::from(span.to.min(sectors))] -= change;
        };
        self.runs(sectors).for_each(|(span, count)| add(span, count.into()));
        changes.filter(|(span, _)| span.from < span.to).for_each(|(span, change)| add(span, change));
        References::of_steps(&steps[..usize::from(sectors)])
    }

    /// Counts a mapping of an extent whose length is not known yet: as if it had the largest.
    pub fn add(&mut self, span: Span) {
        let counted = self.changed(SECTORS_MAX, std::iter::once((span, 1)), &mut Vec::new());
        *self = counted.expect("nothing is dropped");
    }

    /// Returns the references of sectors whose counts differ so from the one before.
    fn of_steps(steps: &[i64]) -> Result<References, TooFew> {
        let (mut runs, mut count): (Vec<(u16, u32)>, i64) = (Vec::new(), 0);
        for (sector, step) in (0..).zip(steps) {
            count += step;
            if count < 0 {
                return Err(TooFew);
            }
            let References::Each(known) = References::each(count) else { return Ok(References::Unknown) };
            match runs.last_mut() {
                Some((end, _)) if *step == 0 => *end = sector + 1,
                _ => runs.push((sector + 1, known)),
            }
        }
        Ok(match runs[..] {
            [] => References::NONE,
            [(_, count)] => References::Each(count),
            _ => References::Runs(runs.into()),
        })
    }

    fn each(count: i64) -> References {
        match u32::try_from(count) {
            Ok(count) if count < u32::MAX => References::Each(count),
            _ => References::Unknown,
        }
    }

    /// Returns the runs of sectors with equal counts; none if the counts are unknown.
    pub fn runs(&self, sectors: u16) -> impl Iterator<Item = (Span, u32)> + '_ {
        let each = match self {
            References::Each(count) => Some((Span { from: 0, to: sectors }, *count)),
            References::Runs(_) | References::Unknown => None,
        };
        let runs: &[(u16, u32)] = if let References::Runs(runs) = self { runs } else { &[] };
        let starts = std::iter::once(0).chain(runs.iter().map(|(end, _)| *end));
        let runs = starts.zip(runs).map(|(from, (to, count))| (Span { from, to: *to }, *count));
        each.into_iter().chain(runs)
    }

    /// Returns the sectors that mappings name, joined where they touch; none if that is unknown.
    pub fn named(&self, sectors: u16) -> Vec<Span> {
        let mut named: Vec<Span> = Vec::new();
        for (span, _) in self.runs(sectors).filter(|(span, count)| *count > 0 && span.from < span.to) {
            match named.last_mut() {
                Some(last) if last.to == span.from => last.to = span.to,
                _ => named.push(span),
            }
        }
        named
    }

    /// Returns these references of an extent as those of one with fewer sectors.
    pub fn clipped(&self, sectors: u16) -> References {
        let mut runs: Vec<(u16, u32)> = Vec::new();
        for (span, count) in self.runs(u16::MAX).filter(|(span, _)| span.from < sectors) {
            runs.push((span.to.min(sectors), count));
        }
        match runs[..] {
            [] if *self == References::Unknown => References::Unknown,
            [] => References::NONE,
            [(_, count)] => References::Each(count),
            _ => References::Runs(runs.into()),
        }
    }

    /// Whether these name each sector at least as often as others do.
    pub fn cover(&self, others: &References) -> bool {
        let count_at = |references: &References, sector: u16| {
            references.runs(u16::MAX).find(|(span, _)| sector < span.to).map_or(0, |(_, count)| count)
        };
        let starts = self.runs(u16::MAX).chain(others.runs(u16::MAX)).map(|(span, _)| span.from);
        let mut starts = starts.filter(|sector| count_at(others, *sector) > 0);
        starts.all(|sector| count_at(self, sector) >= count_at(others, sector))
    }

    /// Returns the count of the sectors that most mappings name; `None` if it is unknown.
    pub fn most(&self) -> Option<u32> {
        self.runs(u16::MAX).map(|(_, count)| count).max()
    }

    pub(super) fn encode_into(&self, out: &mut Vec<u8>) {
        match self {
            References::Unknown => out.u16(0),
            References::Each(count) => {
                out.u16(1);
                out.u32(*count);
            }
            References::Runs(runs) => {
                out.u16(u16::try_from(runs.len()).expect("runs are no more than sectors"));
                for (end, count) in runs {
                    out.u16(*end);
                    out.u32(*count);
                }
            }
        }
    }

    pub(super) fn decode(r: &mut Reader<'_>, length: u32) -> Result<References, Malformed> {
        let number = r.u16()?;
        match number {
            0 => return Ok(References::Unknown),
            1 => return Ok(References::Each(r.u32()?)),
            _ => {}
        }
        let mut runs: Vec<(u16, u32)> = Vec::with_capacity(usize::from(number));
        for _ in 0..number {
            let (end, count) = (r.u16()?, r.u32()?);
            let is_next = runs.last().map_or(end > 0, |last| end > last.0 && count != last.1);
            if !is_next {
                return Err(r.malformed());
            }
            runs.push((end, count));
        }
        if runs.last().is_none_or(|(end, _)| *end != sectors(length)) {
            return Err(r.malformed());
        }
        Ok(References::Runs(runs.into()))
    }
}

impl fmt::Display for References {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            References::Unknown => f.write_str("unknown"),
            References::Each(count) => write!(f, "{count}"),
            References::Runs(runs) => {
                let mut from = 0;
                for (end, count) in runs {
                    let comma = if from == 0 { "" } else { ", " };
                    write!(f, "{comma}{count} of sectors {from} to {}", *end - 1)?;
                    from = *end;
                }
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests;
