//! Reads everything that a volume holds, for comparison with the model.

use std::collections::BTreeMap;

use volume::Volume;
use volume::attributes::FileType;
use volume::ids::{Cookie, Ino};
use volume::quota::{Owner, Quota, QuotaKind};
use volume::request::{Access, Answer, Credentials, Durability, Promised, Request};
use volume::results::{AccessMask, Sought, SoughtContent};
use volume::time::Time;

use super::read_bytes;
use crate::call::{Attrs, Listed};
use crate::model::quotas::{LIMITED, Usage};
use crate::model::recovery::{FoundObject, Tree, WINDOWS};

/// Makes a call as the superuser, who may wait for media.
fn as_root<T>(
    volume: &Volume,
    now: i64,
    ask: impl Fn(&Request<'_>) -> Answer<T>,
) -> Result<T, volume::request::Error> {
    let credentials = Credentials::root();
    let request = Request {
        credentials: &credentials,
        now: Time::from_nanos(now),
        access: Access::Blocking,
        key: None,
    };
    for _ in 0..20 {
        match ask(&request) {
            Err(failure) if failure.error.is_busy() => {
                volume.step_commit(request.now);
                volume.step_checkpoint(request.now, true);
            }
            Err(failure) => return Err(failure.error),
            Ok(promised) => return Ok(promised.value),
        }
    }
    Err(volume::request::Error::Busy)
}

/// Returns the attributes of an object.
///
/// # Errors
/// The engine's error as text.
pub fn attributes(volume: &Volume, ino: u64, now: i64) -> Result<Attrs, String> {
    let seen = as_root(volume, now, |request| volume.attributes(request, Ino(ino)));
    seen.map(|seen| Attrs::from(&seen)).map_err(|error| format!("GETATTR of inode {ino}: {error:?}"))
}

/// More owners than a workload limits.
const SETTINGS_MAX: usize = 1000;

/// Reads everything that a volume holds.
///
/// # Errors
/// The first object that cannot be read or contradicts itself.
pub fn walk(volume: &Volume, now: i64) -> Result<Tree, String> {
    let mut tree = Tree::default();
    volume
        .scan_state(&mut |key, value| drop(tree.state.insert(key.to_vec(), value.to_vec())))
        .map_err(|error| format!("the protocol's state: {error:?}"))?;
    let mut left = vec![1];
    left.extend(volume.orphans().iter().map(|ino| ino.0));
    for owner in LIMITED {
        let quota = volume.quota(owner).map_err(|error| format!("the quota of {owner:?}: {error:?}"))?;
        tree.quotas.insert(owner, quota.limits);
    }
    let settings = volume.quota_settings(None, SETTINGS_MAX).into_iter();
    tree.set_limits = settings.filter_map(|setting| Some((setting.owner, setting.limits?))).collect();
    while let Some(ino) = left.pop() {
        if tree.objects.contains_key(&ino) {
            continue;
        }
        let found = object(volume, ino, now)?;
        left.extend(found.entries.iter().map(|entry| entry.ino));
        tree.objects.insert(ino, found);
    }
    Ok(tree)
}

/// Reads all of an object.
///
/// # Errors
/// What cannot be read or contradicts itself.
pub fn object(volume: &Volume, ino: u64, now: i64) -> Result<FoundObject, String> {
    let seen = attributes(volume, ino, now)?;
    let mut found = FoundObject {
        seen,
        entries: Vec::new(),
        target: Vec::new(),
        xattrs: BTreeMap::new(),
        windows: Vec::new(),
        data: Vec::new(),
        seen_after: seen,
    };
    match seen.kind {
        FileType::Directory => found.entries = list(volume, ino, now)?,
        FileType::Symlink => {
            let link = as_root(volume, now, |request| volume.read_link(request, Ino(ino)));
            found.target =
                link.map_err(|error| format!("READLINK of inode {ino}: {error:?}"))?.target.to_vec();
        }
        FileType::Regular => {
            found.windows = read_windows(volume, ino, seen.size, now)?;
            found.data = data_ranges(volume, ino, now)?;
        }
        _ => {}
    }
    if matches!(seen.kind, FileType::Regular | FileType::Directory) {
        found.xattrs = xattrs(volume, ino, now)?;
    }
    found.seen_after = attributes(volume, ino, now)?;
    Ok(found)
}

fn xattrs(volume: &Volume, ino: u64, now: i64) -> Result<BTreeMap<Vec<u8>, Vec<u8>>, String> {
    let wrong = |error| format!("extended attributes of inode {ino}: {error:?}");
    let listed =
        as_root(volume, now, |request| volume.list_xattrs(request, Ino(ino), 0, 1000)).map_err(wrong)?;
    let mut found = BTreeMap::new();
    for name in &listed.names {
        let value =
            as_root(volume, now, |request| volume.get_xattr(request, Ino(ino), name)).map_err(wrong)?;
        found.insert(name.to_vec(), value.to_vec());
    }
    Ok(found)
}

fn read_windows(volume: &Volume, ino: u64, size: u64, now: i64) -> Result<Vec<Option<Vec<u8>>>, String> {
    let read = |(start, length): &(u64, u32)| {
        if *start >= size { Ok(None) } else { read_range(volume, ino, (*start, *length), now).map(Some) }
    };
    WINDOWS.iter().map(read).collect()
}

/// SEEK, in as many parts as it takes.
pub(crate) fn seek(
    volume: &Volume,
    request: &Request<'_>,
    ino: Ino,
    (offset, content): (u64, SoughtContent),
) -> Answer<Sought> {
    let (mut at, mut after) = (offset, Durability::NOW);
    loop {
        let part = volume.seek(request, ino, at, content)?;
        after = after.and(part.after);
        match part.value {
            Sought::NotBefore(next) => at = next,
            value => return Ok(Promised { value, after }),
        }
    }
}

/// Returns the ranges of a file that are no holes, start to end.
fn data_ranges(volume: &Volume, ino: u64, now: i64) -> Result<Vec<(u64, u64)>, String> {
    let next = |at, content| {
        as_root(volume, now, |request| seek(volume, request, Ino(ino), (at, content)))
            .map_err(|error| format!("SEEK of inode {ino} at {at}: {error:?}"))
    };
    let (mut ranges, mut at) = (Vec::new(), 0);
    while let Sought::At(start) = next(at, SoughtContent::Data)? {
        let Sought::At(end) = next(start, SoughtContent::Hole)? else {
            return Err(format!("inode {ino}: the data at {start} has no end"));
        };
        ranges.push((start, end));
        at = end;
    }
    Ok(ranges)
}

/// Returns all bytes of a file, below 4 GiB.
pub(crate) fn read_all(volume: &Volume, ino: u64, now: i64) -> Result<Vec<u8>, String> {
    let size = attributes(volume, ino, now)?.size;
    match u32::try_from(size).map_err(|error| error.to_string())? {
        0 => Ok(Vec::new()),
        size => read_range(volume, ino, (0, size), now),
    }
}

fn read_range(volume: &Volume, ino: u64, (start, length): (u64, u32), now: i64) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    // A READ may end early, before what cannot be read.
    loop {
        let done = u32::try_from(bytes.len()).expect("at most the length");
        let at = start + u64::from(done);
        let data = as_root(volume, now, |request| volume.read(request, Ino(ino), at, length - done))
            .map_err(|error| format!("READ of inode {ino} at {at}: {error:?}"))?;
        bytes.extend(read_bytes(&data));
        if data.eof || data.count == 0 || bytes.len() >= length as usize {
            return Ok(bytes);
        }
    }
}

