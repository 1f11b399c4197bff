//! The log: a ring of files. Each file is written in full when the volume is created, so that later writes change no
//! metadata of the file system and cannot fail for lack of space.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use std::os::unix::fs::FileExt as _;

use volume::media::RandomFile;

use crate::aligned::Pool;
use crate::direct::DirectFile;
use crate::durable::{create_file, private_file, sync_directory};
use crate::error::{Error, ErrorKind, in_context};

/// The size of one file of the ring in bytes.
pub const LOG_FILE_BYTES: u64 = 16 << 20;

/// The size of one write, in bytes, while a ring is created.
const FILL_BYTES: usize = 1 << 20;

/// One file of the ring, open twice: writes go through the page cache and are synced; reads bypass it, so that recovery
/// sees the contents of the media.
struct Part {
    path: PathBuf,
    writes: File,
    reads: DirectFile,
    /// Written to since the last sync.
    dirty: AtomicBool,
}

/// The log of an open volume.
pub(crate) struct Log {
    parts: Vec<Part>,
    /// Held during a sync. A second sync must not return before the first, which took over its dirty files, is done.
    syncing: Mutex<()>,
}

fn part_path(directory: &Path, number: u64) -> PathBuf {
    directory.join(format!("{number:04}"))
}

/// Writes a ring of `files` files into `directory` and makes it durable. The owner file comes first, so that the remains of
/// a crash can be told from another volume's journal.
pub(crate) fn create(directory: &Path, files: u64, owner: &str) -> Result<(), Error> {
    let path = directory.join(OWNER);
    create_file(&path, owner.as_bytes()).map_err(|error| Error::io("create", &path, &error))?;
    let zeros = vec![0; FILL_BYTES];
    for number in 0..files {
        let path = part_path(directory, number);
        fill(&path, &zeros).map_err(|error| Error::io("write the journal file", &path, &error))?;
    }
    sync_directory(directory).map_err(|error| Error::io("sync", directory, &error))
}

/// The name of the file that identifies the volume of a journal.
pub(crate) const OWNER: &str = "owner";

fn fill(path: &Path, zeros: &[u8]) -> io::Result<()> {
    let file = private_file().write(true).create_new(true).open(path)?;
    let mut offset = 0;
    while offset < LOG_FILE_BYTES {
        file.write_all_at(zeros, offset)?;
        offset += u64::try_from(zeros.len()).expect("a buffer's length fits 64 bits");
    }
    file.sync_all()
}

impl Log {
    /// Opens the ring of `files` files in `directory`.
    pub(crate) fn open(directory: &Path, files: u64, pool: &Arc<Pool>) -> Result<Log, Error> {
        let mut parts = Vec::new();
        for number in 0..files {
            parts.push(open_part(part_path(directory, number), pool)?);
        }
        Ok(Log { parts, syncing: Mutex::new(()) })
    }

    fn length(&self) -> u64 {
        LOG_FILE_BYTES * u64::try_from(self.parts.len()).expect("a count of files fits 64 bits")
    }

    /// Calls `act(part, offset within it, range of the buffer)` for each part of the `length` bytes at `offset`.
    fn for_parts(
        &self,
        offset: u64,
        length: usize,
        mut act: impl FnMut(&Part, u64, std::ops::Range<usize>) -> io::Result<()>,
    ) -> io::Result<()> {
        let end = u64::try_from(length).ok().and_then(|length| offset.checked_add(length));
        if end.is_none_or(|end| end > self.length()) {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "beyond the end of the journal"));
        }
        let mut done = 0;
        while done < length {
            let at = offset + u64::try_from(done).expect("below a length that fits");
            let number = usize::try_from(at / LOG_FILE_BYTES).expect("below the number of parts");
            let within = at % LOG_FILE_BYTES;
            let room = usize::try_from(LOG_FILE_BYTES - within).unwrap_or(usize::MAX);
            let count = room.min(length - done);
            act(&self.parts[number], within, done..done + count)?;
            done += count;
        }
        Ok(())
    }
}

