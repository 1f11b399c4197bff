//! Copies that continue after the reply to COPY. Each part passes rate limits as a WRITE does.

use std::net::SocketAddr;

use volume::ids::VolumeId;

/// Names a copy; never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CopyId(pub [u8; 12]);

/// What is to be copied.
#[derive(Clone, Copy, Debug)]
pub struct CopyPart {
    /// The copy that it belongs to.
    pub copy: CopyId,
    /// The volume of both files.
    pub volume: VolumeId,
    /// Where the client asked for the copy.
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

    /// Forgets copies that do not go on: those that wait, and what was allowed to others.
    fn retain(&self, goes_on: &dyn Fn(CopyId) -> bool);
}
