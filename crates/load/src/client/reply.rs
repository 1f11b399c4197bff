//! Results of calls in terms that all protocols share.

use wire::nfs3::StableHow;

use super::cause::Cause;
use super::request::File;
use super::{Handle, nfs3, nfs4};

/// The results of a call, not decoded yet.
#[derive(Clone, Debug)]
pub(crate) enum Reply<'r> {
    V3(nfs3::Reply<'r>),
    V4(nfs4::Results<'r>),
}

/// A call whose results say nothing but whether it succeeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Plain {
    Null,
    Getattr,
    Access,
    SetModeAndTime,
    Remove,
    Rmdir,
    Close,
}

/// An object that was looked up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    pub(crate) handle: Handle,
    /// Its size, if the server told it.
    pub(crate) size: Option<u64>,
}

/// A file that was created or opened.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Opened {
    /// Absent if the server did not return a handle, as NFSv3 allows.
    pub(crate) file: Option<File>,
    /// Its size, if the server told it.
    pub(crate) size: Option<u64>,
}

/// The results of READ, with the kept prefix of the data.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadHead<'r> {
    pub(crate) count: u32,
    pub(crate) eof: bool,
    /// The prefix of the data, and padding.
    pub(crate) data: &'r [u8],
}

/// The results of WRITE.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Written {
    pub(crate) count: u32,
    pub(crate) committed: StableHow,
    pub(crate) verifier: [u8; 8],
}

/// The results of READDIR, after its entries.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Listed {
    pub(crate) verifier: [u8; 8],
    pub(crate) eof: bool,
}

/// The server's transfer sizes, not checked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    pub(crate) read_bytes: u64,
    pub(crate) write_bytes: u64,
}

/// Calls the method of the same name of either protocol.
macro_rules! either {
    ($self:ident.$method:ident($($argument:expr),*)) => {
        match $self {
            Self::V3(reply) => reply.$method($($argument),*),
            Self::V4(reply) => reply.$method($($argument),*),
        }
    };
}

impl<'r> Reply<'r> {
    /// Decodes results that say nothing but whether the call succeeded.
    #[inline]
    pub(crate) fn plain(self, call: Plain) -> Result<(), Cause> {
        either!(self.plain(call))
    }

    /// Decodes the results of [`Request::Lookup`](super::request::Request::Lookup).
    pub(crate) fn found(self) -> Result<Found, Cause> {
        either!(self.found())
    }

    /// Decodes the results of [`Request::Mkdir`](super::request::Request::Mkdir): the handle, if there is one.
    pub(crate) fn made(self) -> Result<Option<Handle>, Cause> {
        either!(self.made())
    }

    /// Decodes the results of [`Request::Create`](super::request::Request::Create).
    pub(crate) fn created(self) -> Result<Opened, Cause> {
        either!(self.created())
    }

    /// Decodes the results of [`Request::Open`](super::request::Request::Open).
    pub(crate) fn opened(self) -> Result<Opened, Cause> {
        either!(self.opened())
    }

    /// Decodes the results of READ, whose data may have been dropped.
    #[inline]
    pub(crate) fn read(self) -> Result<ReadHead<'r>, Cause> {
        either!(self.read())
    }

    /// Decodes the results of WRITE.
    #[inline]
    pub(crate) fn written(self) -> Result<Written, Cause> {
        either!(self.written())
    }

    /// Decodes the results of COMMIT: the write verifier.
    pub(crate) fn committed(self) -> Result<[u8; 8], Cause> {
        either!(self.committed())
    }

    /// Decodes the results of READDIR and passes the cookie and name of each entry to `entry`.
    pub(crate) fn listed(self, plus: bool, entry: &mut dyn FnMut(u64, &'r [u8])) -> Result<Listed, Cause> {
        either!(self.listed(plus, entry))
    }

    /// Decodes the results of [`Request::Sizes`](super::request::Request::Sizes).
    pub(crate) fn sizes(self) -> Result<Sizes, Cause> {
        either!(self.sizes())
    }

    /// Decodes the results of [`Request::Space`](super::request::Request::Space): the free bytes.
    pub(crate) fn space(self) -> Result<u64, Cause> {
        either!(self.space())
    }
}
