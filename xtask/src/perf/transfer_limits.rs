//! What large transfers cost this machine at least, measured over a socket with fixed buffers and nothing else: the copy
//! limit, which is to take data from it and write that to a file of the same directory, and the send limit. No server of large
//! WRITEs or READs can cost less.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use super::rows::{Limit, Row};
use super::{cpu, process};

/// The threads that stand for a server: of WRITEs, and of READs.
const RECEIVER: &str = "copy limit";
const SENDER: &str = "send limit";

/// Bytes of a WRITE or READ.
const TRANSFER_BYTES: usize = 1 << 20;

/// WRITEs of one file, the working set of the rows. It is written once before the measurement, as the server's files are.
const WRITES: u64 = 512;

/// The processor time of one thread in seconds per GiB.
#[derive(Clone, Copy, Debug)]
pub(super) struct TransferLimits {
    /// To receive, and to write to a file.
    pub(super) copy: f64,
    /// To send.
    pub(super) send: f64,
}

/// Bytes that are touched before large WRITEs are measured, about as many as a measurement writes.
const BACKED_BYTES: u64 = 6 << 30;

/// Touches memory before a row of large WRITEs is measured. A virtual machine's host gives memory to it when it is first used: that costs
/// several times as much as the WRITE, and would be charged to whoever is measured first.
pub(super) fn back_memory(row: &Row, quick: bool, folder: &Path) -> Result<(), String> {
    if row.limit != Some(Limit::Copy) || quick {
        return Ok(());
    }
    let path = folder.join("memory");
    let write = || -> std::io::Result<()> {
        let mut file = File::create(&path)?;
        let data = vec![0x5a; TRANSFER_BYTES];
        (0..BACKED_BYTES / data.len() as u64).try_for_each(|_| file.write_all(&data))
    };
    let written = write();
    let removed = fs::remove_file(&path);
    written.and(removed).map_err(process::at(&path))
}

/// Measures both for this time.
pub(super) fn measure(folder: &Path, length: Duration) -> Result<TransferLimits, String> {
    let path = folder.join("copy-limit");
    let measured = thread::scope(|scope| {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let sender = TcpStream::connect(listener.local_addr()?)?;
        let named = |name: &str| thread::Builder::new().name(name.to_owned());
        named(SENDER).spawn_scoped(scope, move || send(sender))?;
        let (receiver, _) = listener.accept()?;
        let copied = named(RECEIVER).spawn_scoped(scope, || copy(receiver, &File::create(&path)?, length))?;
        copied.join().expect("the thread returns errors")
    });
    let removed = fs::remove_file(&path);
    measured.and_then(|limits| removed.map(|()| limits)).map_err(process::at(&path))
}

/// Sends until the receiver has enough.
fn send(mut stream: TcpStream) {
    let data = vec![0x5a; TRANSFER_BYTES];
    while stream.write_all(&data).is_ok() {}
}

/// Copies for this time after the file was written once. Returns what that cost, and what it cost the sender.
fn copy(mut stream: TcpStream, file: &File, length: Duration) -> std::io::Result<TransferLimits> {
    let mut buffer = vec![0; TRANSFER_BYTES];
    let mut write = |number: u64| {
        stream.read_exact(&mut buffer)?;
        file.write_all_at(&buffer, number % WRITES * TRANSFER_BYTES as u64)
    };
    (0..WRITES).try_for_each(&mut write)?;
    let used = |name| cpu::of_threads(std::process::id(), name).map_err(std::io::Error::other);
    let (receiver, sender) = (used(RECEIVER)?, used(SENDER)?);
    let (began, mut written) = (Instant::now(), 0);
    while began.elapsed() < length {
        write(written)?;
        written += 1;
    }
    // What lies in the socket's buffers at the beginning and at the end is little beside what was sent.
    let each = 1024.0 / written as f64;
    Ok(TransferLimits { copy: (used(RECEIVER)? - receiver) * each, send: (used(SENDER)? - sender) * each })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limits_are_costs() {
        let folder = std::env::temp_dir().join(format!("holdfast-copy-limit-{:016x}", fastrand::u64(..)));
        fs::create_dir(&folder).unwrap();
        let TransferLimits { copy, send } = measure(&folder, Duration::from_millis(300)).unwrap();
        assert!((0.0..1000.0).contains(&copy), "{copy} s/GiB");
        assert!((0.0..1000.0).contains(&send), "{send} s/GiB");
        assert!(fs::read_dir(&folder).unwrap().next().is_none(), "nothing is left");
        fs::remove_dir(&folder).unwrap();
    }
}
