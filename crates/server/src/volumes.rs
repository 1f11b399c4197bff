//! Creates, changes, deletes and describes volumes of pools that a server, or a command, has open.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use volume::attributes::SetAttributes;
use volume::ids::{Ino, VolumeId};
use volume::request::{
    Access, Credentials, Durability, Durable, Error as EngineError, Failure, Journaled, Promised, Request,
};
use volume::{Pool, Volume, VolumeOptions};

use crate::clock::now;
use crate::config::size::Size;
use crate::error::{Error, ErrorKind};
use crate::names;
use crate::pools;
use crate::pools::{FIRST_POOL, OpenPool, random, volumes_of};

pub use octal::parse_mode;
pub use root::Root;
pub use unserved::{Unserved, in_pool};

pub(crate) mod home;
mod octal;
pub mod quotas;
mod root;
pub mod trees;
mod unserved;

/// The volume of a new data directory.
pub const FIRST_VOLUME: &str = "main";

/// Mode of the root directory of a new volume.
const ROOT_MODE: u16 = 0o755;

/// Mode of the root directory of the volume that a first start creates, the mode of `/tmp`: everybody may create names, and
/// remove only their own (`docs/decisions/2026-11-22-who-may-write-at-first.md`).
pub(crate) const FIRST_ROOT_MODE: u16 = 0o1777;

/// The bit that the ids of volumes of users have: the volume with the lowest id keeps the clients (`home.rs`).
const OF_USERS: u64 = 1 << 63;

/// The smallest limit of what the files of a volume use, bytes. It is larger than any number that lacks its unit.
const SIZE_MIN: u64 = 1 << 20;

/// The largest limit, bytes: on media, the number above it stands for no limit.
const SIZE_MAX: u64 = u64::MAX - 1;

/// A volume with less free space than this share of it is nearly full.
const NEARLY_FULL_SHARE: u64 = 10;

/// A volume with this much free space is never nearly full, bytes.
const ENOUGH_BYTES: u64 = 64 << 30;

/// Most time that a change waits for room in the journal, or to become durable.
const PATIENCE: Duration = Duration::from_secs(30);

/// Interval between checks of what is waited for.
const PAUSE: Duration = Duration::from_millis(1);

/// A volume to create.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewVolume {
    /// Its name, unique among all pools: 1 to 64 letters, digits, `.`, `_` and `-`; the first is none of `.` and `-`.
    pub name: String,
    /// The pool to create it in. Without it, the pool `default`, or the only one.
    #[serde(default)]
    pub pool: Option<String>,
    /// Most bytes that its files may use, at least 1048576. Without it, or if it is 0, as many as the pool has.
    #[serde(default)]
    pub size_bytes: Option<u64>,
    /// Its root directory.
    #[serde(default)]
    pub root: Root,
}

/// What to change of a volume. What is missing stays.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct VolumeChange {
    /// Its new name. What clients have mounted stays mounted.
    pub name: Option<String>,
    /// Most bytes that its files may use, at least 1048576; null or 0 for as many as the pool has. If they use more already,
    /// they cannot grow.
    #[serde(deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<u64>")]
    pub size_bytes: Option<Option<u64>>,
    /// Its root directory.
    pub root: Root,
}

/// A volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct VolumeInfo {
    /// Its name.
    pub name: String,
    /// Its identity: 16 hexadecimal digits.
    pub id: String,
    /// The pool that it is in.
    pub pool: String,
    /// Most bytes that its files may use; none for as many as the pool has.
    pub size_bytes: Option<u64>,
    /// Bytes that its files use.
    pub used_bytes: u64,
    /// Bytes that are free for it.
    pub free_bytes: u64,
    /// Objects: files, directories and others.
    pub inodes: u64,
    /// Runs of bytes into which the data of its files is divided, as of the last checkpoint.
    pub mappings: u64,
    /// Beyond this number of them, its files get no more; none if it has no size.
    pub mappings_max: Option<u64>,
    /// Its root directory.
    pub root: Root,
    /// Paths by which clients may mount it; none of a volume that is not served.
    pub exports: Vec<String>,
}

