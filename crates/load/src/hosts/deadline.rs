//! A connection that has to finish by a deadline. The timeouts of a socket bound one system call each: a peer that moves
//! a byte now and then would renew them forever.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// How long an agent, or the client's end of a stream, waits for its peer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timeouts {
    /// For a whole greeting.
    pub(super) greeting: Duration,
    /// For the next whole message of a coordinator, which pings every second; for a whole response to leave; and for a
    /// stream to begin once it was let in.
    pub(super) silence: Duration,
    /// For the next byte of a stream or a response, and for a stream to end once its time is over.
    pub(super) stall: Duration,
}

impl Timeouts {
    /// As docs/bench.md states them. Tests use shorter ones.
    pub(super) const DEFAULT: Self = Self {
        greeting: Duration::from_secs(10),
        silence: Duration::from_secs(60),
        stall: Duration::from_secs(10),
    };
}

/// Reads and writes of a blocking stream, which fail with [`ErrorKind::TimedOut`] or [`ErrorKind::WouldBlock`] once the
/// deadline has passed.
#[derive(Debug)]
pub(super) struct Deadline<'s> {
    stream: &'s TcpStream,
    at: Instant,
    /// No single call waits longer.
    stall_timeout: Duration,
    read_timeout: Option<Duration>,
    write_timeout: Option<Duration>,
}

impl<'s> Deadline<'s> {
    /// Everything done through this has to end within `timeout`.
    pub(super) fn new(stream: &'s TcpStream, timeout: Duration) -> Self {
        let at = Instant::now() + timeout;
        Self { stream, at, stall_timeout: timeout, read_timeout: None, write_timeout: None }
    }

    /// Also fails when no byte moves for `stall_timeout`.
    pub(super) fn with_stall_timeout(self, stall_timeout: Duration) -> Self {
        Self { stall_timeout, ..self }
    }

    /// How long the next call may wait.
    fn timeout(&self) -> io::Result<Duration> {
        match self.at.saturating_duration_since(Instant::now()) {
            Duration::ZERO => Err(ErrorKind::TimedOut.into()),
            left => Ok(left.min(self.stall_timeout)),
        }
    }
}

impl Read for Deadline<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let timeout = Some(self.timeout()?);
        if self.read_timeout != timeout {
            self.stream.set_read_timeout(timeout)?;
            self.read_timeout = timeout;
        }
        self.stream.read(buffer)
    }
}

impl Write for Deadline<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let timeout = Some(self.timeout()?);
        if self.write_timeout != timeout {
            self.stream.set_write_timeout(timeout)?;
            self.write_timeout = timeout;
        }
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (near, listener.accept().unwrap().0)
    }

    #[test]
    fn a_peer_that_trickles_bytes_does_not_move_the_deadline() {
        let (near, mut far) = pair();
        let started = Instant::now();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                while started.elapsed() < Duration::from_secs(60) && far.write_all(b"x").is_ok() {
                    std::thread::sleep(Duration::from_millis(5));
                }
            });
            let read = Deadline::new(&near, Duration::from_millis(100)).read_exact(&mut [0; 1 << 16]);
            assert!(matches!(read.unwrap_err().kind(), ErrorKind::TimedOut | ErrorKind::WouldBlock));
            near.shutdown(std::net::Shutdown::Both).unwrap();
        });
        assert!(started.elapsed() < Duration::from_secs(30));
    }

    #[test]
    fn a_peer_that_reads_slowly_does_not_move_the_deadline() {
        let (near, mut far) = pair();
        let started = Instant::now();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let mut buffer = vec![0; 64 << 10];
                while started.elapsed() < Duration::from_secs(60)
                    && far.read(&mut buffer).is_ok_and(|n| n > 0)
                {
                    std::thread::sleep(Duration::from_millis(5));
                }
            });
            let mut near_end = Deadline::new(&near, Duration::from_millis(100));
            let written = near_end.write_all(&vec![0; 1 << 30]);
            assert!(matches!(written.unwrap_err().kind(), ErrorKind::TimedOut | ErrorKind::WouldBlock));
            near.shutdown(std::net::Shutdown::Both).unwrap();
        });
        assert!(started.elapsed() < Duration::from_secs(30));
    }

    #[test]
    fn a_stall_ends_before_the_deadline() {
        let (near, _far) = pair();
        let started = Instant::now();
        let stall_timeout = Duration::from_millis(20);
        let mut near_end = Deadline::new(&near, Duration::from_secs(60)).with_stall_timeout(stall_timeout);
        assert!(near_end.read(&mut [0]).is_err() && started.elapsed() < Duration::from_secs(30));
    }
}
