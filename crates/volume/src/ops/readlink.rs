//! READLINK (RFC 1813 section 3.3.5).

use crate::api::attributes::FileType;
use crate::api::ids::Ino;
use crate::api::request::{Answer, Error, Failure, Promised, Request};
use crate::api::results::LinkTarget;
use crate::encoding::key;
use crate::pool::Subject;
use crate::volume::Volume;

impl Volume {
    /// Returns the target of a symbolic link.
    pub fn read_link(&self, request: &Request<'_>, ino: Ino) -> Answer<LinkTarget> {
        let ino = self.object(ino);
        self.run(request.access, |attempt| {
            let state = attempt.lock(ino)?;
            let after = state.durability();
            if state.record().file_type != FileType::Symlink {
                return Err(Failure { error: Error::Invalid, after }.into());
            }
            let slot = attempt.record(&self.view(), &key::symlink(ino))?;
            let value =
                slot.ok_or_else(|| self.report(Subject::Object(ino), &"a symbolic link has no target"))?;
            let target = (*value).into();
            Ok(Promised { value: LinkTarget { target, attributes: state.attributes() }, after })
        })
    }
}