/// Returns the free space, in bytes, below which a volume of `total` bytes is nearly full.
#[must_use]
pub fn nearly_full_below(total: u64) -> u64 {
    (total / NEARLY_FULL_SHARE).min(ENOUGH_BYTES)
}

/// Reads a field that is present, though it may be null.
pub(crate) fn present<'d, T: Deserialize<'d>, D: Deserializer<'d>>(
    deserializer: D,
) -> Result<Option<Option<T>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

/// Returns the options of a new volume.
///
/// # Errors
/// The name, the size or the owner cannot be used.
pub fn options(new: &NewVolume) -> Result<VolumeOptions, Error> {
    store::check_name(&new.name)?;
    check_size(new.size_bytes)?;
    new.root.check()?;
    let root = new.root;
    Ok(VolumeOptions {
        id: VolumeId(u64::from_le_bytes(random()?) | OF_USERS),
        name: new.name.clone(),
        size: new.size_bytes,
        handle_secret: random()?,
        root_mode: root.mode.unwrap_or(ROOT_MODE),
        root_owner: (
            root.uid.unwrap_or_else(|| rustix::process::geteuid().as_raw()),
            root.gid.unwrap_or_else(|| rustix::process::getegid().as_raw()),
        ),
    })
}

/// Returns the volume with this name.
///
/// # Errors
/// There is none.
pub fn find(pools: &[OpenPool], name: &str) -> Result<Volume, Error> {
    let mut volumes = pools.iter().flat_map(|open| open.pool.volumes());
    volumes.find(|volume| *volume.name() == *name).ok_or_else(|| {
        let names: Vec<Arc<str>> = volumes_of(pools).iter().map(|volume| volume.name()).collect();
        let sentence = format!("there is no volume {name:?}{}", names::others(&names, name));
        Error { kind: ErrorKind::NotFound, sentence }
    })
}

/// Refuses sizes that are too small to hold anything, usually because the unit was forgotten, and the one that stands for no limit in
/// a record. 0 means no limit.
fn check_size(bytes: Option<u64>) -> Result<(), Error> {
    let bytes = bytes.unwrap_or(0);
    if bytes > SIZE_MAX {
        return Err(Error::usage(format!(
            "a volume cannot be limited to {bytes} bytes: write 0 for no limit"
        )));
    }
    if bytes == 0 || bytes >= SIZE_MIN {
        return Ok(());
    }
    let meant =
        if bytes < 1 << 10 { format!("did you mean \"{bytes} GiB\"? Write") } else { "write".to_owned() };
    let (size, least) = (Size(bytes), Size(SIZE_MIN));
    Err(Error::usage(format!("a volume cannot be {size}: {meant} at least \"{least}\", or 0 for no limit")))
}

/// Creates a volume. Returns it, and what must be durable before anybody is told.
///
/// # Errors
/// The name or the pool cannot be used, or the pool takes no changes.
pub fn create(pools: &[OpenPool], new: &NewVolume) -> Result<(Volume, Durability), Error> {
    let options = options(new)?;
    check_free(pools, &new.name)?;
    let open = pool_for(pools, new.pool.as_deref())?;
    let made = with_room(|| open.pool.create_volume(&options, now()).map_err(error_of));
    let Promised { value, after } = made.map_err(|error| failed("make", &new.name, &open.pool, error))?;
    Ok((value, after))
}

