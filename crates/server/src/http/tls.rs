//! TLS for connections of other hosts.

use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::pem::{Error as PemError, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use super::connection::{Connection, Timed};
use super::handshakes::Handshakes;

/// The certificate that a listener shows, and its key.
#[derive(Clone)]
pub(crate) struct Tls(Arc<ServerConfig>);

impl Tls {
    /// Reads the files of a certificate, with those that lead to its root, and of its key, both in PEM.
    ///
    /// # Errors
    /// A sentence that says which file cannot be used, and why.
    pub(crate) fn read(certificate: &Path, key: &Path) -> Result<Tls, String> {
        let cannot = |what: &str, path: &Path, error: &dyn std::fmt::Display| {
            format!(
                "cannot use {} as `{what}` of [api]: {error}; name a file in PEM that this user can read",
                path.display()
            )
        };
        let chain: Result<Vec<_>, PemError> =
            CertificateDer::pem_file_iter(certificate).and_then(Iterator::collect);
        let chain = chain.map_err(|error| cannot("certificate", certificate, &error))?;
        if chain.is_empty() {
            return Err(cannot("certificate", certificate, &"it holds no certificate"));
        }
        let secret = PrivateKeyDer::from_pem_file(key).map_err(|error| cannot("key", key, &error))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, secret));
        Ok(Tls(Arc::new(config.map_err(|error| cannot("certificate", certificate, &error))?)))
    }

    /// Encrypts a connection. The handshake is part of its first request.
    pub(super) fn accept(
        &self,
        socket: Timed,
        handshakes: Arc<Handshakes>,
    ) -> io::Result<Box<dyn Connection>> {
        let session = ServerConnection::new(Arc::clone(&self.0)).map_err(io::Error::other)?;
        Ok(Box::new(Encrypted { stream: StreamOwned::new(session, socket), handshakes }))
    }
}

/// An encrypted connection.
struct Encrypted {
    stream: StreamOwned<ServerConnection, Timed>,
    handshakes: Arc<Handshakes>,
}

impl Encrypted {
    /// Sends what is due, or takes in what the peer sends next. The peer may take its time; what it sends is computed when others
    /// leave room for it: a step of a handshake costs a signature, and very many small records cost as much.
    fn proceed(&mut self) -> io::Result<()> {
        let StreamOwned { conn, sock } = &mut self.stream;
        if conn.wants_write() {
            return conn.write_tls(sock).map(drop);
        }
        if conn.read_tls(sock)? == 0 && conn.is_handshaking() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let permit = self.handshakes.permit();
        let computed = conn.process_new_packets();
        drop(permit);
        if let Err(error) = computed {
            // An alert that tells the peer.
            let _ = conn.write_tls(sock);
            return Err(io::Error::other(error));
        }
        Ok(())
    }
}

impl Read for Encrypted {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.stream.conn.reader().read(into) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.proceed()?,
                ended => return ended,
            }
        }
    }
}

impl Write for Encrypted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

impl Connection for Encrypted {
    fn allow(&mut self, time: std::time::Duration) {
        self.stream.sock.allow(time);
    }

    fn expect(&mut self, bytes: usize) {
        self.stream.sock.expect(bytes);
    }
}
