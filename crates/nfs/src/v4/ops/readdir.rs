//! READDIR (RFC 8881 section 18.23): lists a directory with attributes, as many entries as the client has room for.
//!
//! Cookies never expire, so the cookie verifier is zero and is not checked. Cookies 1 and 2 are never handed out, as the
//! RFC requires: the engine lists `.` and `..` under them, which NFSv4 does not have.

use volume::ids::Cookie;
use volume::limits::TRANSFER_BYTES_MAX;
use wire::nfs4::{Attr4, AttrMask, Attributes4, Component4, NfsStat4, ReaddirArgs, ReaddirEncoder};
use wire::xdr::Encoder;

use crate::call::Object;
use crate::exports::pseudo::Node;
use crate::limits::{COOKIE_VERIFIER, DIRECTORY_BYTES_MAX, NAMES_AT_ONCE_MAX, NAMES_MAX};
use crate::status;
use crate::v4::attributes;
use crate::v4::attributes::shown::{self, Shown};
use crate::v4::context::{Compound, Done, OpStop, Target};
use crate::v4::turns::NAMES_OF_WEIGHT_1;

/// The size of an entry with a name of a dozen bytes and the attributes that Linux requests; an estimate of how many to
/// ask the engine for.
const USUAL_ENTRY_BYTES: usize = 256;

/// The bytes of such an entry that `dircount` limits: cookie and name.
const USUAL_NAME_BYTES: usize = 8 + (4 + 12);

/// Fewest names to ask the engine for after the estimate was too low.
const NAMES_MORE: usize = 16;

/// Cookies below this are not handed out for names.
const COOKIES_RESERVED: u64 = 3;

pub(crate) fn run(compound: &mut Compound<'_>, args: &ReaddirArgs, out: &mut Encoder<'_>) -> Done {
    let target = compound.target()?;
    if let Target::Stored(directory) = &target {
        compound.check_directory(directory)?;
    }
    attributes::check_request(args.attr_request)?;
    if matches!(args.cookie, 1..COOKIES_RESERVED) {
        return Err(NfsStat4::BadCookie.into());
    }
    let maxcount = usize::try_from(args.maxcount.min(DIRECTORY_BYTES_MAX)).expect("1 MiB fits");
    // `maxcount` does not include the status.
    let maxcount = maxcount.min(compound.room(out.position() + 4));
    if maxcount < ReaddirEncoder::EMPTY_BYTES {
        return Err(NfsStat4::TooSmall.into());
    }
    let dircount = usize::try_from(args.dircount.min(TRANSFER_BYTES_MAX)).expect("1 MiB fits");
    let guess = guess(dircount, maxcount);
    let mut result = ReaddirEncoder::begin(out, COOKIE_VERIFIER, dircount, maxcount);
    let listed = match &target {
        Target::Pseudo(node) => list_pseudo(compound, node, args, &mut result),
        Target::Stored(directory) => list(compound, directory, args, guess, &mut result),
    };
    compound.add_weight(result.entries(), NAMES_OF_WEIGHT_1);
    match listed {
        // The client left no room for a single entry.
        Ok(false) if result.entries() == 0 => {
            result.abandon();
            Err(NfsStat4::TooSmall.into())
        }
        Ok(eof) => {
            result.finish(eof);
            Ok(())
        }
        Err(stop) => {
            result.abandon();
            Err(stop)
        }
    }
}

