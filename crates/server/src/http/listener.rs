//! Listeners: accept connections and give each a thread.

use std::io;
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nfs::link_local::{Shown, named};
use parking_lot::Mutex;
use rustix::net::{Shutdown, sockopt};

use super::connection::{Connection, Peer, Stream, Timed};
use super::connections::Connections;
use super::handshakes::Handshakes;
use super::response::Response;
use super::tls::Tls;
use crate::priority::let_others_go_first;
use http_request::Request;

/// Stack of a connection's thread, bytes.
const STACK_BYTES: usize = 512 << 10;

/// How long to wait after a failure to accept: descriptors may have run out.
const PAUSE: Duration = Duration::from_millis(100);

/// Answers requests.
pub(crate) trait Handler: Send + Sync {
    /// Whether a peer may connect.
    fn admits(&self, peer: Peer) -> bool;
    /// Judges a request by its head, before its content is read.
    fn judge(&self, head: &Request, peer: Peer) -> Verdict;
    /// Answers a request, with its content.
    fn handle(&self, request: &Request, peer: Peer) -> Response;
}

/// The verdict on the head of a request.
pub(crate) struct Verdict {
    /// Whether the caller is known: a process on this machine, or the bearer of a token.
    pub(crate) is_known: bool,
    /// The most content that it may have, bytes, or the response that refuses it.
    pub(crate) admitted: Result<usize, Response>,
}

/// A listening socket.
pub(crate) enum Socket {
    /// Of this machine's processes.
    Unix(UnixListener),
    /// Of hosts; encrypted, if there is a certificate.
    Tcp(TcpListener, Option<Tls>),
}

/// A listener with its threads.
pub(crate) struct Listener {
    shared: Arc<Shared>,
    acceptor: JoinHandle<()>,
}

