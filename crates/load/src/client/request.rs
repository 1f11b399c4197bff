//! Calls in terms that all protocols share. A workload says what it wants of the server as a [`Request`];
//! [`nfs3`](super::nfs3) and [`nfs4`](super::nfs4) say it in the words of their protocol.

use wire::nfs3::StableHow;
use wire::nfs4::Stateid4;

use super::Handle;

/// A name in a directory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place<'a> {
    pub(crate) directory: &'a Handle,
    pub(crate) name: &'a [u8],
}

/// A file to read and write.
#[derive(Clone, Copy, Debug)]
pub(crate) struct File {
    pub(crate) handle: Handle,
    /// Its open. Meaningless in NFSv3.
    pub(crate) stateid: Stateid4,
}

impl File {
    /// Returns a file that is not open.
    pub(crate) const fn unopened(handle: Handle) -> Self {
        Self { handle, stateid: Stateid4::ANONYMOUS }
    }
}

/// What creating a file does if the name exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IfExists {
    Fail,
    Open,
}

/// The place of a listing to continue at.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Position {
    pub(crate) cookie: u64,
    pub(crate) verifier: [u8; 8],
}

/// A call, except WRITE.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Request<'a> {
    Getattr(&'a Handle),
    Access(&'a Handle),
    Lookup(Place<'a>),
    Mkdir(Place<'a>),
    /// Creates a file, and opens it if the protocol opens files.
    Create(Place<'a>, IfExists),
    /// Opens a file; in NFSv3, only looks it up.
    Open(Place<'a>),
    /// Closes a file. Only if the protocol [opens files](super::Protocol::has_opens).
    Close(&'a File),
    Read {
        file: &'a File,
        offset: u64,
        count: u32,
    },
    /// Commits data; a count of 0 means everything after the offset.
    Commit {
        file: &'a File,
        offset: u64,
        count: u32,
    },
    /// Sets the mode and the time of the last modification, as `tar` does.
    SetModeAndTime(&'a File),
    Remove(Place<'a>),
    Rmdir(Place<'a>),
    Readdir {
        directory: &'a Handle,
        position: Position,
        /// The size of the reply.
        bytes: u32,
        /// Whether to request attributes and handles.
        plus: bool,
    },
    /// Asks for the transfer sizes.
    Sizes(&'a Handle),
    /// Asks for the free space.
    Space(&'a Handle),
}

/// The arguments of a WRITE, without its data.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WriteRequest<'a> {
    pub(crate) file: &'a File,
    pub(crate) offset: u64,
    pub(crate) length: u32,
    pub(crate) stable: StableHow,
}

/// The mode of new files.
pub(crate) const FILE_MODE: u32 = 0o644;
/// The mode of new directories.
pub(crate) const DIRECTORY_MODE: u32 = 0o755;
/// The time that [`Request::SetModeAndTime`] sets, in seconds since 1970.
pub(crate) const FILE_TIME_S: u32 = 1_000_000_000;
