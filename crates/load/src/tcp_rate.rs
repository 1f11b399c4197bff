//! TCP throughput, received as replies are: the most that READ could reach. [`measure`] runs both ends within this
//! machine; `hosts/line.rs` runs the same two ends on two hosts.

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use crate::client::configure;
use crate::error::LoadError;

/// Bytes of a write, like the reply to a large READ.
const SENT_BYTES: usize = 1 << 20;

/// Bytes of a read, like that of an event loop.
const RECEIVED_BYTES: usize = 256 << 10;

/// Measures the bytes per second from one thread to another through a loopback address.
///
/// # Errors
/// If sockets cannot be opened.
pub(crate) fn measure(loopback: IpAddr, length: Duration) -> Result<f64, LoadError> {
    let failed = |error: std::io::Error| LoadError::new(format!("TCP on this machine: {error}"));
    let listener = TcpListener::bind((loopback, 0)).map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    let receiver = TcpStream::connect(address).map_err(failed)?;
    let (sender, _) = listener.accept().map_err(failed)?;
    configure(&sender).and_then(|()| configure(&receiver)).map_err(failed)?;
    std::thread::scope(|scope| {
        scope.spawn(move || send(&sender, &|| true));
        let rate = receive(&receiver, length).map_err(failed);
        // Ends the sender.
        drop(receiver);
        rate
    })
}

/// The time that a receiver does not count before a measurement of this length.
pub(crate) fn warmup(length: Duration) -> Duration {
    length / 10
}

/// Sends for as long as `is_wanted`. An error ends it too: a receiver that has enough closes the connection.
pub(crate) fn send(mut stream: impl Write, is_wanted: &dyn Fn() -> bool) {
    let data = vec![0x5a; SENT_BYTES];
    while is_wanted() {
        match stream.write(&data) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) | Ok(0) => return,
            Ok(_) => {}
        }
    }
}

/// Returns the bytes per second that arrive, after a warm-up.
///
/// # Errors
/// If the connection breaks or ends early.
pub(crate) fn receive(mut stream: impl Read, length: Duration) -> std::io::Result<f64> {
    let mut buffer = vec![0; RECEIVED_BYTES];
    let warm = Instant::now();
    while warm.elapsed() < warmup(length) {
        read_some(&mut stream, &mut buffer)?;
    }
    let (start, mut bytes) = (Instant::now(), 0u64);
    while start.elapsed() < length {
        bytes += read_some(&mut stream, &mut buffer)? as u64;
    }
    Ok(bytes as f64 / start.elapsed().as_secs_f64())
}

fn read_some(stream: &mut impl Read, buffer: &mut [u8]) -> std::io::Result<usize> {
    match stream.read(buffer) {
        Err(error) if error.kind() == ErrorKind::Interrupted => Ok(0),
        Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
        result => result,
    }
}

/// Receives and drops what is still on its way.
///
/// # Errors
/// If the connection breaks before it ends.
pub(crate) fn drain(mut stream: impl Read) -> std::io::Result<()> {
    std::io::copy(&mut stream, &mut std::io::sink()).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_has_a_rate() {
        let rate = measure(IpAddr::from([127, 0, 0, 1]), Duration::from_millis(50)).unwrap();
        assert!(rate > 0.0);
    }

    #[test]
    fn a_stream_that_ends_early_has_no_rate() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let receiver = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (sender, _) = listener.accept().unwrap();
        let started = Instant::now();
        std::thread::scope(|scope| {
            scope.spawn(move || send(&sender, &|| started.elapsed() < Duration::from_millis(50)));
            assert!(receive(&receiver, Duration::from_secs(60)).is_err());
        });
        assert!(drain(&receiver).is_ok());
    }
}
