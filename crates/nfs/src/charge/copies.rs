//! Copies that continue after the reply to COPY. Each part passes rate limits as a WRITE does.

use std::net::SocketAddr;

use volume::ids::VolumeId;

/// Identifies a copy. Never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CopyId(pub [u8; 12]);

/// What is to be copied.
#[derive(Clone, Copy, Debug)]
pub struct CopyPart {
    /// The copy that it belongs to.
    pub copy: CopyId,
    /// The volume of both files.
    pub volume: VolumeId,
    /// The address from which the client sent COPY.
    pub peer: SocketAddr,
    /// All that is left to copy.
    pub bytes: u64,
}

/// Rate limits for what is copied after the reply.
pub trait CopyLimits {
    /// Returns how many bytes of a part may be copied now, at least one. None if it has to wait: the caller asks again as soon as
    /// something may have changed. What was allowed stays so until it is copied.
    fn allow(&self, part: &CopyPart) -> Option<u64>;

    /// Corrects what was charged by the bytes that were copied.
    fn copied(&self, part: &CopyPart, bytes: u64);

    /// Forgets copies for which `goes_on` returns false: they no longer wait, and what they were allowed and did not copy is given
    /// back.
    fn retain(&self, goes_on: &dyn Fn(CopyId) -> bool);
}
