//! What the catalogue of a namespace says of each pool.

use crate::error::{Error, ErrorKind};
use crate::location::Location;

/// The first line of a pool's format.
const TITLE: &str = "holdfast pool on rados ";

/// The version of the layout that this crate reads and writes.
pub(crate) const FORMAT_VERSION: u32 = 1;

/// The properties that a pool keeps from its creation on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Format {
    /// The number that identifies the pool; names of its objects begin with it.
    pub(crate) id: u64,
    /// The number of objects in the journal's ring.
    pub(crate) journal_objects: u64,
    /// The pool of the cluster that holds its segments.
    pub(crate) data_pool: String,
    pub(crate) state: State,
}

/// Whether a pool can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// It is being created, or deleted: what there is of it is removed.
    Incomplete,
    Complete,
}

impl Format {
    pub(crate) fn encode(&self) -> String {
        let Format { id, journal_objects, data_pool, state } = self;
        let state = match state {
            State::Incomplete => "incomplete",
            State::Complete => "complete",
        };
        format!(
            "{TITLE}{FORMAT_VERSION}\nid {id:016x}\njournal_objects {journal_objects}\ndata_pool {data_pool}\nstate {state}\n"
        )
    }

    pub(crate) fn decode(location: &Location, name: &str, bytes: &[u8]) -> Result<Format, Error> {
        let damaged = || {
            let text = format!(
                "the entry of the pool {name:?} in {location} is damaged; restore the object `pools`"
            );
            Error::new(ErrorKind::Damaged, text)
        };
        let mut lines = std::str::from_utf8(bytes).map_err(|_| damaged())?.lines();
        let version = lines.next().and_then(|line| line.strip_prefix(TITLE)).ok_or_else(damaged)?;
        let version: u32 = version.parse().map_err(|_| damaged())?;
        if version != FORMAT_VERSION {
            let text = format!(
                "the pool {name:?} in {location} has format version {version}, and this version of holdfast reads only \
                 {FORMAT_VERSION}; use the version that created it"
            );
            return Err(Error::new(ErrorKind::WrongFormat, text));
        }
        let mut field = |name: &str| lines.next()?.strip_prefix(name)?.strip_prefix(' ');
        let mut read = || {
            Some(Format {
                id: u64::from_str_radix(field("id")?, 16).ok()?,
                journal_objects: field("journal_objects")?.parse().ok().filter(|count| *count > 0)?,
                data_pool: field("data_pool")?.to_owned(),
                state: match field("state")? {
                    "incomplete" => State::Incomplete,
                    "complete" => State::Complete,
                    _ => return None,
                },
            })
        };
        read().ok_or_else(damaged)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn encoded_formats_are_read_back_and_others_are_told_apart() {
        let location = Location::parse(Path::new("rados:nfs")).unwrap().unwrap();
        let decode = |bytes: &[u8]| Format::decode(&location, "main", bytes);
        for state in [State::Incomplete, State::Complete] {
            let format = Format { id: 0xabc, journal_objects: 64, data_pool: "nfs-ec".to_owned(), state };
            assert_eq!(decode(format.encode().as_bytes()).unwrap(), format);
            let text = format.encode();
            for end in text.match_indices('\n').map(|(at, _)| at) {
                assert_eq!(
                    decode(&text.as_bytes()[..end.saturating_sub(1)]).unwrap_err().kind(),
                    ErrorKind::Damaged
                );
            }
        }
        let error = decode(b"holdfast pool on rados 2\nwhatever").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WrongFormat);
        assert!(error.to_string().contains("format version 2"), "{error}");
    }
}
