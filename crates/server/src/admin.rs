//! Administration: the socket `DATA/admin.sock`, on which the server answers requests over HTTP, and its client.

pub mod api;
mod tokens;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ipnet::IpNet;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::config;
use crate::data::{self, Files};
use crate::error::{Error, ErrorKind};
use crate::events::Events;
use crate::http::tls::Tls;
use crate::http::{Listener, Socket, client};
use crate::metrics;
use crate::reload::Reloader;

use api::Api;
use api::types::{Done, ProblemDetails, Status};
use tokens::Tokens;

/// Name of the socket in the data directory.
const NAME: &str = "admin.sock";

/// Longest path that a UNIX-domain socket's address holds, bytes.
const PATH_BYTES_MAX: usize = 107;

/// What administrators see and change.
pub(crate) struct Source {
    /// What is served and counted.
    pub(crate) measured: metrics::Source,
    pub(crate) reloader: Arc<Reloader>,
    pub(crate) events: Arc<Events>,
}

/// The socket, and the address for other hosts, if there is one.
pub(crate) struct Admin {
    path: PathBuf,
    api: Arc<Api>,
    listeners: Vec<Listener>,
}

/// The address for other hosts, bound.
pub(crate) struct Remote {
    socket: TcpListener,
    tls: Option<Tls>,
    address: SocketAddr,
}

impl Remote {
    /// Binds the address, if one is configured. Nobody is answered before [`Admin::start`].
    ///
    /// # Errors
    /// The certificate or the address cannot be used.
    pub(crate) fn bind(settings: &config::Api) -> Result<Option<Remote>, Error> {
        let tls = read_certificate(settings)?;
        let Some(wanted) = settings.listen else { return Ok(None) };
        let bound = TcpListener::bind(wanted).and_then(|socket| Ok((socket.local_addr()?, socket)));
        let (address, socket) = bound.map_err(|error| cannot_listen(wanted, &error))?;
        Ok(Some(Remote { socket, tls, address }))
    }
}

/// Reads the certificate, if one is configured.
///
/// # Errors
/// It cannot be used.
pub(crate) fn read_certificate(settings: &config::Api) -> Result<Option<Tls>, Error> {
    let files = settings.certificate.as_deref().zip(settings.key.as_deref());
    files.map(|(certificate, key)| Tls::read(certificate, key)).transpose().map_err(Error::usage)
}

/// Tests whether this machine has the address, without taking its port.
///
/// # Errors
/// It does not have it.
pub(crate) fn check_address(settings: &config::Api) -> Result<(), Error> {
    let Some(address) = settings.listen else { return Ok(()) };
    TcpListener::bind((address.ip(), 0)).map(drop).map_err(|error| cannot_listen(address, &error))
}

fn cannot_listen(address: SocketAddr, error: &io::Error) -> Error {
    Error::failed(format!("cannot listen on {address} for administration: {error}; change `listen` of [api]"))
}

fn socket_path(root: &Path) -> io::Result<PathBuf> {
    let path = data::local(root)
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error.sentence))?
        .join(NAME);
    if path.as_os_str().len() > PATH_BYTES_MAX {
        let sentence = format!("{} is too long for a socket's address", path.display());
        return Err(io::Error::new(io::ErrorKind::InvalidInput, sentence));
    }
    Ok(path)
}

fn local_socket(root: &Path) -> io::Result<Socket> {
    let path = socket_path(root)?;
    let _ = std::fs::remove_file(&path);
    let socket = UnixListener::bind(&path)?;
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))?;
    Ok(Socket::Unix(socket))
}