/// Lists the part of a pseudo directory that the client sees. Returns whether that was all. A cookie is a position in
/// the order of names, so it changes with the configuration.
fn list_pseudo<'c>(
    compound: &mut Compound<'c>,
    directory: &'c Node,
    args: &ReaddirArgs,
    result: &mut ReaddirEncoder<'_>,
) -> Result<bool, OpStop> {
    for (name, cookie) in directory.children.keys().zip(COOKIES_RESERVED..) {
        if cookie <= args.cookie {
            continue;
        }
        if result.entries() == NAMES_MAX {
            return Ok(false);
        }
        let Some(child) = compound.beneath(directory, name)? else { continue };
        if !push(compound, &child, cookie, name, args.attr_request, result)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Estimates how many names fit. No `dircount` is no limit.
fn guess(dircount: usize, maxcount: usize) -> usize {
    let most = maxcount / USUAL_ENTRY_BYTES;
    if dircount == 0 { most } else { most.min(dircount / USUAL_NAME_BYTES) }
}

/// Lists a directory of a volume. About `guess` names fit into the reply. Returns whether the listing is complete.
fn list<'c>(
    compound: &mut Compound<'c>,
    directory: &Object<'c>,
    args: &ReaddirArgs,
    guess: usize,
    result: &mut ReaddirEncoder<'_>,
) -> Result<bool, OpStop> {
    let request = args.attr_request;
    let covered = compound.covered(directory.volume.id(), directory.ino);
    let plus = !(request - shown::OF_ENTRY).is_empty();
    // Skips `.` and `..`, which NFSv4 does not list.
    let mut cookie = Cookie(args.cookie.max(COOKIES_RESERVED - 1));
    let mut taken = 0;
    loop {
        let left = NAMES_MAX - result.entries();
        if left == 0 {
            return Ok(false);
        }
        let most = guess.saturating_sub(taken).clamp(NAMES_MORE, NAMES_AT_ONCE_MAX).min(left);
        let listing =
            directory.volume.read_directory(&directory.request(), directory.ino, cookie, most, plus);
        let listing = match compound.answered(directory.volume, listing) {
            // The client gets what there is. Running the operation again would list that anew.
            Err(OpStop::WouldBlock) if result.entries() > 0 => return Ok(false),
            listing => listing?,
        };
        // A mounted export hides the entry beneath it, but not from a caller to whom LOOKUP would refuse both.
        let covered = covered.filter(|_| listing.may_search);
        for entry in &listing.entries {
            cookie = entry.cookie;
            let mounted = match covered {
                Some(node) => compound.beneath(node, &entry.name)?,
                None => None,
            };
            let pushed = match (mounted, &entry.attributes) {
                (Some(mounted), _) => push(compound, &mounted, cookie.0, &entry.name, request, result)?,
                (None, Some(attributes)) => {
                    let shown = Shown::stored(compound, directory, attributes, request)?;
                    result.push(cookie.0, Component4(&entry.name), |out| shown.encode(out))
                }
                (None, None) => match entry.withheld.map(status::nfs4) {
                    // A client that does not ask for the error of an entry is given it for the whole page.
                    Some(why) if !request.contains(Attr4::RdattrError) => return Err(why.into()),
                    // The object has been removed since.
                    None if plus => continue,
                    why => {
                        let shown = shown::of_entry(entry.ino, why.unwrap_or(NfsStat4::Ok));
                        push_few(cookie.0, &entry.name, &shown, request, result)
                    }
                },
            };
            if !pushed {
                return Ok(false);
            }
        }
        if listing.end || listing.entries.is_empty() {
            return Ok(true);
        }
        taken += listing.entries.len();
    }
}

/// Adds an entry whose attributes must be read.
fn push<'c>(
    compound: &mut Compound<'c>,
    target: &Target<'c>,
    cookie: u64,
    name: &[u8],
    request: AttrMask,
    result: &mut ReaddirEncoder<'_>,
) -> Result<bool, OpStop> {
    let attributes = shown::attributes(compound, target)?;
    let shown = Shown::of(compound, target, &attributes, request)?;
    Ok(result.push(cookie, Component4(name), |out| shown.encode(out)))
}

/// Adds an entry of which no more attributes are known than these.
fn push_few(
    cookie: u64,
    name: &[u8],
    attributes: &Attributes4<'_>,
    request: AttrMask,
    result: &mut ReaddirEncoder<'_>,
) -> bool {
    result.push(cookie, Component4(name), |out| {
        attributes.encode_requested(request, out);
    })
}