fn open_part(path: PathBuf, pool: &Arc<Pool>) -> Result<Part, Error> {
    let open = || -> io::Result<(File, DirectFile, u64)> {
        let writes = OpenOptions::new().write(true).open(&path)?;
        let reads = DirectFile::open(OpenOptions::new().read(true), &path, pool)?;
        let length = writes.metadata()?.len();
        Ok((writes, reads, length))
    };
    match open() {
        Ok((writes, reads, LOG_FILE_BYTES)) => {
            Ok(Part { path, writes, reads, dirty: AtomicBool::new(false) })
        }
        Ok((.., length)) => Err(Error::new(
            ErrorKind::Damaged,
            format!(
                "the journal file {} is damaged: it has {length} bytes instead of {LOG_FILE_BYTES}; restore the journal \
                 directory",
                path.display()
            ),
        )),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(Error::new(
            ErrorKind::Journal,
            format!(
                "the journal file {} is missing, and the volume needs its whole journal; restore the file, or mount the \
                 file system that holds it",
                path.display()
            ),
        )),
        Err(error) => Err(Error::io("open the journal file", &path, &error)),
    }
}

impl RandomFile for Log {
    fn len(&self) -> io::Result<u64> {
        Ok(self.length())
    }

    fn set_len(&self, _len: u64) -> io::Result<()> {
        Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "the journal's length is fixed when its volume is created",
        ))
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.for_parts(offset, buffer.len(), |part, within, range| {
            part.reads.read_at(within, &mut buffer[range])
        })
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.for_parts(offset, bytes.len(), |part, within, range| {
            let result = part.writes.write_all_at(&bytes[range], within);
            part.dirty.store(true, Ordering::Release);
            result.map_err(|error| in_context("write the journal file", &part.path, &error))
        })
    }

    fn sync(&self) -> io::Result<()> {
        let _one_at_a_time = self.syncing.lock().unwrap_or_else(PoisonError::into_inner);
        for part in &self.parts {
            if part.dirty.swap(false, Ordering::AcqRel) {
                part.writes
                    .sync_data()
                    .map_err(|error| in_context("sync the journal file", &part.path, &error))?;
            }
        }
        Ok(())
    }

    fn reserve(&self, _bytes: u64) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    #[test]
    fn writes_that_cross_files_survive_a_reopen() {
        let scratch = Scratch::new();
        create(scratch.path(), 2, "me").unwrap();
        let pool = Arc::new(Pool::default());
        let log = Log::open(scratch.path(), 2, &pool).unwrap();
        assert_eq!(log.len().unwrap(), 2 * LOG_FILE_BYTES);
        let bytes: Vec<u8> = (0..8192_u32).map(|i| u8::try_from(i % 251).unwrap()).collect();
        log.write_at(LOG_FILE_BYTES - 4096, &bytes).unwrap();
        let mut back = vec![0; 8192];
        log.read_at(LOG_FILE_BYTES - 4096, &mut back).unwrap();
        assert!(back == bytes);
        log.sync().unwrap();
        drop(log);
        let log = Log::open(scratch.path(), 2, &pool).unwrap();
        let mut back = vec![0; 8192 - 200];
        log.read_at(LOG_FILE_BYTES - 4096 + 100, &mut back).unwrap();
        assert!(back == bytes[100..8092]);
        assert_eq!(
            log.write_at(2 * LOG_FILE_BYTES - 1, b"xy").unwrap_err().kind(),
            io::ErrorKind::UnexpectedEof
        );
        assert_eq!(log.read_at(u64::MAX, &mut back).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        assert!(log.set_len(0).is_err());
    }

    #[test]
    fn missing_and_short_files_are_errors_with_their_path() {
        let scratch = Scratch::new();
        create(scratch.path(), 1, "me").unwrap();
        let pool = Arc::new(Pool::default());
        let error = Log::open(scratch.path(), 2, &pool).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Journal);
        assert!(error.to_string().contains("0001 is missing"), "{error}");
        std::fs::write(scratch.path().join("0000"), b"short").unwrap();
        let error = Log::open(scratch.path(), 1, &pool).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Damaged);
    }
}
