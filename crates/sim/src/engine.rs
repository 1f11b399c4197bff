//! Creates, opens and reads volumes.

mod walk;

use std::sync::Arc;

use volume::ids::VolumeId;
use volume::media::Media;
use volume::repair::Repaired;
use volume::results::ReadData;
use volume::time::Time;
use volume::{CreateOptions, Options, Pool, Volume, VolumeOptions};

use crate::media::SimMedia;
use crate::random::Random;

pub(crate) use walk::{attributes, check_usage, list, object, read_all, seek, used_bytes, walk};

/// The start of virtual time: in 2023, nanoseconds since 1970.
pub const START: i64 = 1_700_000_000_000_000_000;

/// The sizes of a simulated volume: small, so that limits are reached all the time.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// The journal's ring, bytes.
    pub log_bytes: u64,
    /// The engine's memory, bytes.
    pub memory: u64,
    /// One segment, bytes.
    pub segment_bytes: u64,
    /// The device, bytes.
    pub capacity: u64,
}

impl Default for Sizes {
    fn default() -> Sizes {
        Sizes { log_bytes: 1 << 20, memory: 4 << 20, segment_bytes: 1 << 20, capacity: 1 << 30 }
    }
}

impl Sizes {
    /// Returns one of several combinations of small sizes.
    #[must_use]
    pub fn draw(random: &mut Random) -> Sizes {
        Sizes {
            log_bytes: *random.pick(&[512 << 10, 1 << 20, 2 << 20]),
            // The smallest value evicts names, inodes and parts of maps all the time.
            memory: *random.pick(&[64 << 10, 1 << 20, 4 << 20]),
            segment_bytes: *random.pick(&[512 << 10, 1 << 20]),
            capacity: 1 << 30,
        }
    }

    fn options(&self) -> Options {
        Options { memory: self.memory, segment_bytes: self.segment_bytes, cache_seed: Some(0) }
    }
}

/// Opens a pool.
///
/// # Errors
/// The engine's error as text.
pub fn open_pool(media: &SimMedia, sizes: &Sizes, now: i64) -> Result<Arc<Pool>, String> {
    let media: Arc<dyn Media> = Arc::new(media.clone());
    Pool::open(media, &sizes.options(), Time::from_nanos(now)).map_err(|error| error.to_string())
}

/// Opens a volume.
///
/// # Errors
/// The engine's error as text.
pub fn open(media: &SimMedia, sizes: &Sizes, now: i64) -> Result<Arc<Volume>, String> {
    let media: Arc<dyn Media> = Arc::new(media.clone());
    Volume::open(media, &sizes.options(), Time::from_nanos(now))
        .map(Arc::new)
        .map_err(|error| error.to_string())
}

/// Repairs a volume that is not open.
///
/// # Errors
/// The engine's error as text.
pub fn repair(media: &SimMedia, sizes: &Sizes, now: i64) -> Result<Repaired, String> {
    let media: Arc<dyn Media> = Arc::new(media.clone());
    volume::repair::repair(&media, &sizes.options(), 100, Time::from_nanos(now))
        .map_err(|error| error.to_string())
}

/// Creates a volume with fixed options.
///
/// # Errors
/// The engine's error as text.
pub fn create(media: &SimMedia) -> Result<(), String> {
    let options = CreateOptions {
        pool: volume::ids::PoolId(1),
        journal_id: [4; 16],
        volume: VolumeOptions {
            id: VolumeId(0x5150),
            name: "main".to_owned(),
            size: None,
            handle_secret: [3; 16],
            root_mode: 0o777,
            root_owner: (0, 0),
        },
        now: Time::from_nanos(START),
    };
    Pool::create(media, &options).map_err(|error| error.to_string())
}

/// Returns the bytes that a READ returned.
pub(crate) fn read_bytes(data: &ReadData) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(data.count);
    for piece in &data.pieces {
        match piece {
            volume::results::Piece::Data { bytes: from, start, end } => {
                bytes.extend_from_slice(&from[*start..*end])
            }
            volume::results::Piece::Zeros(length) => bytes.resize(bytes.len() + length, 0),
        }
    }
    bytes
}
