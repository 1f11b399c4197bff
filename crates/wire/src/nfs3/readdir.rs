//! READDIR and READDIRPLUS (RFC 1813 sections 3.3.16 and 3.3.17).
//!
//! Their results are bounded by the client: `count` and `maxcount` hold for the whole resok body with all its XDR
//! overhead, without the status before it. [`ReaddirEncoder`] writes entries of either until the next one would break the
//! bound; if not even one fits, the answer is NFS3ERR_TOOSMALL.

use super::{Fattr3, FileHandle3, Filename3, NfsStat3, PostOpAttr, PostOpFh3, Res3};
use crate::entries::EntriesEncoder;
use crate::limits::VERIFIER_BYTES;
use crate::list::List;
use crate::xdr::{Encode, Encoder};

/// Says for which state of a directory its cookies are good (RFC 1813 section 2.5, cookieverf3).
pub type CookieVerf3 = [u8; VERIFIER_BYTES];

xdr_struct! {
    /// The arguments of READDIR (RFC 1813 section 3.3.16).
    pub struct ReaddirArgs<'a> {
        /// The directory.
        pub dir: FileHandle3<'a>,
        /// The cookie of the last entry that the client has; 0 to begin.
        pub cookie: u64,
        /// The verifier that came with the cookie; zeros to begin.
        pub cookieverf: CookieVerf3,
        /// The most bytes of the resok body.
        pub count: u32,
    }
}

xdr_struct! {
    /// A name in a directory, as READDIR tells it (entry3).
    pub struct Entry3<'a> {
        /// The number of the object.
        pub fileid: u64,
        /// Its name.
        pub name: Filename3<'a>,
        /// Where to go on after this entry.
        pub cookie: u64,
    }
}

xdr_struct! {
    /// READDIR succeeded.
    pub struct ReaddirOk<'a> {
        /// The attributes of the directory.
        pub dir_attributes: PostOpAttr,
        /// To be sent with the next cookie.
        pub cookieverf: CookieVerf3,
        /// The entries.
        pub entries: List<'a, Entry3<'a>>,
        /// Whether the last entry of the directory is among them, or before them.
        pub eof: bool,
    }
}

xdr_struct! {
    /// READDIR or READDIRPLUS failed.
    pub struct ReaddirFail {
        /// The attributes of the directory.
        pub dir_attributes: PostOpAttr,
    }
}

/// The result of READDIR.
pub type ReaddirRes<'a> = Res3<ReaddirOk<'a>, ReaddirFail>;

xdr_struct! {
    /// The arguments of READDIRPLUS (RFC 1813 section 3.3.17).
    pub struct ReaddirplusArgs<'a> {
        /// The directory.
        pub dir: FileHandle3<'a>,
        /// The cookie of the last entry that the client has; 0 to begin.
        pub cookie: u64,
        /// The verifier that came with the cookie; zeros to begin.
        pub cookieverf: CookieVerf3,
        /// The most bytes of numbers, names and cookies.
        pub dircount: u32,
        /// The most bytes of the resok body.
        pub maxcount: u32,
    }
}

xdr_struct! {
    /// A name in a directory, as READDIRPLUS tells it (entryplus3).
    pub struct EntryPlus3<'a> {
        /// The number of the object.
        pub fileid: u64,
        /// Its name.
        pub name: Filename3<'a>,
        /// Where to go on after this entry.
        pub cookie: u64,
        /// Its attributes.
        pub name_attributes: PostOpAttr,
        /// Its handle.
        pub name_handle: PostOpFh3<'a>,
    }
}

xdr_struct! {
    /// READDIRPLUS succeeded.
    pub struct ReaddirplusOk<'a> {
        /// The attributes of the directory.
        pub dir_attributes: PostOpAttr,
        /// To be sent with the next cookie.
        pub cookieverf: CookieVerf3,
        /// The entries.
        pub entries: List<'a, EntryPlus3<'a>>,
        /// Whether the last entry of the directory is among them, or before them.
        pub eof: bool,
    }
}

/// The result of READDIRPLUS.
pub type ReaddirplusRes<'a> = Res3<ReaddirplusOk<'a>, ReaddirFail>;

/// Builds a successful result of READDIR or READDIRPLUS in place; the attributes of the directory are filled in at the
/// end.
#[derive(Debug)]
#[must_use = "the result is not complete until it is finished"]
pub struct ReaddirEncoder<'b> {
    list: EntriesEncoder<'b>,
}

impl<'b> ReaddirEncoder<'b> {
    /// Attributes and verifier.
    const HEADER_BYTES: usize = 4 + Fattr3::BYTES + VERIFIER_BYTES;
    /// A resok body without entries.
    pub const EMPTY_BYTES: usize = Self::HEADER_BYTES + EntriesEncoder::TRAILER_BYTES;

    /// Begins a result whose resok body has at most `maxcount` bytes, of which numbers, names and cookies are at
    /// most `dircount`. The latter is only a wish (RFC 1813 calls it a hint), so one entry is let in whatever it is;
    /// READDIR has no such wish, and passes `usize::MAX`.
    pub fn begin(out: &'b mut Encoder<'_>, dircount: usize, maxcount: usize) -> Self {
        let header = |out: &mut Encoder<'_>| {
            NfsStat3::Ok.encode(out);
            out.raw(&[0; Self::HEADER_BYTES]);
        };
        Self { list: EntriesEncoder::begin(out, header, dircount, maxcount) }
    }

    /// Appends an [`Entry3`] or [`EntryPlus3`] of this name; returns `false` and changes nothing if it does not fit.
    pub fn push(&mut self, name: Filename3<'_>, entry: &impl Encode) -> bool {
        let dir_bytes = 8 + 4 + name.0.len().next_multiple_of(4) + 8;
        self.list.push(dir_bytes, |out| entry.encode(out))
    }

    /// How many entries were appended.
    #[must_use]
    pub fn entries(&self) -> usize {
        self.list.entries()
    }

    /// Fills in the rest.
    pub fn finish(mut self, dir_attributes: &Fattr3, cookieverf: CookieVerf3, eof: bool) {
        let attributes = EntriesEncoder::STATUS_BYTES;
        self.list.patch(attributes, &dir_attributes.to_post_op_bytes());
        self.list.patch(attributes + 4 + Fattr3::BYTES, &cookieverf);
        self.list.finish(eof);
    }

    /// Takes everything back; the caller writes a failure instead.
    pub fn abandon(self) {
        self.list.abandon();
    }
}