/// Changes a volume. Returns what must be durable before anybody is told; nothing, if the volume is so already.
///
/// # Errors
/// The new name, the size or the owner cannot be used, or the pool takes no changes. A new name is not taken then.
pub fn change(pools: &[OpenPool], volume: &Volume, change: &VolumeChange) -> Result<Vec<Durability>, Error> {
    let old = volume.name();
    let mut after = Vec::new();
    let cannot = |error| failed("change", &old, volume.pool(), error);
    check_size(change.size_bytes.flatten())?;
    change.root.check()?;
    if let Some(name) = change.name.as_deref().filter(|name| **name != *old) {
        store::check_name(name)?;
        check_free(pools, name)?;
        after.push(with_room(|| volume.rename_volume(volume, name)).map_err(cannot)?);
    }
    let size = change.size_bytes.map(|size| size.filter(|bytes| *bytes > 0));
    if let Some(size) = size.filter(|size| *size != volume.size()) {
        after.push(with_room(|| volume.resize_volume(volume, size)).map_err(cannot)?);
    }
    if !change.root.is_in(root_of(volume).map_err(cannot)?) {
        after.push(with_room(|| set_root(volume, change.root)).map_err(cannot)?);
    }
    Ok(after)
}

/// Returns the attributes of the root directory of a volume.
fn root_of(volume: &Volume) -> Result<Root, EngineError> {
    let superuser = Credentials::root();
    let request = Request { credentials: &superuser, now: now(), access: Access::Blocking, key: None };
    let root = volume.attributes(&request, Ino::ROOT).map_err(error_of)?.value;
    Ok(Root { uid: Some(root.uid), gid: Some(root.gid), mode: Some(root.mode) })
}

fn set_root(volume: &Volume, root: Root) -> Result<Durability, EngineError> {
    let superuser = Credentials::root();
    let request = Request { credentials: &superuser, now: now(), access: Access::Blocking, key: None };
    let set = SetAttributes {
        mode: root.mode.map(u32::from),
        uid: root.uid,
        gid: root.gid,
        ..SetAttributes::default()
    };
    let changed = volume.set_attributes(&request, Ino::ROOT, &set, None, &mut |_| Journaled::default());
    changed.map(|changed| changed.after).map_err(error_of)
}

/// Refuses to delete a volume of a pool that refuses changes, before clients notice.
///
/// # Errors
/// The pool refuses changes.
pub fn check_deletable(volume: &Volume) -> Result<(), Error> {
    match volume.refuses_changes() {
        Some(_) => Err(failed("delete", &volume.name(), volume.pool(), EngineError::ReadOnly)),
        None => Ok(()),
    }
}

/// Deletes a volume: its handles are stale from now on, and its name is free. The pool frees its space step by step. Returns
/// what must be durable before anybody is told.
///
/// # Errors
/// The pool takes no changes.
pub fn delete(volume: &Volume) -> Result<Durability, Error> {
    with_room(|| volume.delete_volume(volume))
        .map_err(|error| failed("delete", &volume.name(), volume.pool(), error))
}

/// Describes a volume, as the exports with these paths show it.
///
/// # Errors
/// Its root directory cannot be read.
pub fn describe(pools: &[OpenPool], volume: &Volume, exports: Vec<String>) -> Result<VolumeInfo, Error> {
    let name = volume.name();
    let superuser = Credentials::root();
    let request = Request { credentials: &superuser, now: now(), access: Access::Blocking, key: None };
    let cannot = |error| failed("examine", &name, volume.pool(), error);
    let status = volume.status(&request).map_err(|failure| cannot(error_of(failure)))?.value;
    let pool = pools.iter().find(|open| Arc::ptr_eq(&open.pool, volume.pool()));
    let (mappings, mappings_max) = volume.mappings();
    Ok(VolumeInfo {
        name: name.to_string(),
        id: volume.id().to_string(),
        pool: pool.map(|open| open.name.to_string()).unwrap_or_default(),
        size_bytes: volume.size(),
        used_bytes: status.bytes_used,
        free_bytes: status.bytes_free,
        inodes: status.inodes_used,
        mappings,
        mappings_max,
        root: root_of(volume).map_err(cannot)?,
        exports,
    })
}

