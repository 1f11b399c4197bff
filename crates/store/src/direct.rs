//! A file with direct I/O, or with as little use of the page cache as the file system allows.

use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice};
use std::num::NonZeroU64;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{Advice, OFlags, fadvise, fcntl_getfl, fcntl_setfl};
use rustix::io::{Errno, pwritev};

use crate::aligned::{ALIGNMENT, BUFFER_BYTES, Pool, is_aligned};
use crate::error::in_context;

/// [`ALIGNMENT`] as an offset.
const ALIGNMENT_OFFSET: u64 = ALIGNMENT as u64;

/// Most parts of one system call (Linux `UIO_MAXIOV`).
const PARTS_MAX: usize = 1024;

/// A file opened for direct I/O. Where the file system does not support it, I/O goes through the page cache, which drops
/// the range before each read, so that the read goes to the media, and after it.
pub(crate) struct DirectFile {
    file: File,
    path: PathBuf,
    direct: AtomicBool,
    pool: Arc<Pool>,
}

/// `O_DIRECT`, in the type that `OpenOptions` takes.
fn direct_flag() -> i32 {
    i32::try_from(OFlags::DIRECT.bits()).expect("open flags are small")
}

impl DirectFile {
    /// Opens `path` with `options`, for direct I/O if the file system supports it.
    pub(crate) fn open(options: &mut OpenOptions, path: &Path, pool: &Arc<Pool>) -> io::Result<DirectFile> {
        DirectFile::open_with(options, 0, path, pool)
    }

