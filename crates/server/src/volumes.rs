//! Creates volumes with random identities, and opens them with their share of memory.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use store::{Directory, LOG_FILE_BYTES, NewVolume, ahead_bytes};
use volume::ids::VolumeId;
use volume::media::Media;
use volume::{CreateOptions, Options, Volume};

use crate::clock::now;
use crate::config::size::Size;
use crate::error::Error;

pub use repair::repair;
pub use root::{Root, set_root};

mod repair;
mod root;

/// Mode of the root directory of a new volume.
const ROOT_MODE: u16 = 0o755;

/// Mode of the root directory of the volume that a first start creates, the mode of `/tmp`: everybody may create names, and
/// remove only their own (`docs/decisions/2026-11-22-who-may-write-at-first.md`).
pub(crate) const FIRST_ROOT_MODE: u16 = 0o1777;

/// A volume that is served.
pub(crate) struct Served {
    pub(crate) name: String,
    pub(crate) volume: Arc<Volume>,
}

/// Returns a span that names the volume in the events of one thread, whatever the log level.
pub(crate) fn span(name: &str) -> tracing::Span {
    tracing::error_span!("engine", volume = name)
}

fn random<const N: usize>() -> Result<[u8; N], Error> {
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

/// Returns a notice, shown before a volume is created, of the space that it takes with a journal of `journal_bytes`.
pub fn creation_notice(
    directory: &Directory,
    name: &str,
    journal: Option<&Path>,
    journal_bytes: u64,
) -> String {
    let bytes = effective_journal_bytes(journal_bytes);
    let (root, ahead) = (directory.root().display(), ahead_bytes(bytes));
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
    format!("creating volume {name}: reserves {reserves}; --journal-size makes it smaller")
}

/// Checks whether the data directory at `root`, which need not exist yet, can have the volume that [`create`] would create.
pub(crate) fn check_new(
    root: &Path,
    name: &str,
    journal: Option<&Path>,
    journal_bytes: u64,
) -> Result<(), Error> {
    let journal_bytes = effective_journal_bytes(journal_bytes);
    store::check_new(root, &NewVolume { name, id: 0, journal, journal_bytes })?;
    Ok(())
}

/// Creates a volume. Its root directory belongs to the user of this process and has mode 0755, unless `root` says otherwise.
pub fn create(
    directory: &Directory,
    name: &str,
    journal: Option<&Path>,
    journal_bytes: u64,
    root: Root,
) -> Result<(), Error> {
    let owner = root.uid.unwrap_or_else(|| rustix::process::geteuid().as_raw());
    let group = root.gid.unwrap_or_else(|| rustix::process::getegid().as_raw());
    let id = u64::from_le_bytes(random()?).max(1);
    let options = CreateOptions {
        id: VolumeId(id),
        handle_secret: random()?,
        journal_id: random()?,
        root_mode: root.mode.unwrap_or(ROOT_MODE),
        root_owner: (owner, group),
        now: now(),
    };
    let requested = Size(journal_bytes);
    let journal_bytes = effective_journal_bytes(journal_bytes);
    if Size(journal_bytes) != requested {
        tracing::warn!(
            volume = name,
            %requested,
            effective = %Size(journal_bytes),
            "journal_size rounded up to a multiple of {}",
            Size(LOG_FILE_BYTES)
        );
    }
    let new = NewVolume { name, id, journal, journal_bytes };
    let start = Instant::now();
    directory.create(&new, |media| Volume::create(media, &options).map_err(|error| error.0))?;
    tracing::info!(
        volume = name,
        volume_id = format_args!("{id:016x}"),
        journal_size = %Size(journal_bytes),
        milliseconds = milliseconds_since(start),
        "volume created"
    );
    Ok(())
}

/// Opens a volume with `memory` bytes. Its syncs take at least `sync_delay`.
pub(crate) fn open(
    directory: &Directory,
    name: &str,
    journal: Option<&Path>,
    memory: u64,
    sync_delay: Duration,
) -> Result<Served, Error> {
    let start = Instant::now();
    let media = Arc::new(directory.open_volume(name, journal)?);
    let journal = media.journal().to_owned();
    let media = store::with_slow_syncs(media, sync_delay);
    let options = options(media.as_ref(), name, memory)?;
    let volume = span(name)
        .in_scope(|| Volume::open(media, &options, now()))
        .map_err(|error| Error::failed(format!("cannot open the volume {name:?}: {error}")))?;
    tracing::info!(
        volume = name,
        volume_id = %volume.id(),
        journal = %journal.display(),
        memory = %Size(memory),
        milliseconds = milliseconds_since(start),
        "volume opened"
    );
    Ok(Served { name: name.to_owned(), volume: Arc::new(volume) })
}

/// Returns the options of a volume on these media.
fn options(media: &dyn Media, name: &str, memory: u64) -> Result<Options, Error> {
    let examined = media.space().and_then(|space| Ok((space.total, media.log().len()?)));
    let (device_bytes, journal_bytes) =
        examined.map_err(|error| Error::failed(format!("cannot examine {name:?}: {error}")))?;
    // A small journal asks for a small volume, so segments are small too: some are allocated ahead.
    let segment_bytes = Options::segment_bytes_for(device_bytes.min(journal_bytes.saturating_mul(16)));
    Ok(Options { memory, segment_bytes, cache_seed: None })
}

pub(crate) fn milliseconds_since(start: Instant) -> u64 {
    u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX)
}