/// Returns the size of a volume, bytes; of one without, what its pool has.
pub(crate) fn capacity(volume: &Volume) -> u64 {
    let superuser = Credentials::root();
    let request = Request { credentials: &superuser, now: now(), access: Access::Blocking, key: None };
    let of_pool = || volume.status(&request).map_or(0, |status| status.value.bytes_total);
    volume.size().unwrap_or_else(of_pool)
}

/// Describes the volumes of these pools, sorted by name, without their exports.
///
/// # Errors
/// A root directory cannot be read.
pub fn list(pools: &[OpenPool]) -> Result<Vec<VolumeInfo>, Error> {
    let volumes = volumes_of(pools).into_iter();
    let infos = volumes.map(|volume| describe(pools, &volume, Vec::new()));
    let mut infos = infos.collect::<Result<Vec<_>, _>>()?;
    infos.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(infos)
}

/// Waits until a change is durable. Some other thread commits.
///
/// # Errors
/// It cannot become durable, or not soon.
pub(crate) fn wait_durable(pool: &Pool, wanted: Durability) -> Result<(), Error> {
    let start = Instant::now();
    loop {
        pool.wake_commit();
        match pool.durability(wanted) {
            Durable::Yes => return Ok(()),
            Durable::Failed => {
                let reason = pool.refuses_changes().unwrap_or_default();
                return Err(Error::failed(format!(
                    "the change was lost, as the pool refuses changes: {reason}"
                )));
            }
            Durable::NotYet if start.elapsed() > PATIENCE => {
                return Err(Error::failed(
                    "the change is not durable yet, as the device does not answer; check later whether it was made",
                ));
            }
            Durable::NotYet => thread::sleep(PAUSE),
        }
    }
}

fn pool_for<'p>(pools: &'p [OpenPool], name: Option<&str>) -> Result<&'p OpenPool, Error> {
    match (name, pools) {
        (Some(name), _) => pools::find(pools, name),
        (None, [only]) => Ok(only),
        (None, _) => pools::find(pools, FIRST_POOL).map_err(|_| {
            let names: Vec<&str> = pools.iter().map(|open| &*open.name).collect();
            let names = names::list(&names, names::LISTED_MAX);
            Error::usage(format!("there are several pools: name the one to create the volume in, of {names}"))
        }),
    }
}

/// Refuses a name that a volume has.
///
/// # Errors
/// A volume has it.
pub fn check_free(pools: &[OpenPool], name: &str) -> Result<(), Error> {
    if find(pools, name).is_err() {
        return Ok(());
    }
    Err(Error {
        kind: ErrorKind::Conflict,
        sentence: format!("there is a volume {name:?} already; choose another name, or delete it first"),
    })
}

fn error_of(failure: Failure) -> EngineError {
    failure.error
}

/// Repeats a change while the journal has no room for it, which checkpoints make.
fn with_room<T>(mut change: impl FnMut() -> Result<T, EngineError>) -> Result<T, EngineError> {
    let start = Instant::now();
    loop {
        match change() {
            Err(error) if error.is_busy() && start.elapsed() < PATIENCE => thread::sleep(PAUSE),
            done => return done,
        }
    }
}

fn failed(what: &str, name: &str, pool: &Pool, error: EngineError) -> Error {
    Error::failed(match (error, pool.refuses_changes()) {
        (EngineError::ReadOnly, Some(reason)) => {
            format!("cannot {what} the volume {name:?}, as its pool refuses changes: {reason}")
        }
        (EngineError::NoSpace, _) => {
            format!(
                "cannot {what} the volume {name:?}: its pool has no room; delete others, or use another pool"
            )
        }
        (EngineError::TooManyVolumes, _) => {
            format!("cannot {what} the volume {name:?}: {error}; use another pool")
        }
        (EngineError::Stale, _) => format!("the volume {name:?} was deleted meanwhile"),
        (error, _) => format!("cannot {what} the volume {name:?}: {error}"),
    })
}