    /// The same, with more flags of open(2).
    pub(crate) fn open_with(
        options: &mut OpenOptions,
        flags: i32,
        path: &Path,
        pool: &Arc<Pool>,
    ) -> io::Result<DirectFile> {
        let (file, direct) = match options.custom_flags(direct_flag() | flags).open(path) {
            Ok(file) => (file, true),
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                // The failed attempt may have created the file, which is empty then and can be opened as new.
                let create_new_has_run = path.exists();
                let options = options.custom_flags(flags);
                let options = if create_new_has_run { options.create_new(false) } else { options };
                (options.open(path)?, false)
            }
            Err(error) => return Err(error),
        };
        let pool = Arc::clone(pool);
        Ok(DirectFile { file, path: path.to_owned(), direct: AtomicBool::new(direct), pool })
    }

    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    #[cfg(test)]
    pub(crate) fn refuse_direct(&self) {
        self.leave_direct().expect("flags of an open file can be changed");
    }

    /// Fills `buffer` from `offset`. Neither has to be aligned.
    pub(crate) fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let result = if self.direct.load(Ordering::Relaxed) {
            match self.read_direct(offset, buffer) {
                // Some file systems accept the flag and reject the transfer.
                Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                    self.leave_direct().and_then(|()| self.read_buffered(offset, buffer))
                }
                result => result,
            }
        } else {
            self.read_buffered(offset, buffer)
        };
        result.map_err(|error| in_context("read", &self.path, &error))
    }

    /// Writes `parts`, one after the other, at `offset`; it and their lengths are multiples of [`ALIGNMENT`].
    pub(crate) fn write_at(&self, offset: u64, parts: &[IoSlice<'_>]) -> io::Result<()> {
        assert!(offset.is_multiple_of(ALIGNMENT_OFFSET));
        assert!(parts.iter().all(|part| part.len().is_multiple_of(ALIGNMENT)));
        let result = if self.direct.load(Ordering::Relaxed) {
            match self.write_direct(offset, parts) {
                Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                    self.leave_direct().and_then(|()| write_full(&self.file, offset, parts))
                }
                result => result,
            }
        } else {
            write_full(&self.file, offset, parts)
        };
        result.map_err(|error| in_context("write", &self.path, &error))
    }

    fn read_direct(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        if offset.is_multiple_of(ALIGNMENT_OFFSET) && is_aligned(buffer) {
            let needed = buffer.len();
            return read_full(&self.file, offset, buffer, needed);
        }
        self.pool.with(|aligned| {
            let mut done = 0;
            while done < buffer.len() {
                let from = offset + as_offset(done);
                let start = from - from % ALIGNMENT_OFFSET;
                let skip = usize::try_from(from - start).expect("below the alignment");
                let wanted = (buffer.len() - done).min(BUFFER_BYTES - skip);
                let span = (skip + wanted).next_multiple_of(ALIGNMENT);
                read_full(&self.file, start, aligned.first_mut(span), skip + wanted)?;
                buffer[done..done + wanted].copy_from_slice(&aligned.first(span)[skip..skip + wanted]);
                done += wanted;
            }
            Ok(())
        })
    }

    fn write_direct(&self, offset: u64, parts: &[IoSlice<'_>]) -> io::Result<()> {
        if parts.iter().all(|part| is_aligned(part)) {
            return write_full(&self.file, offset, parts);
        }
        self.pool.with(|aligned| {
            let (mut at, mut filled) = (offset, 0);
            for part in parts {
                let mut rest = &**part;
                while !rest.is_empty() {
                    let (now, later) = rest.split_at(rest.len().min(BUFFER_BYTES - filled));
                    aligned.first_mut(filled + now.len())[filled..].copy_from_slice(now);
                    filled += now.len();
                    rest = later;
                    if filled == BUFFER_BYTES {
                        self.file.write_all_at(aligned.first(filled), at)?;
                        at += as_offset(filled);
                        filled = 0;
                    }
                }
            }
            self.file.write_all_at(aligned.first(filled), at)
        })
    }

    fn read_buffered(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.forget(offset, buffer.len());
        let result = self.file.read_exact_at(buffer, offset);
        self.forget(offset, buffer.len());
        result
    }

    /// Makes writes durable.
    pub(crate) fn sync(&self) -> io::Result<()> {
        self.file.sync_data().map_err(|error| in_context("sync", &self.path, &error))
    }

    fn forget(&self, offset: u64, length: usize) {
        let start = offset - offset % ALIGNMENT_OFFSET;
        let end = (offset + as_offset(length)).next_multiple_of(ALIGNMENT_OFFSET);
        // Only advice: a file system that does not support it keeps its cache.
        let _ = fadvise(&self.file, start, NonZeroU64::new(end - start), Advice::DontNeed);
    }

    fn leave_direct(&self) -> io::Result<()> {
        let flags = fcntl_getfl(&self.file)?;
        fcntl_setfl(&self.file, flags - OFlags::DIRECT)?;
        self.direct.store(false, Ordering::Relaxed);
        Ok(())
    }
}

fn as_offset(length: usize) -> u64 {
    u64::try_from(length).expect("lengths in memory fit 64 bits")
}

