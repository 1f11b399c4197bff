//! ACCESS (RFC 1813 section 3.3.4).

use crate::api::attributes::FileType;
use crate::api::ids::Ino;
use crate::api::request::{Answer, Credentials, Promised, Request};
use crate::api::results::{AccessMask, Accessible};
use crate::encoding::record::InodeRecord;
use crate::transaction::permission::{EXECUTE, READ, WRITE, may};
use crate::volume::Volume;

impl Volume {
    /// Returns which of the wanted permissions the caller has.
    pub fn access(&self, request: &Request<'_>, ino: Ino, wanted: AccessMask) -> Answer<Accessible> {
        let ino = self.object(ino);
        self.run(request.access, |attempt| {
            let state = attempt.lock(ino)?;
            let granted = AccessMask(granted(request.credentials, state.record()) & wanted.0);
            Ok(Promised {
                value: Accessible { granted, attributes: state.attributes() },
                after: state.durability(),
            })
        })
    }
}

/// Returns what the mode bits grant, without the owner's exceptions for READ and WRITE: those stand in for an open
/// that was checked, and a client that asks here is about to open.
pub(super) fn granted(who: &Credentials, inode: &InodeRecord) -> u32 {
    let mut granted = 0;
    let is_directory = inode.file_type == FileType::Directory;
    if may(who, inode, READ) {
        granted |= AccessMask::READ;
    }
    if may(who, inode, WRITE) {
        granted |= AccessMask::MODIFY | AccessMask::EXTEND;
        if is_directory {
            granted |= AccessMask::DELETE;
        }
    }
    if may(who, inode, EXECUTE) {
        granted |= if is_directory { AccessMask::LOOKUP } else { AccessMask::EXECUTE };
    }
    granted
}
