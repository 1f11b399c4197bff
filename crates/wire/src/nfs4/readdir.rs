//! READDIR (RFC 8881 section 18.23).
//!
//! Its result is bounded by the client: `maxcount` holds for the whole READDIR4resok with all its XDR overhead.
//! [`ReaddirEncoder`] writes entries until the next one would break the bound; if not even one fits, the answer is
//! NFS4ERR_TOOSMALL.

use super::{AttrMask, Attributes4, Component4, Fattr4, NfsStat4, Res4, Verifier4};
use crate::list::List;
use crate::xdr::{Encode, Encoder};

xdr_struct! {
    /// The arguments of READDIR.
    pub struct ReaddirArgs {
        /// The cookie of the last entry that the client has; 0 to begin. 1 and 2 are never sent.
        pub cookie: u64,
        /// The verifier that came with the cookie; zeros to begin.
        pub cookieverf: Verifier4,
        /// The most bytes of names and cookies; a hint.
        pub dircount: u32,
        /// The most bytes of the resok body.
        pub maxcount: u32,
        /// Which attributes of the entries.
        pub attr_request: AttrMask,
    }
}

xdr_struct! {
    /// A name in a directory (entry4).
    pub struct Entry4<'a> {
        /// Where to go on after this entry.
        pub cookie: u64,
        /// The name.
        pub name: Component4<'a>,
        /// The attributes.
        pub attrs: Fattr4<'a>,
    }
}

xdr_struct! {
    /// READDIR succeeded.
    pub struct ReaddirOk<'a> {
        /// To be sent with the next cookie.
        pub cookieverf: Verifier4,
        /// The entries.
        pub entries: List<'a, Entry4<'a>>,
        /// Whether the last entry of the directory is among them, or before them.
        pub eof: bool,
    }
}

/// The result of READDIR.
pub type ReaddirRes<'a> = Res4<ReaddirOk<'a>>;

/// Builds a successful result of READDIR in place.
#[derive(Debug)]
#[must_use = "the result is not complete until it is finished"]
pub struct ReaddirEncoder<'b> {
    out: Encoder<'b>,
    start: usize,
    /// Where the last entry must end so that the end of the list and eof still fit; before the first one, if
    /// not even an empty list fits.
    entries_end: usize,
    entries: usize,
    /// What is left of `dircount`, in bytes.
    dir_bytes_left: usize,
}

impl<'b> ReaddirEncoder<'b> {
    const STATUS_BYTES: usize = 4;
    /// The verifier.
    const HEADER_BYTES: usize = 8;
    /// The end of the list, and eof.
    const TRAILER_BYTES: usize = 4 + 4;
    /// A resok body without entries.
    pub const EMPTY_BYTES: usize = Self::HEADER_BYTES + Self::TRAILER_BYTES;

    /// Begins a result whose resok body has at most `maxcount` bytes, of which names and cookies are at most
    /// `dircount`. The latter is only a hint, so one entry is let in whatever it is, and 0 is no wish at all.
    pub fn begin(out: &'b mut Encoder<'_>, cookieverf: Verifier4, dircount: usize, maxcount: usize) -> Self {
        let mut out = out.reborrow();
        let start = out.position();
        NfsStat4::Ok.encode(&mut out);
        out.raw(&cookieverf);
        let resok_start = start + Self::STATUS_BYTES;
        let entries_end = resok_start + maxcount.saturating_sub(Self::TRAILER_BYTES);
        let dir_bytes_left = if dircount == 0 { usize::MAX } else { dircount };
        Self { out, start, entries_end, entries: 0, dir_bytes_left }
    }

    /// Appends an entry with those of its attributes that are in `request`, or says `false` and changes nothing if it
    /// does not fit.
    pub fn push(
        &mut self,
        cookie: u64,
        name: Component4<'_>,
        attributes: &Attributes4<'_>,
        request: AttrMask,
    ) -> bool {
        let dir_bytes = 8 + 4 + name.0.len().next_multiple_of(4);
        let left = self.dir_bytes_left.checked_sub(dir_bytes);
        if left.is_none() && self.entries > 0 {
            return false;
        }
        let before = self.out.position();
        self.out.bool(true);
        self.out.u64(cookie);
        name.encode(&mut self.out);
        attributes.encode_requested(request, &mut self.out);
        if self.out.position() > self.entries_end {
            self.out.rewind(before);
            return false;
        }
        self.entries += 1;
        self.dir_bytes_left = left.unwrap_or(0);
        true
    }

    /// How many entries were appended.
    #[must_use]
    pub fn entries(&self) -> usize {
        self.entries
    }

    /// Ends the list.
    pub fn finish(mut self, eof: bool) {
        self.out.bool(false);
        self.out.bool(eof);
    }

    /// Takes everything back; the caller writes a failure instead.
    pub fn abandon(mut self) {
        self.out.rewind(self.start);
    }
}
