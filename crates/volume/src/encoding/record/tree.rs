//! The record about a quota tree.

use crate::api::trees::{Refusal, TreeState};
use crate::encoding::codec::{Malformed, Reader, Write};

/// A quota tree: a directory whose usage, with that of everything beneath it, is counted and limited. Its number is that of the
/// directory's inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TreeRecord {
    /// Whether everything beneath the directory is in the tree.
    pub state: TreeState,
}

const READY: u8 = 0;
const CREATING: u8 = 1;
const DELETING: u8 = 2;
const REFUSED: u8 = 3;

impl TreeRecord {
    /// Encodes the record.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(10);
        match self.state {
            TreeState::Ready => out.u8(READY),
            TreeState::Creating => out.u8(CREATING),
            TreeState::Deleting => out.u8(DELETING),
            TreeState::Refused(refusal) => {
                out.u8(REFUSED);
                out.u8(refusal.byte());
            }
        }
        out
    }

    /// Decodes a record.
    pub fn decode(bytes: &[u8]) -> Result<TreeRecord, Malformed> {
        let mut r = Reader::new(bytes, "tree record");
        let state = match r.u8()? {
            READY => TreeState::Ready,
            CREATING => TreeState::Creating,
            DELETING => TreeState::Deleting,
            REFUSED => TreeState::Refused(Refusal::from_byte(r.u8()?).ok_or(r.malformed())?),
            _ => return Err(r.malformed()),
        };
        r.finish()?;
        Ok(TreeRecord { state })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_is_read_as_it_was_written() {
        let refused = Refusal::ALL.map(TreeState::Refused);
        for state in [TreeState::Ready, TreeState::Creating, TreeState::Deleting].into_iter().chain(refused) {
            let record = TreeRecord { state };
            assert_eq!(TreeRecord::decode(&record.encode()), Ok(record));
        }
        for bytes in [&[][..], &[4], &[0, 0], &[3], &[3, 9]] {
            assert!(TreeRecord::decode(bytes).is_err(), "{bytes:?}");
        }
    }
}