impl Admin {
    /// Answers the requests of administrators. The caller holds the data directory, so an existing socket is a leftover.
    ///
    /// # Errors
    /// The tokens cannot be used, or there is no thread. A server works without the local socket: its failure is only logged.
    pub(crate) fn start(
        root: &Path,
        files: Files,
        source: Source,
        remote: Option<Remote>,
        clients: Option<Vec<IpNet>>,
    ) -> Result<Admin, Error> {
        let api = Arc::new(Api::new(source, Tokens::read(files)?, clients));
        let path = data::local(root)?.join(NAME);
        let mut admin = Admin { path, api: Arc::clone(&api), listeners: Vec::new() };
        match local_socket(root).and_then(|socket| Listener::start(socket, Arc::<Api>::clone(&api))) {
            Ok(listener) => admin.listeners.push(listener),
            Err(error) => {
                tracing::warn!(%error, "cannot make the administrator's socket; no command can reach the server");
            }
        }
        if let Some(Remote { socket, tls, address }) = remote {
            let listener = Listener::start(Socket::Tcp(socket, tls), api);
            admin.listeners.push(listener.map_err(|error| cannot_listen(address, &error))?);
            tracing::info!(%address, "administration");
        }
        Ok(admin)
    }

    /// Refuses changes from now on, and waits for the one that was begun. The status can still be read.
    pub(crate) fn refuse_changes(&self) {
        self.api.refuse_changes();
    }

    /// Ends the threads and removes the socket.
    pub(crate) fn stop(self) {
        self.listeners.into_iter().for_each(Listener::stop);
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Returns the status of the server of the data directory at `root`.
pub fn status(root: &Path) -> Result<Status, Error> {
    get(root, "/v1/status")
}

/// Returns what the server of the data directory at `root` shows at `target`.
pub fn get<T: DeserializeOwned>(root: &Path, target: &str) -> Result<T, Error> {
    ask(root, "GET", target, None::<&Done>)
}

/// Whether a server of the data directory at `root` answers requests of administrators.
#[must_use]
pub fn is_served(root: &Path) -> bool {
    socket_path(root).is_ok_and(|path| UnixStream::connect(path).is_ok())
}

/// Percent-encodes a name for the target of a request.
#[must_use]
pub fn escaped(name: &str) -> String {
    percent_encoding::utf8_percent_encode(name, percent_encoding::NON_ALPHANUMERIC).to_string()
}

/// Sends a request with this content, if there is any, to the server of the data directory at `root`, and returns what the
/// response holds.
pub fn ask<T: DeserializeOwned>(
    root: &Path,
    method: &str,
    target: &str,
    content: Option<&impl Serialize>,
) -> Result<T, Error> {
    let content = content.map_or(Ok(Vec::new()), serde_json::to_vec);
    let content =
        content.map_err(|error| Error::failed(format!("cannot write the request as JSON: {error}")))?;
    // A path that cannot be served is refused in other words than one that could be.
    data::check_root(root)?;
    let reply = socket_path(root).and_then(|path| client::request(&path, method, target, &[], &content));
    let reply = reply.map_err(|error| cannot_ask(root, &error))?;
    let unreadable = |error: serde_json::Error| {
        Error::failed(format!(
            "cannot read the server's answer: {error}; use a holdfast of the server's version"
        ))
    };
    if reply.status >= 300 {
        let problem: ProblemDetails = serde_json::from_slice(&reply.content).map_err(unreadable)?;
        let kind = match problem.status {
            404 => ErrorKind::NotFound,
            409 => ErrorKind::Conflict,
            400..=499 => ErrorKind::Usage,
            _ => ErrorKind::Failed,
        };
        return Err(Error { kind, sentence: problem.detail });
    }
    serde_json::from_slice(&reply.content).map_err(unreadable)
}

fn cannot_ask(root: &Path, error: &io::Error) -> Error {
    let root = root.display();
    Error::failed(match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
            format!("no server runs on {root}: start one with `holdfast serve {root}`, or check the path")
        }
        io::ErrorKind::PermissionDenied => {
            format!("cannot ask the server of {root}: {error}; run this as the user that runs the server")
        }
        _ => format!(
            "cannot ask the server of {root}: {error}; it may have stopped, and a change may have been made or not"
        ),
    })
}
