//! What the agent does with addresses and connections; the kernel does it, or a test notes it.

use std::io;
use std::net::{IpAddr, SocketAddr};

use ipnet::IpNet;

pub(crate) mod kernel;

/// The network operations that moving an address needs.
pub(crate) trait Network: Send + Sync {
    /// Binds a socket that listens at an address that this machine need not have yet.
    fn listen(&self, at: SocketAddr) -> io::Result<std::net::TcpListener>;
    /// Binds a socket for datagrams likewise.
    fn take_datagrams(&self, at: SocketAddr) -> io::Result<std::net::UdpSocket>;
    /// Gives this machine an address for [`crate::limits::ADDRESS_LIFETIME`]; prolongs that of one that it has.
    fn hold(&self, address: IpNet) -> io::Result<()>;
    /// Takes an address from this machine. One that it does not have is no error.
    fn give_up(&self, address: IpNet) -> io::Result<()>;
    /// Tells the neighbours that an address is here.
    fn announce(&self, address: IpAddr) -> io::Result<()>;
    /// Ends all connections of a socket address at once, and whatever remains of earlier ones. Returns how many they were.
    fn end_connections(&self, local: SocketAddr) -> io::Result<usize>;
    /// Returns the other ends of the connections of a socket address.
    fn connections(&self, local: SocketAddr) -> io::Result<Vec<SocketAddr>>;
    /// Makes a client find out at once that a connection is gone, rather than when it next repeats what it sent.
    fn tickle(&self, local: SocketAddr, client: SocketAddr) -> io::Result<()>;
}

#[cfg(test)]
pub(crate) mod noted {
    use std::net::{TcpListener, UdpSocket};
    use std::sync::Mutex;

    use super::*;

    /// Records each operation, and returns sockets bound to free ports.
    #[derive(Debug, Default)]
    pub(crate) struct Noted(Mutex<Vec<String>>);

    impl Noted {
        fn note(&self, what: String) {
            self.0.lock().unwrap().push(what);
        }

        /// Whether something was done since the last [`Noted::take`].
        pub(crate) fn did(&self, what: &str) -> bool {
            self.0.lock().unwrap().iter().any(|did| did == what)
        }

        /// Returns the operations recorded since the last call.
        pub(crate) fn take(&self) -> Vec<String> {
            std::mem::take(&mut self.0.lock().unwrap())
        }
    }

    impl Network for Noted {
        fn listen(&self, _: SocketAddr) -> io::Result<TcpListener> {
            TcpListener::bind("127.0.0.1:0")
        }

        fn take_datagrams(&self, _: SocketAddr) -> io::Result<UdpSocket> {
            UdpSocket::bind("127.0.0.1:0")
        }

        fn hold(&self, address: IpNet) -> io::Result<()> {
            self.note(format!("hold {address}"));
            Ok(())
        }

        fn give_up(&self, address: IpNet) -> io::Result<()> {
            self.note(format!("give up {address}"));
            Ok(())
        }

        fn announce(&self, address: IpAddr) -> io::Result<()> {
            self.note(format!("announce {address}"));
            Ok(())
        }

        fn end_connections(&self, local: SocketAddr) -> io::Result<usize> {
            self.note(format!("end {local}"));
            Ok(0)
        }

        fn connections(&self, _: SocketAddr) -> io::Result<Vec<SocketAddr>> {
            Ok(Vec::new())
        }

        fn tickle(&self, _: SocketAddr, client: SocketAddr) -> io::Result<()> {
            self.note(format!("tickle {client}"));
            Ok(())
        }
    }
}
