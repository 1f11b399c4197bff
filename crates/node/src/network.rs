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
    /// Gives this machine an address for [`crate::limits::ADDRESS_LIFETIME`]; refreshes the lifetime of an address that it already
    /// has.
    fn hold(&self, address: IpNet) -> io::Result<()>;
    /// Takes an address from this machine. One that it does not have is no error.
    fn give_up(&self, address: IpNet) -> io::Result<()>;
    /// Tells the neighbours that an address is here.
    fn announce(&self, address: IpAddr) -> io::Result<()>;
    /// Ends all connections of a socket address at once, and whatever remains of earlier ones. Returns their number.
    fn end_connections(&self, local: SocketAddr) -> io::Result<usize>;
    /// Returns the other ends of the connections of a socket address.
    fn connections(&self, local: SocketAddr) -> io::Result<Vec<SocketAddr>>;
    /// Makes a client find out at once that a connection is gone, rather than when it next repeats what it sent.
    fn tickle(&self, local: SocketAddr, client: SocketAddr) -> io::Result<()>;
    /// Tells from now on when the interface loses its link or has it again, and that it has none if that is so now.
    fn watch_link(&self, tell: Box<dyn Fn(bool) + Send>) -> io::Result<()>;
}

#[cfg(test)]
pub(crate) mod noted {
    use std::net::{TcpListener, UdpSocket};
    use std::sync::Mutex;
    use std::time::Duration;

    use super::*;

    /// Records each operation, and returns sockets bound to free ports.
    #[derive(Default)]
    pub(crate) struct Noted {
        did: Mutex<Vec<String>>,
        tell: Mutex<Option<Box<dyn Fn(bool) + Send>>>,
        /// How long the next operation with an address takes.
        delay: Mutex<Duration>,
    }

    impl Noted {
        fn note(&self, what: String) {
            self.did.lock().unwrap().push(what);
        }

        /// Tells that the link is gone, or that it is back.
        pub(crate) fn tell_link(&self, has_link: bool) {
            self.tell.lock().unwrap().as_ref().unwrap()(has_link);
        }

        /// An address that is in use: nothing can listen there.
        pub(crate) const TAKEN: &str = "10.0.0.99/24";

        /// Has the next operation with an address take that long.
        pub(crate) fn delay(&self, delay: Duration) {
            *self.delay.lock().unwrap() = delay;
        }

        /// Whether something was done since the last [`Noted::take`].
        pub(crate) fn did(&self, what: &str) -> bool {
            self.did.lock().unwrap().iter().any(|did| did == what)
        }

        /// Returns the operations recorded since the last call.
        pub(crate) fn take(&self) -> Vec<String> {
            std::mem::take(&mut self.did.lock().unwrap())
        }
    }

    impl Network for Noted {
        fn listen(&self, at: SocketAddr) -> io::Result<TcpListener> {
            if Noted::TAKEN.starts_with(&format!("{}/", at.ip())) {
                return Err(io::ErrorKind::AddrInUse.into());
            }
            TcpListener::bind("127.0.0.1:0")
        }

        fn take_datagrams(&self, _: SocketAddr) -> io::Result<UdpSocket> {
            UdpSocket::bind("127.0.0.1:0")
        }

        fn hold(&self, address: IpNet) -> io::Result<()> {
            let delay = std::mem::take(&mut *self.delay.lock().unwrap());
            std::thread::sleep(delay);
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
            Ok(vec!["10.0.0.8:800".parse().unwrap()])
        }

        fn tickle(&self, _: SocketAddr, client: SocketAddr) -> io::Result<()> {
            self.note(format!("tickle {client}"));
            Ok(())
        }

        fn watch_link(&self, tell: Box<dyn Fn(bool) + Send>) -> io::Result<()> {
            *self.tell.lock().unwrap() = Some(tell);
            Ok(())
        }
    }
}
