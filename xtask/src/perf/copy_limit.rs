//! The copy limit: what it costs this machine at least to take data from a socket and write it to a file of the same
//! directory, with fixed buffers and nothing else. No server of large WRITEs can cost less.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use super::cpu;
use super::results::{Figure, Goal, cost};
use super::rows::SEQUENTIAL_WRITES;
use super::{Run, process};

/// The thread that stands for the server.
const THREAD: &str = "copy limit";

/// Bytes of a WRITE.
const WRITE_BYTES: usize = 1 << 20;

/// WRITEs of one file, the working set of the rows. It is written once before the measurement, as the server's files are.
const WRITES: u64 = 512;

/// How much more than the limit a server may cost.
const RATIO_MAX: f64 = 1.5;

/// Measures the processor time of one thread in seconds per GiB.
pub(super) fn measure(folder: &Path, length: Duration) -> Result<f64, String> {
    let path = folder.join("copy-limit");
    let measured = thread::scope(|scope| {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let sender = TcpStream::connect(listener.local_addr()?)?;
        scope.spawn(move || send(sender));
        let (receiver, _) = listener.accept()?;
        let thread = thread::Builder::new().name(THREAD.to_owned());
        let copied = thread.spawn_scoped(scope, || copy(receiver, &File::create(&path)?, length))?;
        copied.join().expect("the thread returns errors")
    });
    let removed = fs::remove_file(&path);
    measured.and_then(|cost| removed.map(|()| cost)).map_err(process::at(&path))
}

/// Sends until the receiver has enough.
fn send(mut stream: TcpStream) {
    let data = vec![0x5a; WRITE_BYTES];
    while stream.write_all(&data).is_ok() {}
}

/// Copies for this time after the file was written once. Returns the cost.
fn copy(mut stream: TcpStream, file: &File, length: Duration) -> std::io::Result<f64> {
    let mut buffer = vec![0; WRITE_BYTES];
    let mut write = |number: u64| {
        stream.read_exact(&mut buffer)?;
        file.write_all_at(&buffer, number % WRITES * WRITE_BYTES as u64)
    };
    (0..WRITES).try_for_each(&mut write)?;
    let used = || cpu::of_threads(std::process::id(), THREAD).map_err(std::io::Error::other);
    let (before, began, mut written) = (used()?, Instant::now(), 0);
    while began.elapsed() < length {
        write(written)?;
        written += 1;
    }
    Ok((used()? - before) * 1024.0 / written as f64)
}

/// Compares large WRITEs with the limit that was measured in the same round.
pub(super) fn figures(run: &mut Run<'_>) {
    let limits = &run.copy_limits;
    let rows = run.measured.iter().filter(|measured| SEQUENTIAL_WRITES.contains(&measured.row.name));
    let mut figures: Vec<Figure> = rows
        .map(|measured| {
            let costs = measured.ours.iter().map(|sample| cost(measured.row, sample, sample.server_us));
            let values = costs.zip(limits).map(|(cost, limit)| cost / limit).collect();
            let name = format!("{}, of the copy limit", measured.row.title);
            Figure { name, values, unit: "×", goal: Goal::AtMost(RATIO_MAX) }
        })
        .collect();
    if !figures.is_empty() {
        let name = "copy limit: receive and write without a server, CPU".to_owned();
        figures.push(Figure { name, values: limits.clone(), unit: " s/GiB", goal: Goal::None });
    }
    run.figures.append(&mut figures);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_a_cost() {
        let folder = std::env::temp_dir().join(format!("holdfast-copy-limit-{:016x}", fastrand::u64(..)));
        fs::create_dir(&folder).unwrap();
        let cost = measure(&folder, Duration::from_millis(300)).unwrap();
        assert!((0.0..1000.0).contains(&cost), "{cost} s/GiB");
        assert!(fs::read_dir(&folder).unwrap().next().is_none(), "nothing is left");
        fs::remove_dir(&folder).unwrap();
    }
}
