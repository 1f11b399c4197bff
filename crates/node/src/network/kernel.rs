//! The network as the kernel has it.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};
use std::thread;

use address::carrier::Carrier;
use address::interface::Interface;
use address::{announcement, connections, holding, listening, tickling};
use ipnet::IpNet;

use super::Network;
use crate::limits::{ADDRESS_LIFETIME, REFRESH};

/// An interface of this machine.
pub(crate) struct Kernel(Interface);

impl Kernel {
    /// Finds the interface.
    ///
    /// # Errors
    /// A sentence that says that there is none of that name.
    pub(crate) fn open(interface: &str) -> Result<Kernel, String> {
        Interface::find(interface).map(Kernel).map_err(|error| error.to_string())
    }
}

impl Network for Kernel {
    fn listen(&self, at: SocketAddr) -> io::Result<TcpListener> {
        listening::listen_at(at)
    }

    fn take_datagrams(&self, at: SocketAddr) -> io::Result<UdpSocket> {
        listening::take_datagrams_at(at)
    }

    fn hold(&self, address: IpNet) -> io::Result<()> {
        holding::hold(&self.0, address, ADDRESS_LIFETIME)
    }

    fn give_up(&self, address: IpNet) -> io::Result<()> {
        holding::give_up(&self.0, address)
    }

    fn announce(&self, address: IpAddr) -> io::Result<()> {
        announcement::announce(&self.0, address)
    }

    fn end_connections(&self, local: SocketAddr) -> io::Result<usize> {
        connections::end_all(local)
    }

    fn connections(&self, local: SocketAddr) -> io::Result<Vec<SocketAddr>> {
        connections::peers(local)
    }

    fn tickle(&self, local: SocketAddr, client: SocketAddr) -> io::Result<()> {
        tickling::tickle(local, client)
    }

    fn watch_link(&self, tell: Box<dyn Fn(bool) + Send>) -> io::Result<()> {
        let carrier = Carrier::watch(&self.0)?;
        let watch = move || {
            let (mut last, mut now) = (true, carrier.has_link());
            loop {
                match now {
                    Ok(now) if now != last => {
                        last = now;
                        tell(now);
                    }
                    Ok(_) => {}
                    Err(error) => {
                        eprintln!("holdfast: cannot watch the link of the interface: {error}");
                        thread::sleep(REFRESH);
                    }
                }
                now = carrier.next();
            }
        };
        thread::Builder::new().name("link".to_owned()).spawn(watch).map(drop)
    }
}
