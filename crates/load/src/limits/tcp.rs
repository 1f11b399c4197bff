//! Bytes through TCP, received as replies are: what a READ could reach at best. Within this machine from one thread to
//! another; the same two ends measure the way to another host (`hosts/line.rs`).

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{IpAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use crate::client::configure;
use crate::error::LoadError;

/// Bytes of a write, as of a large READ's reply.
const SENT_BYTES: usize = 1 << 20;

/// Bytes of a read, as an event loop reads.
const RECEIVED_BYTES: usize = 256 << 10;

/// Bytes per second from one thread to another, by the loopback address that is given.
///
/// # Errors
/// If sockets cannot be opened.
pub fn measure(loopback: IpAddr, length: Duration) -> Result<f64, LoadError> {
    let words = |error: std::io::Error| LoadError::new(format!("TCP on this machine: {error}"));
    let listener = TcpListener::bind((loopback, 0)).map_err(words)?;
    let address = listener.local_addr().map_err(words)?;
    let receiver = TcpStream::connect(address).map_err(words)?;
    let (sender, _) = listener.accept().map_err(words)?;
    configure(&sender).and_then(|()| configure(&receiver)).map_err(words)?;
    std::thread::scope(|scope| {
        scope.spawn(move || send(&sender, &|| true));
        let rate = receive(&receiver, length).map_err(words);
        // The sender ends when the receiver is gone.
        drop(receiver);
        rate
    })
}

/// How long a receiver counts nothing, before so long a measurement.
pub(crate) fn warmup(length: Duration) -> Duration {
    length / 10
}

/// Sends for as long as that is wanted; whoever closes wants no more.
pub(crate) fn send(mut stream: &TcpStream, is_wanted: &dyn Fn() -> bool) {
    let data = vec![0x5a; SENT_BYTES];
    while is_wanted() && stream.write_all(&data).is_ok() {}
}

/// Bytes per second that arrive, after a warm-up.
///
/// # Errors
/// Of the connection, or if it ends before.
pub(crate) fn receive(mut stream: &TcpStream, length: Duration) -> std::io::Result<f64> {
    let mut buffer = vec![0; RECEIVED_BYTES];
    let warm = Instant::now();
    while warm.elapsed() < warmup(length) {
        stream.read_exact(&mut buffer)?;
    }
    let (start, mut bytes) = (Instant::now(), 0u64);
    while start.elapsed() < length {
        bytes += match stream.read(&mut buffer) {
            Err(error) if error.kind() == ErrorKind::Interrupted => 0,
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            read => read? as u64,
        };
    }
    Ok(bytes as f64 / start.elapsed().as_secs_f64())
}

/// Receives what is still on its way, for so long at most.
///
/// # Errors
/// Of the connection, or if the other side does not end.
pub(crate) fn drain(mut stream: &TcpStream, most: Duration) -> std::io::Result<()> {
    let mut buffer = vec![0; RECEIVED_BYTES];
    let start = Instant::now();
    while start.elapsed() < most {
        match stream.read(&mut buffer) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Ok(0) => return Ok(()),
            read => _ = read?,
        }
    }
    Err(ErrorKind::TimedOut.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_flow() {
        let rate = measure(IpAddr::from([127, 0, 0, 1]), Duration::from_millis(50)).unwrap();
        assert!(rate > 0.0);
    }

    #[test]
    fn an_early_end_is_no_rate() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let receiver = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (sender, _) = listener.accept().unwrap();
        let started = Instant::now();
        std::thread::scope(|scope| {
            scope.spawn(move || send(&sender, &|| started.elapsed() < Duration::from_millis(50)));
            assert!(receive(&receiver, Duration::from_secs(60)).is_err());
        });
        assert!(drain(&receiver, Duration::from_secs(1)).is_ok());
    }
}