/// Reads until the first `needed` bytes of `buffer` are filled. The rest, which alignment added, may lie beyond the end of
/// the file.
fn read_full(file: &File, offset: u64, buffer: &mut [u8], needed: usize) -> io::Result<()> {
    let mut done = 0;
    while done < needed {
        match file.read_at(&mut buffer[done..], offset + as_offset(done)) {
            Ok(count) => {
                done += count;
                // Only the end of the file ends a transfer within a block, and a read from there would not be aligned.
                if done < needed && (count == 0 || !count.is_multiple_of(ALIGNMENT)) {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Writes all of `parts`, one after the other.
fn write_full(file: &File, offset: u64, parts: &[IoSlice<'_>]) -> io::Result<()> {
    let mut parts = parts.to_vec();
    let (mut rest, mut at) = (&mut parts[..], offset);
    IoSlice::advance_slices(&mut rest, 0);
    while !rest.is_empty() {
        match pwritev(file, &rest[..rest.len().min(PARTS_MAX)], at) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => {
                at += as_offset(count);
                IoSlice::advance_slices(&mut rest, count);
            }
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use volume::media::AlignedBuffer;

    use super::*;
    use crate::scratch::Scratch;

    fn pattern(length: usize) -> Vec<u8> {
        (0..length).map(|i| u8::try_from((i * 7 + i / 4096) % 251).expect("below 251")).collect()
    }

    fn check_reads(file: &DirectFile, content: &[u8]) {
        let spans = [(0, 1), (1, 4096), (4095, 2), (5000, 100_000), (0, content.len()), (3, 2 << 20)];
        for (offset, length) in spans {
            let mut buffer = vec![0; length];
            file.read_at(as_offset(offset), &mut buffer).unwrap();
            assert!(buffer == content[offset..offset + length], "read of {length} at {offset}");
        }
        let mut beyond = vec![0; 10];
        let error = file.read_at(as_offset(content.len()) - 5, &mut beyond).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn unaligned_reads_work_with_and_without_direct_io() {
        let scratch = Scratch::new();
        let pool = Arc::new(Pool::default());
        let path = scratch.path().join("file");
        let mut options = OpenOptions::new();
        let file = DirectFile::open(options.read(true).write(true).create_new(true), &path, &pool).unwrap();
        let content = pattern(3 << 20);
        file.write_at(0, &[IoSlice::new(&content[..1 << 20])]).unwrap();
        file.write_at(1 << 20, &[IoSlice::new(&content[1 << 20..])]).unwrap();
        file.sync().unwrap();
        check_reads(&file, &content);
        file.refuse_direct();
        check_reads(&file, &content);
        file.write_at(0, &[IoSlice::new(&content[..4096])]).unwrap();
        check_reads(&file, &content);
    }

    #[test]
    fn parts_are_written_one_after_the_other_with_and_without_direct_io() {
        let scratch = Scratch::new();
        let path = scratch.path().join("file");
        let pool = Arc::new(Pool::default());
        let mut options = OpenOptions::new();
        let file = DirectFile::open(options.read(true).write(true).create_new(true), &path, &pool).unwrap();
        let content = pattern(12 << 20);
        let mut aligned = AlignedBuffer::new(content.len());
        aligned.first_mut(content.len()).copy_from_slice(&content);
        let check = |bytes: &[u8], units: &[usize]| {
            let mut rest = bytes;
            let mut parts = vec![IoSlice::new(&[])];
            for unit in units.iter().cycle() {
                let (part, later) = rest.split_at((unit * ALIGNMENT).min(rest.len()));
                parts.push(IoSlice::new(part));
                rest = later;
                if rest.is_empty() {
                    break;
                }
            }
            file.write_at(0, &[IoSlice::new(&vec![0xff; content.len() + 2 * ALIGNMENT])]).unwrap();
            file.write_at(4096, &parts).unwrap();
            let mut back = vec![0; content.len()];
            file.read_at(4096, &mut back).unwrap();
            assert!(back == content, "{} parts", parts.len());
        };
        for _ in 0..2 {
            // More parts than one call takes, few long ones, and parts that are not aligned in memory.
            check(aligned.first(content.len()), &[1, 2]);
            check(aligned.first(content.len()), &[32, 1, 256]);
            check(&[&[0][..], &content].concat()[1..], &[1, 300]);
            file.refuse_direct();
        }
        file.write_at(0, &[]).unwrap();
    }

    #[test]
    fn a_read_reaches_an_unaligned_end_of_file() {
        let scratch = Scratch::new();
        let path = scratch.path().join("file");
        std::fs::write(&path, pattern(5000)).unwrap();
        let file =
            DirectFile::open(OpenOptions::new().read(true), &path, &Arc::new(Pool::default())).unwrap();
        let mut buffer = vec![0; 900];
        file.read_at(4100, &mut buffer).unwrap();
        assert!(buffer == pattern(5000)[4100..]);
    }
}
