//! GETATTR (RFC 1813 section 3.3.1).

use crate::api::attributes::Attributes;
use crate::api::ids::Ino;
use crate::api::request::{Answer, Promised, Request};
use crate::volume::Volume;

impl Volume {
    /// Returns the attributes of an object.
    pub fn attributes(&self, request: &Request<'_>, ino: Ino) -> Answer<Attributes> {
        let ino = self.object(ino);
        self.run(request.access, |attempt| {
            let state = attempt.lock(ino)?;
            Ok(Promised { value: state.attributes(), after: state.durability() })
        })
    }
}
