//! READDIR (RFC 1813 section 3.3.16): lists names of a directory, as many as the client has room for.
//!
//! Cookies stay valid forever. So the cookie verifier is always the same, and that of the client is not checked.

use volume::attributes::Attributes;
use volume::ids::Cookie;
use volume::request::{Answer, Durability, Error, Failure, Promised};
use volume::results::Entry;
use wire::nfs3::{Entry3, Filename3, NfsStat3, PostOpAttr, ReaddirArgs, ReaddirEncoder};
use wire::xdr::Encoder;

use crate::call::{Call, Handled, Object};
use crate::limits::{COOKIE_VERIFIER, DIRECTORY_BYTES_MAX, NAMES_AT_ONCE_MAX, NAMES_MAX};

/// Bytes of an entry with a name of a dozen bytes, to guess how many names to request from the engine.
const USUAL_ENTRY_BYTES: usize = 4 + 8 + (4 + 12) + 8;

/// The least number of names to request from the engine after the guess was too low.
const NAMES_MORE: usize = 16;

pub(super) fn run<'a>(call: &Call<'a>, out: &mut Encoder<'_>) -> Handled<'a> {
    let args: ReaddirArgs<'_> = call.arguments()?;
    let directory = call.object(args.dir)?;
    let maxcount = budget(args.count);
    let guess = maxcount / USUAL_ENTRY_BYTES;
    let asked = Asked { cookie: args.cookie, dircount: usize::MAX, maxcount, guess, plus: false };
    answer(&directory, &asked, out, |result, entry| {
        let name = Filename3(&entry.name);
        result.push(name, &Entry3 { fileid: entry.ino.0, name, cookie: entry.cookie.0 })
    })
}

/// What a client requests.
pub(super) struct Asked {
    /// The cookie of the last name it has.
    pub(super) cookie: u64,
    /// Most bytes of fileids, names and cookies.
    pub(super) dircount: usize,
    /// Most bytes in all.
    pub(super) maxcount: usize,
    /// The number of names expected to fit.
    pub(super) guess: usize,
    /// Whether attributes are requested.
    pub(super) plus: bool,
}

/// Lists the directory. `push` adds a name to the result, or returns false if it does not fit.
pub(super) fn answer<'a>(
    directory: &Object<'a>,
    asked: &Asked,
    out: &mut Encoder<'_>,
    push: impl Fn(&mut ReaddirEncoder<'_>, &Entry) -> bool,
) -> Handled<'a> {
    let mut result = ReaddirEncoder::begin(out, asked.dircount, asked.maxcount);
    match list(directory, asked, |entry| push(&mut result, entry)) {
        Ok(Promised { value: listed, after }) => {
            let attributes = directory.fattr3(&listed.directory);
            let nothing_to_list = listed.eof && asked.maxcount >= ReaddirEncoder::EMPTY_BYTES;
            if result.entries() > 0 || nothing_to_list {
                result.finish(&attributes, COOKIE_VERIFIER, listed.eof);
            } else {
                // The client has no room for a single entry.
                result.abandon();
                super::fail(out, NfsStat3::TooSmall, Some(attributes));
            }
            Ok(directory.after(after))
        }
        Err(failure) => {
            result.abandon();
            directory.fail(&failure, out, |attributes| attributes)
        }
    }
}

/// Limits the bytes that a client allows to our own maximum.
pub(super) fn budget(bytes: u32) -> usize {
    usize::try_from(bytes.min(DIRECTORY_BYTES_MAX)).expect("1 MiB fits")
}

/// The result of [`list`].
struct Listed {
    /// The directory after the last name.
    directory: Attributes,
    /// Whether no name follows those taken.
    eof: bool,
}

/// Passes names after the cookie to `take` until it refuses one, no more follow, or there are enough.
fn list(directory: &Object<'_>, asked: &Asked, mut take: impl FnMut(&Entry) -> bool) -> Answer<Listed> {
    let mut cookie = Cookie(asked.cookie);
    let mut taken = 0;
    let mut after = Durability::NOW;
    let mut before = None;
    loop {
        let most =
            asked.guess.saturating_sub(taken).clamp(NAMES_MORE, NAMES_AT_ONCE_MAX).min(NAMES_MAX - taken);
        let promised =
            directory.volume.read_directory(&directory.request(), directory.ino, cookie, most, asked.plus);
        let Promised { value: listing, after: found } = match (promised, before) {
            // The client gets what there is. Running the call again would list that anew.
            (Err(Failure { error: Error::WouldBlock, .. }), Some(directory)) => {
                return Ok(Promised { value: Listed { directory, eof: false }, after });
            }
            (promised, _) => promised?,
        };
        after = after.and(found);
        let fitting = listing.entries.iter().take_while(|entry| take(entry)).count();
        let all = fitting == listing.entries.len();
        taken += fitting;
        if !all || listing.end || fitting == 0 || taken == NAMES_MAX {
            let listed = Listed { directory: listing.directory, eof: all && listing.end };
            return Ok(Promised { value: listed, after });
        }
        before = Some(listing.directory);
        cookie = listing.entries.last().map_or(cookie, |entry| entry.cookie);
    }
}

pub(super) fn failed(status: NfsStat3, out: &mut Encoder<'_>) {
    super::fail(out, status, PostOpAttr::None);
}
