//! The limits of a directory's file system and device, without a server: sequential writes and reads with direct I/O
//! where possible, and small writes with a sync after each.

use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::error::LoadError;
use crate::random::{filler, fresh_seed};
use crate::result::{DirectoryLimits, new_histogram};

/// The size of a sequential write or read.
const BLOCK_BYTES: usize = 1 << 20;

/// The size of a synced write.
const SYNCED_BYTES: usize = 4096;

/// The alignment that direct I/O requires.
const ALIGNMENT: usize = 4096;

/// The largest size of the file, in blocks.
const FILE_BLOCKS_MAX: u64 = 4096;

/// Measures a directory with one file, and removes the file.
///
/// # Errors
/// If the file system returns an error.
pub fn measure(path: &Path, length: Duration) -> Result<DirectoryLimits, LoadError> {
    let file = path.join(format!("holdfast-bench-{:016x}", fresh_seed()));
    let result = measure_file(path, &file, length);
    // The file may not exist if creating it failed.
    let _ = std::fs::remove_file(&file);
    result.map_err(|error| LoadError::new(format!("{}: {error}", path.display())))
}

fn measure_file(path: &Path, file: &Path, length: Duration) -> Result<DirectoryLimits, Errno> {
    let mut memory = filler(BLOCK_BYTES + ALIGNMENT);
    let start = memory.as_ptr().align_offset(ALIGNMENT).min(ALIGNMENT);
    let block = &mut memory[start..start + BLOCK_BYTES];
    let mode = Mode::RUSR | Mode::WUSR;
    let flags = OFlags::CREATE | OFlags::RDWR | OFlags::CLOEXEC;
    let descriptor = match rustix::fs::open(file, flags | OFlags::DIRECT, mode) {
        // The file system does not support direct I/O.
        Err(Errno::INVAL) => rustix::fs::open(file, flags, mode)?,
        other => other?,
    };
    let began = Instant::now();
    let mut blocks = 0;
    while blocks < FILE_BLOCKS_MAX && (blocks == 0 || began.elapsed() < length) {
        write_all(&descriptor, block, blocks * BLOCK_BYTES as u64)?;
        blocks += 1;
    }
    rustix::fs::fdatasync(&descriptor)?;
    let bytes = (blocks * BLOCK_BYTES as u64) as f64;
    let write_bytes_per_s = bytes / began.elapsed().as_secs_f64();

    let began = Instant::now();
    let mut read = 0;
    while read == 0 || began.elapsed() < length {
        let offset = read % blocks * BLOCK_BYTES as u64;
        if rustix::io::pread(&descriptor, &mut *block, offset)? != BLOCK_BYTES {
            return Err(Errno::IO);
        }
        read += 1;
    }
    let read_bytes_per_s = (read * BLOCK_BYTES as u64) as f64 / began.elapsed().as_secs_f64();

    let mut latencies = new_histogram();
    let began = Instant::now();
    let mut syncs = 0u64;
    while syncs == 0 || began.elapsed() < length {
        let one = Instant::now();
        let offset = syncs * SYNCED_BYTES as u64 % (blocks * BLOCK_BYTES as u64);
        write_all(&descriptor, &block[..SYNCED_BYTES], offset)?;
        rustix::fs::fdatasync(&descriptor)?;
        latencies.saturating_record(u64::try_from(one.elapsed().as_nanos()).unwrap_or(u64::MAX));
        syncs += 1;
    }
    Ok(DirectoryLimits {
        path: path.display().to_string(),
        read_bytes_per_s,
        write_bytes_per_s,
        syncs_per_s: syncs as f64 / began.elapsed().as_secs_f64(),
        sync_p50_ns: latencies.value_at_quantile(0.5),
    })
}

/// Writes all of `data` at once. The rest of a partial write would not be aligned for direct I/O.
fn write_all(file: &rustix::fd::OwnedFd, data: &[u8], offset: u64) -> Result<(), Errno> {
    match rustix::io::pwrite(file, data, offset)? {
        written if written == data.len() => Ok(()),
        _ => Err(Errno::NOSPC),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_of_a_directory_are_measured_without_changing_it() {
        let path = std::env::temp_dir().join(format!("holdfast-limits-{:016x}", fresh_seed()));
        std::fs::create_dir(&path).unwrap();
        let limits = measure(&path, Duration::from_millis(20)).unwrap();
        assert!(limits.read_bytes_per_s > 0.0 && limits.write_bytes_per_s > 0.0 && limits.sync_p50_ns > 0);
        std::fs::remove_dir(&path).unwrap();
        assert!(measure(&path, Duration::from_millis(20)).is_err());
    }
}
