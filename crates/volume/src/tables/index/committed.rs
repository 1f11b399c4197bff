//! The records of one commit: read through the library, and around it once it fails.
//!
//! After one failed read the library refuses all that are not in its cache. The [`Walker`] answers those instead, in
//! the same call, and fails only for records on pages that cannot be read.

use std::sync::Arc;

use redb::{AccessGuard, ReadOnlyTable};

use super::warmth::Warmth;
use super::{IndexError, Record, Visit, Walker};

type Table = ReadOnlyTable<&'static [u8], &'static [u8]>;

/// The records as of one commit.
pub(super) struct Committed {
    /// `None` if the library cannot open the file.
    table: Option<Table>,
    /// An error if the root of the records cannot be found without the library.
    walker: Result<Walker, IndexError>,
    warmth: Arc<Warmth>,
}

impl Committed {
    /// Reads through `table`, or through `walker`; fails if neither can read. Both see the same commit.
    pub(super) fn new(
        table: Result<Table, IndexError>,
        walker: Result<Walker, IndexError>,
        warmth: Arc<Warmth>,
    ) -> Result<Committed, IndexError> {
        match table {
            Ok(table) => Ok(Committed { table: Some(table), walker, warmth }),
            Err(error) if walker.is_err() => Err(error),
            Err(error) => {
                warmth.note_damage(&error);
                Ok(Committed { table: None, walker, warmth })
            }
        }
    }

    pub(super) fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, IndexError> {
        if let Some(table) = &self.table {
            match table.get(key) {
                Ok(value) => return Ok(value.map(|value| value.value().to_vec())),
                Err(error) => self.warmth.note_damage(&error.into()),
            }
        }
        self.walker()?.get(key)
    }

    pub(super) fn scan(&self, from: &[u8], to: &[u8], visit: Visit<'_>) -> Result<(), IndexError> {
        let Some(table) = &self.table else { return self.walker()?.scan(from, to, visit) };
        let Err((error, last)) = scan(table, from, to, visit) else { return Ok(()) };
        self.warmth.note_damage(&error);
        let rest = last.map(|last| [last.as_slice(), &[0]].concat());
        self.walker()?.scan(rest.as_deref().unwrap_or(from), to, visit)
    }

    pub(super) fn last_before(&self, from: &[u8], bound: &[u8]) -> Result<Option<Record>, IndexError> {
        if let Some(table) = &self.table {
            match last_before(table, from, bound) {
                Ok(last) => return Ok(last),
                Err(error) => self.warmth.note_damage(&error),
            }
        }
        self.walker()?.last_before(from, bound)
    }

    fn walker(&self) -> Result<&Walker, IndexError> {
        self.walker.as_ref().map_err(IndexError::clone)
    }
}

/// Visits records with `from <= key < to`, in order, until `visit` breaks. An error comes with the last key before it.
pub(super) fn scan(
    table: &impl redb::ReadableTable<&'static [u8], &'static [u8]>,
    from: &[u8],
    to: &[u8],
    visit: Visit<'_>,
) -> Result<(), (IndexError, Option<Vec<u8>>)> {
    // An empty range is an answer, a reversed one panics in the library.
    if from >= to {
        return Ok(());
    }
    // Copied only on failure.
    let mut last: Option<AccessGuard<'_, &[u8]>> = None;
    for record in table.range::<&[u8]>(from..to).map_err(|error| (error.into(), None))? {
        let (key, value) = match record {
            Ok(record) => record,
            Err(error) => return Err((error.into(), last.map(|key| key.value().to_vec()))),
        };
        if visit(key.value(), value.value()).is_break() {
            break;
        }
        last = Some(key);
    }
    Ok(())
}

/// Returns the record with the greatest key in `from <= key < bound`.
pub(super) fn last_before(
    table: &impl redb::ReadableTable<&'static [u8], &'static [u8]>,
    from: &[u8],
    bound: &[u8],
) -> Result<Option<Record>, IndexError> {
    if from >= bound {
        return Ok(None);
    }
    let last = table.range::<&[u8]>(from..bound)?.next_back().transpose()?;
    Ok(last.map(|(key, value)| (key.value().to_vec(), value.value().to_vec())))
}

#[cfg(test)]
mod tests;
