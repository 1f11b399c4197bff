//! READDIR (RFC 1813 section 3.3.16): names of a directory, as many as the client has room for.
//!
//! Cookies stay valid for ever, so the cookie verifier is always the same, and whichever the client sends will do.

use volume::attributes::Attributes;
use volume::ids::Cookie;
use volume::request::{Answer, Durability, Promised};
use volume::results::Entry;
use wire::limits::VERIFIER_BYTES;
use wire::nfs3::{Entry3, Fattr3, Filename3, NfsStat3, ReaddirArgs, ReaddirEncoder, ReaddirFail};
use wire::xdr::Encoder;

use crate::call::{Call, Handled, Object};
use crate::limits::{DIRECTORY_BYTES, NAMES_AT_ONCE};

/// What a result without entries takes: attributes, verifier, the end of the list, eof.
pub(super) const EMPTY_BYTES: usize = 4 + Fattr3::BYTES + VERIFIER_BYTES + 4 + 4;

/// An entry with a name of a dozen bytes; only a guess at how many to ask the engine for.
const USUAL_ENTRY_BYTES: usize = 4 + 8 + (4 + 12) + 8;

/// Fewest names to ask the engine for, once the guess was too low.
const NAMES_MORE: usize = 16;

pub(super) fn run<'a>(call: &Call<'a>, out: &mut Encoder<'_>) -> Handled<'a> {
    let args: ReaddirArgs<'_> = call.arguments()?;
    let directory = call.object(args.dir)?;
    let count = budget(args.count);
    let mut result = ReaddirEncoder::begin(out, count);
    let guess = count / USUAL_ENTRY_BYTES;
    let listed = list(&directory, args.cookie, guess, false, |entry| {
        result.push(&Entry3 { fileid: entry.ino.0, name: Filename3(&entry.name), cookie: entry.cookie.0 })
    });
    match listed {
        Ok(promised) if result.entries() > 0 || promised.value.is_empty(count) => {
            let listed = &promised.value;
            result.finish(&directory.fattr3(&listed.directory), listed.verifier, listed.eof);
            Ok(directory.after(promised.after))
        }
        Ok(promised) => {
            result.abandon();
            Ok(too_small(&directory, &promised, out))
        }
        Err(failure) => {
            result.abandon();
            directory.fail(&failure, out, |dir_attributes| ReaddirFail { dir_attributes })
        }
    }
}

/// The bytes that a client allows, within our own limit.
pub(super) fn budget(bytes: u32) -> usize {
    usize::try_from(bytes.min(DIRECTORY_BYTES)).expect("1 MiB fits")
}

/// What [`list`] went through.
pub(super) struct Listed {
    /// The directory, at the end.
    pub(super) directory: Attributes,
    /// The cookie verifier.
    pub(super) verifier: [u8; VERIFIER_BYTES],
    /// Whether the last name of the directory was taken, or was before the cookie.
    pub(super) eof: bool,
}

impl Listed {
    /// Whether there was nothing to list, and a result that says so has `room` enough.
    pub(super) fn is_empty(&self, room: usize) -> bool {
        self.eof && room >= EMPTY_BYTES
    }
}

/// Hands names after `cookie` to `take` until it refuses one or there are no more. About `guess` are expected to be taken.
pub(super) fn list(
    directory: &Object<'_>,
    cookie: u64,
    guess: usize,
    plus: bool,
    mut take: impl FnMut(&Entry) -> bool,
) -> Answer<Listed> {
    let mut cookie = Cookie(cookie);
    let mut taken = 0;
    let mut after = Durability::NOW;
    loop {
        let most = guess.saturating_sub(taken).clamp(NAMES_MORE, NAMES_AT_ONCE);
        let promised =
            directory.volume.read_directory(&directory.request(), directory.ino, cookie, most, plus)?;
        after = after.and(promised.after);
        let listing = promised.value;
        let fitting = listing.entries.iter().take_while(|entry| take(entry)).count();
        let all = fitting == listing.entries.len();
        if !all || listing.end || fitting == 0 {
            let (directory, verifier) = (listing.directory, listing.verifier);
            return Ok(Promised { value: Listed { directory, verifier, eof: all && listing.end }, after });
        }
        taken += fitting;
        cookie = listing.entries.last().map_or(cookie, |entry| entry.cookie);
    }
}

/// Answers a client that left no room for even one name.
pub(super) fn too_small<'a>(
    directory: &Object<'a>,
    listed: &Promised<Listed>,
    out: &mut Encoder<'_>,
) -> crate::call::After<'a> {
    let dir_attributes = Some(directory.fattr3(&listed.value.directory));
    super::fail(out, NfsStat3::TooSmall, ReaddirFail { dir_attributes });
    directory.after(listed.after)
}

pub(super) fn failed(status: NfsStat3, out: &mut Encoder<'_>) {
    super::fail(out, status, ReaddirFail { dir_attributes: None });
}
