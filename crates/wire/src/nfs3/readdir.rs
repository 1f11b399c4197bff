//! READDIR and READDIRPLUS (RFC 1813 sections 3.3.16 and 3.3.17).
//!
//! The client limits their results: `count` and `maxcount` apply to the resok body with its XDR overhead, without the
//! status. [`ReaddirEncoder`] accepts entries up to the limit; if not even one fits, the result is NFS3ERR_TOOSMALL.

use super::{Fattr3, FileHandle3, Filename3, NfsStat3, PostOpAttr, PostOpFh3, Res3};
use crate::entries::EntriesEncoder;
use crate::limits::VERIFIER_BYTES;
use crate::list::List;
use crate::xdr::{Encode, Encoder};

/// The verifier of the cookies of a directory (RFC 1813 section 2.5, cookieverf3).
pub type CookieVerf3 = [u8; VERIFIER_BYTES];

xdr! {
    /// The arguments of READDIR (RFC 1813 section 3.3.16).
    pub struct ReaddirArgs<'a> {
        /// The directory.
        pub dir: FileHandle3<'a>,
        /// The cookie to continue after; 0 to start.
        pub cookie: u64,
        /// The verifier returned with the cookie; zeros to start.
        pub cookieverf: CookieVerf3,
        /// The largest resok body in bytes.
        pub count: u32,
    }

    /// An entry of a directory in READDIR (entry3).
    pub struct Entry3<'a> {
        /// The file id of the object.
        pub fileid: u64,
        /// Its name.
        pub name: Filename3<'a>,
        /// The cookie to continue after this entry.
        pub cookie: u64,
    }

    /// READDIR succeeded.
    pub struct ReaddirOk<'a> {
        /// The attributes of the directory.
        pub dir_attributes: PostOpAttr,
        /// The verifier to send with the next cookie.
        pub cookieverf: CookieVerf3,
        /// The entries.
        pub entries: List<'a, Entry3<'a>>,
        /// Whether no entries follow.
        pub eof: bool,
    }

    /// The result of READDIR. A failure has the attributes of the directory.
    pub type ReaddirRes<'a> = Res3<ReaddirOk<'a>, PostOpAttr>;

    /// The arguments of READDIRPLUS (RFC 1813 section 3.3.17).
    pub struct ReaddirplusArgs<'a> {
        /// The directory.
        pub dir: FileHandle3<'a>,
        /// The cookie to continue after; 0 to start.
        pub cookie: u64,
        /// The verifier returned with the cookie; zeros to start.
        pub cookieverf: CookieVerf3,
        /// The most bytes of file ids, names and cookies.
        pub dircount: u32,
        /// The largest resok body in bytes.
        pub maxcount: u32,
    }

    /// An entry of a directory in READDIRPLUS (entryplus3).
    pub struct EntryPlus3<'a> {
        /// The file id of the object.
        pub fileid: u64,
        /// Its name.
        pub name: Filename3<'a>,
        /// The cookie to continue after this entry.
        pub cookie: u64,
        /// Its attributes.
        pub name_attributes: PostOpAttr,
        /// Its handle.
        pub name_handle: PostOpFh3<'a>,
    }

    /// READDIRPLUS succeeded.
    pub struct ReaddirplusOk<'a> {
        /// The attributes of the directory.
        pub dir_attributes: PostOpAttr,
        /// The verifier to send with the next cookie.
        pub cookieverf: CookieVerf3,
        /// The entries.
        pub entries: List<'a, EntryPlus3<'a>>,
        /// Whether no entries follow.
        pub eof: bool,
    }
}

/// The result of READDIRPLUS. A failure has the attributes of the directory.
pub type ReaddirplusRes<'a> = Res3<ReaddirplusOk<'a>, PostOpAttr>;

/// Builds a successful result of READDIR or READDIRPLUS in place. The attributes of the directory are filled in at the end.
#[derive(Debug)]
#[must_use = "the result is not complete until it is finished"]
pub struct ReaddirEncoder<'b> {
    list: EntriesEncoder<'b>,
}

impl<'b> ReaddirEncoder<'b> {
    /// The attributes and the verifier.
    const HEADER_BYTES: usize = 4 + Fattr3::BYTES + VERIFIER_BYTES;
    /// The size of a resok body without entries.
    pub const EMPTY_BYTES: usize = Self::HEADER_BYTES + EntriesEncoder::TRAILER_BYTES;

    /// Begins a result whose resok body is limited to `maxcount` bytes, and its file ids, names and cookies to `dircount`.
    /// The latter is a hint (RFC 1813): the first entry is accepted regardless. READDIR passes `usize::MAX`.
    pub fn begin(out: &'b mut Encoder<'_>, dircount: usize, maxcount: usize) -> Self {
        let header = |out: &mut Encoder<'_>| {
            NfsStat3::Ok.encode(out);
            out.raw(&[0; Self::HEADER_BYTES]);
        };
        Self { list: EntriesEncoder::begin(out, header, dircount, maxcount) }
    }

    /// Appends an [`Entry3`] or [`EntryPlus3`] of this name. Returns `false` and changes nothing if it does not fit.
    pub fn push(&mut self, name: Filename3<'_>, entry: &impl Encode) -> bool {
        let dir_bytes = 8 + 4 + name.0.len().next_multiple_of(4) + 8;
        self.list.push(dir_bytes, |out| entry.encode(out))
    }

    /// Returns the number of entries appended.
    #[must_use]
    pub fn entries(&self) -> usize {
        self.list.entries()
    }

    /// Completes the result.
    pub fn finish(mut self, dir_attributes: &Fattr3, cookieverf: CookieVerf3, eof: bool) {
        let attributes = EntriesEncoder::STATUS_BYTES;
        self.list.patch(attributes, &dir_attributes.to_post_op_bytes());
        self.list.patch(attributes + 4 + Fattr3::BYTES, &cookieverf);
        self.list.finish(eof);
    }

    /// Removes the result again. The caller writes a failure instead.
    pub fn abandon(self) {
        self.list.abandon();
    }
}