/// Returns the bytes that a volume uses, as FSSTAT shows them.
pub(crate) fn used_bytes(volume: &Volume, now: i64) -> Result<u64, String> {
    as_root(volume, now, |request| volume.status(request))
        .map(|status| status.bytes_used)
        .map_err(|error| format!("FSSTAT: {error:?}"))
}

/// Returns the entries of a directory.
pub(crate) fn list(volume: &Volume, ino: u64, now: i64) -> Result<Vec<Listed>, String> {
    let (mut entries, mut cookie) = (Vec::new(), 0);
    loop {
        let listing = as_root(volume, now, |request| {
            volume.read_directory(request, Ino(ino), Cookie(cookie), 50, false)
        });
        let listing = listing.map_err(|error| format!("READDIR of inode {ino}: {error:?}"))?;
        for entry in &listing.entries {
            if entry.cookie.0 <= cookie {
                return Err(format!("READDIR of inode {ino}: cookie {} follows {cookie}", entry.cookie));
            }
            cookie = entry.cookie.0;
            entries.push(Listed { ino: entry.ino.0, cookie, name: entry.name.to_vec(), attributes: None });
        }
        if listing.end {
            return Ok(entries);
        }
        if listing.entries.is_empty() {
            return Err(format!("READDIR of inode {ino} makes no progress after {cookie}"));
        }
    }
}

/// Compares the usage counters with the objects found. Also calls ACCESS of the root.
///
/// # Errors
/// The counters that differ.
pub fn check_usage(volume: &Volume, tree: &Tree, now: i64) -> Result<(), String> {
    let status = as_root(volume, now, |request| volume.status(request))
        .map_err(|error| format!("FSSTAT: {error:?}"))?;
    let counted = tree.usage();
    for kind in [QuotaKind::Volume, QuotaKind::User, QuotaKind::Group] {
        let found = volume.quotas(kind, 0, 1000).map_err(|error| format!("quotas: {error:?}"))?;
        let used = |quota: &Quota| Usage { bytes: quota.bytes_used, inodes: quota.inodes_used };
        let found: BTreeMap<Owner, Usage> = found.iter().map(|quota| (quota.owner, used(quota))).collect();
        let of_kind = |usage: &BTreeMap<Owner, Usage>| {
            let some = usage.iter().filter(|(owner, used)| owner.kind == kind && **used != Usage::default());
            some.map(|(owner, used)| (owner.id, *used)).collect::<BTreeMap<u64, Usage>>()
        };
        let (found, counted) = (of_kind(&found), of_kind(&counted));
        if found != counted {
            return Err(format!("the counters of {kind:?} are {found:?}; there are {counted:?}"));
        }
    }
    let whole = counted.get(&Owner::VOLUME).copied().unwrap_or_default();
    if (status.inodes_used, status.bytes_used) != (whole.inodes, whole.bytes) {
        let (inodes, used) = (status.inodes_used, status.bytes_used);
        return Err(format!("FSSTAT: {inodes} objects, {used} bytes; there are {whole:?}"));
    }
    as_root(volume, now, |request| volume.access(request, Ino::ROOT, AccessMask(0x3F)))
        .map(|_| ())
        .map_err(|error| format!("ACCESS of the root: {error:?}"))
}
