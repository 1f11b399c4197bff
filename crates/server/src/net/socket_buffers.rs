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
    /// The kernel's own: these bytes in each direction.
    Automatic { received: usize, sent: usize },
    /// These bytes, half in each direction.
    Limited(usize),
    /// The same for one whose origin has its part already: what it gets nevertheless takes nothing from others.
    Least(usize),
}

impl SocketBuffers {
    /// Returns the bytes that count as taken.
    pub(crate) fn counted(self) -> usize {
        match self {
            Self::Automatic { received, sent } => received + sent,
            Self::Limited(bytes) => bytes,
            Self::Least(_) => 0,
        }
    }

    /// Returns the bytes that the kernel may keep of what was sent.
    pub(crate) fn bytes_sent_max(self) -> usize {
        match self {
            Self::Automatic { sent, .. } => sent,
            Self::Limited(bytes) | Self::Least(bytes) => bytes / 2,
        }
    }

    /// Sets the limit.
    pub(crate) fn apply(self, stream: &TcpStream) -> io::Result<()> {
        let (Self::Limited(bytes) | Self::Least(bytes)) = self else { return Ok(()) };
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
    /// The kernel's own limits.
    automatic: SocketBuffers,
}

impl BufferBudget {
    /// Shares out `all` bytes among up to `connections`. Those that get the least come on top: as much again if there are as many, or
    /// [`LIMITED_BYTES_MIN`] for each if that is more.
    pub(crate) fn new(all: usize, connections: usize) -> BufferBudget {
        let least = (all / connections.max(1)).clamp(LIMITED_BYTES_MIN, LIMITED_BYTES_MAX);
        let [received, sent] = GROWTH.map(growth);
        BufferBudget { all, least, automatic: SocketBuffers::Automatic { received, sent } }
    }

    /// Returns the limit of one more connection, when all have `total` bytes, and those of its origin `own` of them.
    pub(crate) fn share(&self, total: usize, own: usize) -> SocketBuffers {
        let share = self.all.saturating_sub(total).saturating_sub(own) / SHARE;
        if share >= self.automatic.counted() {
            self.automatic
        } else if share >= self.least {
            SocketBuffers::Limited(share.min(LIMITED_BYTES_MAX))
        } else {
            SocketBuffers::Least(self.least)
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

    const AUTOMATIC: SocketBuffers = SocketBuffers::Automatic { received: 6 << 20, sent: 4 << 20 };
    const BUDGET: BufferBudget = BufferBudget { all: 1 << 30, least: 100 << 10, automatic: AUTOMATIC };

    /// Gives an origin very many connections while others have `taken` bytes. Returns what it has taken.
    fn fill(taken: usize) -> usize {
        let mut own = 0;
        for _ in 0..20_000 {
            own += BUDGET.share(taken + own, own).counted();
        }
        own
    }

    #[test]
    fn the_first_connections_keep_the_limits_of_the_kernel() {
        assert_eq!(BUDGET.share(0, 0), AUTOMATIC);
        assert_eq!(BUDGET.share(500 << 20, 300 << 20), AUTOMATIC);
        assert_eq!(BUDGET.share(500 << 20, 400 << 20), SocketBuffers::Limited(LIMITED_BYTES_MAX));
        assert_eq!(BUDGET.share(2 << 30, 2 << 30), SocketBuffers::Least(BUDGET.least));
    }

    #[test]
    fn an_origin_takes_half_of_what_is_free_and_others_find_room() {
        let mut taken = 0;
        for _ in 0..5 {
            let free = BUDGET.all - taken;
            let own = fill(taken);
            assert!(own <= free / 2 && own > free / 3, "{own} of {free}");
            taken += own;
            assert!(BUDGET.share(taken, 0).counted() > 0, "a newcomer's");
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
        AUTOMATIC.apply(&TcpStream::from_std(client.try_clone().unwrap())).unwrap();
        assert_eq!(sockopt::socket_send_buffer_size(&client).unwrap(), before);
    }
}
