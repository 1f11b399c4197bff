//! Bytes through TCP within this machine, received as replies are: what a READ could reach at best.

use std::io::Write as _;
use std::net::{IpAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use crate::client::prepare;
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
    let (mut sender, _) = listener.accept().map_err(words)?;
    prepare(&sender).and_then(|()| prepare(&receiver)).map_err(words)?;
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let data = vec![0x5a; SENT_BYTES];
            // Ends when the receiver closes.
            while sender.write_all(&data).is_ok() {}
        });
        receive(receiver, length).map_err(words)
    })
}

fn receive(mut stream: TcpStream, length: Duration) -> std::io::Result<f64> {
    use std::io::Read as _;
    let mut buffer = vec![0; RECEIVED_BYTES];
    let warm = Instant::now();
    while warm.elapsed() < length / 10 {
        stream.read_exact(&mut buffer)?;
    }
    let (start, mut bytes) = (Instant::now(), 0u64);
    while start.elapsed() < length {
        bytes += match stream.read(&mut buffer) {
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => 0,
            read => read? as u64,
        };
    }
    Ok(bytes as f64 / start.elapsed().as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_flow() {
        let rate = measure(IpAddr::from([127, 0, 0, 1]), Duration::from_millis(50)).unwrap();
        assert!(rate > 0.0);
    }
}
