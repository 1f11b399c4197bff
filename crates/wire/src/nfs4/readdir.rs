//! READDIR (RFC 8881 section 18.23).
//!
//! The client limits the result: `maxcount` applies to READDIR4resok with its XDR overhead. [`ReaddirEncoder`] accepts
//! entries up to the limit; if not even one fits, the result is NFS4ERR_TOOSMALL.

use super::{AttrMask, Component4, Fattr4, NfsStat4, Verifier4};
use crate::entries::EntriesEncoder;
use crate::list::List;
use crate::xdr::{Encode, Encoder};

xdr! {
    /// The arguments of READDIR.
    pub struct ReaddirArgs {
        /// The cookie to continue after; 0 to start. 1 and 2 are reserved.
        pub cookie: u64,
        /// The verifier returned with the cookie; zeros to start.
        pub cookieverf: Verifier4,
        /// The most bytes of names and cookies, as a hint.
        pub dircount: u32,
        /// The largest resok body in bytes.
        pub maxcount: u32,
        /// The attributes of the entries to return.
        pub attr_request: AttrMask,
    }

    /// An entry of a directory (entry4).
    pub struct Entry4<'a> {
        /// The cookie to continue after this entry.
        pub cookie: u64,
        /// The name.
        pub name: Component4<'a>,
        /// The attributes.
        pub attrs: Fattr4<'a>,
    }

    /// READDIR succeeded.
    pub struct ReaddirOk<'a> {
        /// The verifier to send with the next cookie.
        pub cookieverf: Verifier4,
        /// The entries.
        pub entries: List<'a, Entry4<'a>>,
        /// Whether no entries follow.
        pub eof: bool,
    }
}

/// Builds a successful result of READDIR in place.
#[derive(Debug)]
#[must_use = "the result is not complete until it is finished"]
pub struct ReaddirEncoder<'b> {
    list: EntriesEncoder<'b>,
}

impl<'b> ReaddirEncoder<'b> {
    /// The verifier.
    const HEADER_BYTES: usize = 8;
    /// The size of a resok body without entries.
    pub const EMPTY_BYTES: usize = Self::HEADER_BYTES + EntriesEncoder::TRAILER_BYTES;

    /// Begins a result whose resok body is limited to `maxcount` bytes, and its names and cookies to `dircount`. The latter
    /// is a hint: the first entry is accepted regardless, and 0 means no limit.
    pub fn begin(out: &'b mut Encoder<'_>, cookieverf: Verifier4, dircount: usize, maxcount: usize) -> Self {
        let header = |out: &mut Encoder<'_>| {
            NfsStat4::Ok.encode(out);
            out.raw(&cookieverf);
        };
        let dircount = if dircount == 0 { usize::MAX } else { dircount };
        Self { list: EntriesEncoder::begin(out, header, dircount, maxcount) }
    }

    /// Appends an entry, whose attributes `attributes` encodes as a [`Fattr4`]. Returns `false` and changes nothing if it
    /// does not fit.
    pub fn push(
        &mut self,
        cookie: u64,
        name: Component4<'_>,
        attributes: impl FnOnce(&mut Encoder<'_>),
    ) -> bool {
        self.list.push(8 + 4 + name.0.len().next_multiple_of(4), |out| {
            out.u64(cookie);
            name.encode(out);
            attributes(out);
        })
    }

    /// Returns the number of entries appended.
    #[must_use]
    pub fn entries(&self) -> usize {
        self.list.entries()
    }

    /// Ends the list.
    pub fn finish(self, eof: bool) {
        self.list.finish(eof);
    }

    /// Removes the result again. The caller writes a failure instead.
    pub fn abandon(self) {
        self.list.abandon();
    }
}
