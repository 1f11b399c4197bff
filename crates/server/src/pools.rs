//! Creates pools with random identities, and opens them with their share of memory.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use store::{Claim, LOG_FILE_BYTES, NewPool, ahead_bytes};
use volume::ids::PoolId;
use volume::media::Media;
use volume::{CreateOptions, Options, Pool, Volume, VolumeOptions};

use crate::clock::now;
use crate::config::size::Size;
use crate::data::{self, Data, Opened};
use crate::error::{Error, ErrorKind};
use crate::names;

pub(crate) use info::volume_names;
pub use info::{PoolInfo, describe, list, read};
pub use repair::repair;

pub mod copy;
mod info;
mod repair;

/// The pool of a new data directory.
pub const FIRST_POOL: &str = "default";

/// A pool that is open.
#[derive(Clone)]
pub struct OpenPool {
    /// Its name.
    pub name: Arc<str>,
    /// The pool.
    pub pool: Arc<Pool>,
}

/// Returns the pool with this name.
///
/// # Errors
/// There is none.
pub(crate) fn find<'p>(pools: &'p [OpenPool], name: &str) -> Result<&'p OpenPool, Error> {
    pools.iter().find(|open| *open.name == *name).ok_or_else(|| {
        let names: Vec<&str> = pools.iter().map(|open| &*open.name).collect();
        let sentence = format!("there is no pool {name:?}{}", names::others(&names, name));
        Error { kind: ErrorKind::NotFound, sentence }
    })
}

/// Returns the volumes of all pools.
pub(crate) fn volumes_of(pools: &[OpenPool]) -> Vec<Arc<Volume>> {
    pools.iter().flat_map(|open| open.pool.volumes()).map(Arc::new).collect()
}

/// Returns a span that names the pool in the events of one thread, whatever the log level.
pub(crate) fn span(name: &str) -> tracing::Span {
    tracing::error_span!("engine", pool = name)
}

pub(crate) fn random<const N: usize>() -> Result<[u8; N], Error> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|error| {
        Error::failed(format!("cannot get random numbers from the system: {error}; check /dev/urandom"))
    })?;
    Ok(bytes)
}

/// Rounds the size of a journal up to whole files. The store refuses a size that overflows.
fn effective_journal_bytes(requested: u64) -> u64 {
    requested.checked_next_multiple_of(LOG_FILE_BYTES).unwrap_or(requested)
}

/// Returns a notice, shown before a pool is created in `path` or the data directory, of the space that it takes with a journal of
/// `journal_bytes`.
pub fn creation_notice(
    data: &Data,
    name: &str,
    (path, journal): (Option<&Path>, Option<&Path>),
    journal_bytes: u64,
) -> String {
    let bytes = effective_journal_bytes(journal_bytes);
    let (root, ahead) = (path.unwrap_or(data.root()).display(), ahead_bytes(bytes));
    let reserves = match journal {
        None => format!(
            "about {} in {root}, {} of it for its journal",
            Size(bytes.saturating_add(ahead)),
            Size(bytes)
        ),
        Some(elsewhere) => {
            let place = elsewhere.display();
            format!("{} for its journal in {place}, and about {} in {root}", Size(bytes), Size(ahead))
        }
    };
    let advice = if bytes > LOG_FILE_BYTES { "; --journal-size makes it smaller" } else { "" };
    format!("creating pool {name}: reserves {reserves}{advice}")
}

/// Checks whether the data directory at `root`, which need not exist yet, can have the pool that [`create`] would create.
///
/// # Errors
/// It cannot.
pub fn check_new(
    root: &Path,
    name: &str,
    (path, journal): (Option<&Path>, Option<&Path>),
    journal_bytes: u64,
) -> Result<(), Error> {
    let journal_bytes = effective_journal_bytes(journal_bytes);
    data::check_new(root, &NewPool { name, id: 0, instance: 0, journal, path, journal_bytes })
}

/// Creates a pool with a volume: its directory in `path` and its journal in `journal`, if that is elsewhere.
pub fn create(
    data: &Data,
    name: &str,
    (path, journal): (Option<&Path>, Option<&Path>),
    journal_bytes: u64,
    first: VolumeOptions,
) -> Result<(), Error> {
    let id = u64::from_le_bytes(random()?).max(1);
    let volume = first.name.clone();
    let options = CreateOptions { pool: PoolId(id), journal_id: random()?, volume: first, now: now() };
    let requested = Size(journal_bytes);
    let journal_bytes = effective_journal_bytes(journal_bytes);
    if Size(journal_bytes) != requested {
        tracing::warn!(
            pool = name,
            %requested,
            effective = %Size(journal_bytes),
            "journal_size rounded up to a multiple of {}",
            Size(LOG_FILE_BYTES)
        );
    }
    let new = NewPool { name, id, instance: id, journal, path, journal_bytes };
    let start = Instant::now();
    data.create(&new, |media| Pool::create(media, &options).map_err(|error| error.0))?;
    tracing::info!(
        pool = name,
        pool_id = format_args!("{id:016x}"),
        volume,
        journal_size = %Size(journal_bytes),
        milliseconds = milliseconds_since(start),
        "pool created"
    );
    Ok(())
}

/// How the media of pools are used.
#[derive(Clone, Default)]
pub(crate) struct MediaUse {
    /// Minimum duration of a sync.
    pub(crate) sync_delay: Duration,
    /// That on the data directory, if another machine could take it over.
    pub(crate) claim: Option<Arc<Claim>>,
}

/// Opens a pool with `memory` bytes.
pub(crate) fn open(
    data: &Data,
    name: &str,
    journal: Option<&Path>,
    memory: u64,
    media_use: &MediaUse,
) -> Result<OpenPool, Error> {
    let start = Instant::now();
    let Opened { media, journal } = data.open_pool(name, journal)?;
    let media = store::with_slow_syncs(media, media_use.sync_delay);
    let media = match &media_use.claim {
        Some(claim) => claim.guard(media),
        None => media,
    };
    let options = options(media.as_ref(), name, memory)?;
    let pool = span(name)
        .in_scope(|| Pool::open(media, &options, now()))
        .map_err(|error| Error::failed(format!("cannot open the pool {name:?}: {error}")))?;
    tracing::info!(
        pool = name,
        volumes = pool.volumes().len(),
        journal,
        memory = %Size(memory),
        milliseconds = milliseconds_since(start),
        "pool opened"
    );
    Ok(OpenPool { name: name.into(), pool })
}

/// Returns the options of a pool on these media.
fn options(media: &dyn Media, name: &str, memory: u64) -> Result<Options, Error> {
    let examined = media.space().and_then(|space| Ok((space.total, media.log().len()?)));
    let (device_bytes, journal_bytes) =
        examined.map_err(|error| Error::failed(format!("cannot examine {name:?}: {error}")))?;
    // A small journal asks for a small pool, so segments are small too: some are allocated ahead.
    let segment_bytes = Options::segment_bytes_for(device_bytes.min(journal_bytes.saturating_mul(16)));
    Ok(Options { memory, segment_bytes, cache_seed: None })
}

pub(crate) fn milliseconds_since(start: Instant) -> u64 {
    u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX)
}
