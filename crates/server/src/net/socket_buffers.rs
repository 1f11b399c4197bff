//! How much the kernel may keep of what a connection has received and sent.
//!
//! The kernel lets the buffers of a connection grow to some ten megabytes as its peer takes and sends more. A peer that takes no
//! replies, or whose calls have to wait, fills them, and so pins memory that counts neither for the process nor for anybody else. So
//! the kernel's own limits apply only while there is plenty. Beyond, the buffers of each new connection are limited to a part of what
//! is free, less what its origin has: one origin takes half of it at most, and newcomers find room.

use std::fs;
use std::io;

use mio::net::TcpStream;
use rustix::net::sockopt;

/// The part of what is free that a connection may have.
const SHARE: usize = 16;

/// The most that a limited connection has. Every system allows this much in each direction: 208 KiB (`net.core.wmem_max` and
/// `rmem_max`), which the kernel doubles.
const LIMITED_BYTES_MAX: usize = 4 * (208 << 10);

/// The least that a connection has: a segment of a network with large frames, and room to go on, in each direction.
const LIMITED_BYTES_MIN: usize = 2 * (32 << 10);

/// Where the kernel says how far it lets buffers grow: the last of three numbers.
const GROWTH: [&str; 2] = ["/proc/sys/net/ipv4/tcp_rmem", "/proc/sys/net/ipv4/tcp_wmem"];

/// That limit if the kernel does not say it, bytes.
const GROWTH_DEFAULT: usize = 6 << 20;

/// The limit of the buffers of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SocketBuffers {
    /// The kernel's own: these bytes.
    Automatic(usize),
    /// These bytes, half in each direction.
    Limited(usize),
}

impl SocketBuffers {
    /// Returns the bytes for both directions.
    pub(crate) fn bytes(self) -> usize {
        match self {
            Self::Automatic(bytes) | Self::Limited(bytes) => bytes,
        }
    }

    /// Sets the limit.
    pub(crate) fn apply(self, stream: &TcpStream) -> io::Result<()> {
        let Self::Limited(bytes) = self else { return Ok(()) };
        // The kernel doubles what it is told, for its own structures.
        sockopt::set_socket_recv_buffer_size(stream, bytes / 4)?;
        sockopt::set_socket_send_buffer_size(stream, bytes / 4)?;
        Ok(())
    }
}

/// What all connections share.
#[derive(Debug)]
pub(crate) struct BufferBudget {
    all: usize,
    /// The least that a connection gets, even if nothing is free.
    least: usize,
    /// What the kernel's own limits come to.
    automatic: usize,
}

impl BufferBudget {
    /// Shares out `all` bytes among up to `connections`. If those are very many, each has its least, and all have twice as much, or
    /// [`LIMITED_BYTES_MIN`] for each if that is more.
    pub(crate) fn new(all: usize, connections: usize) -> BufferBudget {
        let least = (all / connections.max(1)).clamp(LIMITED_BYTES_MIN, LIMITED_BYTES_MAX);
        BufferBudget { all, least, automatic: GROWTH.into_iter().map(growth).sum() }
    }

    /// Returns the limit of one more connection, when all have `total` bytes, and those of its origin `own` of them.
    pub(crate) fn share(&self, total: usize, own: usize) -> SocketBuffers {
        let share = self.all.saturating_sub(total).saturating_sub(own) / SHARE;
        if share >= self.automatic {
            SocketBuffers::Automatic(self.automatic)
        } else {
            SocketBuffers::Limited(share.clamp(self.least, LIMITED_BYTES_MAX))
        }
    }
}

/// Returns how far the kernel lets the buffers of a connection grow in one direction, bytes.
fn growth(path: &str) -> usize {
    let numbers = fs::read_to_string(path).ok();
    numbers.and_then(|text| text.split_whitespace().nth(2)?.parse().ok()).unwrap_or(GROWTH_DEFAULT)
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream as Client};

    use super::*;

    const BUDGET: BufferBudget = BufferBudget { all: 1 << 30, least: 100 << 10, automatic: 10 << 20 };

    /// Gives connections to an origin, `taken` bytes of which others have, until it gets no more than the least. Returns their bytes.
    fn fill(taken: usize) -> usize {
        let mut own = 0;
        while BUDGET.share(taken + own, own).bytes() > BUDGET.least {
            own += BUDGET.share(taken + own, own).bytes();
        }
        own
    }

    #[test]
    fn the_first_connections_keep_the_limits_of_the_kernel() {
        assert_eq!(BUDGET.share(0, 0), SocketBuffers::Automatic(10 << 20));
        assert_eq!(BUDGET.share(500 << 20, 300 << 20), SocketBuffers::Automatic(10 << 20));
        assert_eq!(BUDGET.share(500 << 20, 400 << 20), SocketBuffers::Limited(LIMITED_BYTES_MAX));
        assert_eq!(BUDGET.share(2 << 30, 2 << 30), SocketBuffers::Limited(BUDGET.least));
    }

    #[test]
    fn an_origin_takes_half_of_what_is_free_and_others_find_room() {
        let mut taken = 0;
        for _ in 0..5 {
            let free = BUDGET.all - taken;
            let own = fill(taken);
            assert!(own <= free / 2 && own > free / 3, "{own} of {free}");
            taken += own;
            assert!(BUDGET.share(taken, 0).bytes() > BUDGET.least, "a newcomer's");
        }
    }

    #[test]
    fn the_least_suits_the_number_of_connections() {
        assert_eq!(BufferBudget::new(1 << 30, 10_000).least, (1 << 30) / 10_000);
        assert_eq!(BufferBudget::new(64 << 20, 10_000).least, LIMITED_BYTES_MIN);
        assert_eq!(BufferBudget::new(1 << 30, 0).least, LIMITED_BYTES_MAX);
    }

    #[test]
    fn the_kernel_keeps_no_more_for_a_limited_connection() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = Client::connect(listener.local_addr().unwrap()).unwrap();
        let stream = TcpStream::from_std(listener.accept().unwrap().0);
        SocketBuffers::Limited(256 << 10).apply(&stream).unwrap();
        assert_eq!(sockopt::socket_send_buffer_size(&stream).unwrap(), 128 << 10);
        assert_eq!(sockopt::socket_recv_buffer_size(&stream).unwrap(), 128 << 10);
        let before = sockopt::socket_send_buffer_size(&client).unwrap();
        SocketBuffers::Automatic(10 << 20).apply(&TcpStream::from_std(client.try_clone().unwrap())).unwrap();
        assert_eq!(sockopt::socket_send_buffer_size(&client).unwrap(), before);
    }
}
