//! A client that makes one request over the socket of a server on this machine.

use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use super::FIELDS_MAX;

/// How long the server may take to answer, which normally takes milliseconds.
const PATIENCE: Duration = Duration::from_secs(30);

/// The longest reply, bytes.
const REPLY_BYTES_MAX: u64 = 64 << 20;

/// A reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The status code.
    pub status: u16,
    /// The fields, with names in lower case.
    pub fields: Vec<(String, String)>,
    /// The content.
    pub content: Vec<u8>,
}

/// Sends a request and returns the reply. `fields` are further fields.
///
/// # Errors
/// The server does not run, does not answer in time, or what it sends is no reply.
pub fn request(
    socket: &Path,
    method: &str,
    target: &str,
    fields: &[(&str, &str)],
    content: &[u8],
) -> io::Result<Reply> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut head = format!("{method} {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n");
    for (name, value) in fields {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str(&format!("Content-Length: {}\r\n\r\n", content.len()));
    stream.write_all(&[head.as_bytes(), content].concat())?;
    let mut received = Vec::new();
    stream.take(REPLY_BYTES_MAX).read_to_end(&mut received)?;
    parse(&received)
}

fn parse(received: &[u8]) -> io::Result<Reply> {
    let invalid = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
    let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
    let mut parsed = httparse::Response::new(&mut fields);
    let status = parsed.parse(received).map_err(|error| invalid(&error.to_string()))?;
    let (httparse::Status::Complete(length), Some(code)) = (status, parsed.code) else {
        return Err(invalid("the reply is incomplete"));
    };
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let fields: Vec<_> =
        parsed.headers.iter().map(|field| (field.name.to_ascii_lowercase(), text(field.value))).collect();
    let announced =
        fields.iter().find(|(name, _)| name == "content-length").and_then(|(_, value)| value.parse().ok());
    let content = received[length..].to_vec();
    if announced.is_some_and(|bytes: usize| bytes != content.len()) {
        return Err(invalid("the reply is incomplete"));
    }
    Ok(Reply { status: code, fields, content })
}
