//! Whether a server answers.

use std::io::{self, Read as _};
use std::net::{SocketAddr, TcpStream};

use wire::nfs3;
use wire::record::{MARK_BYTES, write_record};
use wire::rpc::{CallHeader, Credential, OpaqueAuth, ReplyHeader};
use wire::xdr::{Decode as _, Decoder, Encode as _};

use crate::limits::MONITOR_MAX;

/// Calls NULL of NFSv3. A server that closes the connection answers too: no export admits this machine.
///
/// # Errors
/// There is no answer within [`MONITOR_MAX`].
pub(crate) fn answers_null(address: SocketAddr) -> Result<(), String> {
    call_null(address).map_err(|error| format!("the server does not answer at {address}: {error}"))
}

fn call_null(address: SocketAddr) -> io::Result<()> {
    let mut stream = TcpStream::connect_timeout(&address, MONITOR_MAX)?;
    stream.set_read_timeout(Some(MONITOR_MAX))?;
    let header = CallHeader {
        xid: std::process::id(),
        program: nfs3::PROGRAM,
        version: nfs3::VERSION,
        procedure: 0,
        credential: Credential::None,
        verifier: OpaqueAuth::NONE,
    };
    let mut call = Vec::new();
    write_record(&mut call, |out| header.encode(out));
    let mut reply = [0; 128];
    let length = match io::Write::write_all(&mut stream, &call).and_then(|()| stream.read(&mut reply)) {
        Ok(length) => length,
        Err(error) if is_refusal(&error) => 0,
        Err(error) => return Err(error),
    };
    if length == 0 {
        return Ok(());
    }
    let body = reply.get(MARK_BYTES..length).unwrap_or_default();
    let header = ReplyHeader::decode(&mut Decoder::new(body)).map_err(io::Error::other)?;
    if header.is_success() { Ok(()) } else { Err(io::Error::other("it denied the call")) }
}

fn is_refusal(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe)
}