pub(super) struct Shared {
    socket: Socket,
    pub(super) handler: Arc<dyn Handler>,
    pub(super) stop: AtomicBool,
    pub(super) connections: Connections,
    handshakes: Arc<Handshakes>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Listener {
    /// Starts to answer requests that arrive at `socket`.
    pub(crate) fn start(socket: Socket, handler: Arc<dyn Handler>) -> io::Result<Listener> {
        let shared = Arc::new(Shared {
            socket,
            handler,
            stop: AtomicBool::new(false),
            connections: Connections::default(),
            handshakes: Arc::new(Handshakes::default()),
            threads: Mutex::new(Vec::new()),
        });
        let accepting = Arc::clone(&shared);
        let acceptor = thread::Builder::new().name("api".to_owned()).spawn(move || {
            // Hosts without a token can make it work too. The threads of its connections inherit its priority.
            if matches!(accepting.socket, Socket::Tcp(..)) {
                let_others_go_first();
            }
            accepting.accept_all();
        })?;
        Ok(Listener { shared, acceptor })
    }

    /// Closes all connections and ends the threads.
    pub(crate) fn stop(self) {
        self.shared.stop.store(true, Ordering::Release);
        let ended = match &self.shared.socket {
            Socket::Unix(listener) => rustix::net::shutdown(listener.as_fd(), Shutdown::Both),
            Socket::Tcp(listener, _) => rustix::net::shutdown(listener.as_fd(), Shutdown::Both),
        };
        if ended.is_ok() && self.acceptor.join().is_err() {
            tracing::error!("the thread that accepts connections of administrators panicked");
        }
        self.shared.connections.shut_down();
        for thread in std::mem::take(&mut *self.shared.threads.lock()) {
            // A panic was reported by the thread.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn accept_all(self: &Arc<Shared>) {
        while !self.stop.load(Ordering::Acquire) {
            let accepted = match &self.socket {
                Socket::Unix(listener) => listener.accept().map(|(stream, _)| local(stream)),
                Socket::Tcp(listener, _) => {
                    listener.accept().map(|(stream, address)| remote(stream, address))
                }
            };
            match accepted {
                Ok(Ok((streams, peer))) if self.admits(peer) => self.begin(streams, peer),
                // Closed before a byte is read.
                Ok(Ok(_)) => {}
                Ok(Err(error)) => tracing::debug!(%error, "cannot serve a connection of an administrator"),
                Err(_) if self.stop.load(Ordering::Acquire) => return,
                Err(error) => {
                    tracing::debug!(%error, "cannot accept a connection of an administrator");
                    thread::sleep(PAUSE);
                }
            }
        }
    }

    /// Whether a connection may be served: its peer is admitted, and has not begun too many handshakes.
    fn admits(&self, peer: Peer) -> bool {
        let client = || peer.address().map(|address| tracing::field::display(Shown(address)));
        if !self.handler.admits(peer) {
            tracing::info!(
                client = client(),
                "administration refused: [api] does not admit this address; list it in `clients`"
            );
            return false;
        }
        let is_encrypted = matches!(self.socket, Socket::Tcp(_, Some(_)));
        if is_encrypted && !self.handshakes.begin(peer.origin(), Instant::now()) {
            tracing::info!(
                client = client(),
                "administration refused: too many connections in a few seconds"
            );
            return false;
        }
        true
    }

    fn begin(self: &Arc<Shared>, (stream, second): Streams, peer: Peer) {
        let Some(number) = self.connections.add(peer.origin(), second) else { return self.turn_away(stream) };
        let mut socket = match self.open(stream) {
            Ok(socket) => socket,
            Err(error) => {
                tracing::warn!(%error, "cannot encrypt the connection of an administrator");
                return self.connections.remove(number);
            }
        };
        let shared = Arc::clone(self);
        let answering = move || {
            if let Err(error) = shared.answer_all(socket.as_mut(), peer, number) {
                tracing::debug!(%peer, %error, "the connection of an administrator ended");
            }
            shared.connections.remove(number);
        };
        let started = thread::Builder::new().name("api".to_owned()).stack_size(STACK_BYTES).spawn(answering);
        let mut threads = self.threads.lock();
        threads.retain(|thread| !thread.is_finished());
        match started {
            Ok(thread) => threads.push(thread),
            Err(error) => {
                tracing::warn!(%error, "no thread for the connection of an administrator");
                self.connections.remove(number);
            }
        }
    }
}

impl Shared {
    /// Tells a peer that there is no place for it, unless that would take a handshake.
    fn turn_away(&self, stream: Box<dyn Stream>) {
        if matches!(self.socket, Socket::Tcp(_, Some(_))) {
            return;
        }
        // Fits the empty buffer of a new socket, so it does not wait.
        let mut socket = Timed::new(stream);
        socket.allow(PAUSE);
        let sentence = "too many requests are being answered: try again in a moment";
        let _ = Response::problem(503, sentence).send(&mut socket, false, false);
    }

    fn open(&self, stream: Box<dyn Stream>) -> io::Result<Box<dyn Connection>> {
        match &self.socket {
            Socket::Tcp(_, Some(tls)) => tls.accept(Timed::new(stream), Arc::clone(&self.handshakes)),
            Socket::Tcp(_, None) | Socket::Unix(_) => Ok(Box::new(Timed::new(stream))),
        }
    }
}

/// Two descriptors of a socket: one to use, one to close it by.
type Streams = (Box<dyn Stream>, Box<dyn Stream>);

fn local(stream: UnixStream) -> io::Result<(Streams, Peer)> {
    let uid = sockopt::socket_peercred(&stream)?.uid.as_raw();
    let second = stream.try_clone()?;
    Ok(((Box::new(stream), Box::new(second)), Peer::Local(uid)))
}

fn remote(stream: TcpStream, address: std::net::SocketAddr) -> io::Result<(Streams, Peer)> {
    let peer = named(address).ok_or(io::ErrorKind::AddrNotAvailable)?;
    stream.set_nodelay(true)?;
    let second = stream.try_clone()?;
    Ok(((Box::new(stream), Box::new(second)), Peer::Remote(peer)))
}
