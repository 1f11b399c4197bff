//! Responses.

use std::io::{self, Write};
use std::sync::Arc;

use serde_json::json;

/// Content up to this length, in bytes, is sent in one piece with the head.
pub(super) const SMALL_BYTES: usize = 16 << 10;

/// A response.
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) content_type: &'static str,
    /// Further fields.
    pub(crate) fields: Vec<(&'static str, String)>,
    pub(crate) body: Body,
}

/// The content of a response.
pub(crate) enum Body {
    /// All of it.
    Bytes(Vec<u8>),
    /// Pieces, sent as the iterator returns them; the connection is closed after the last.
    Stream(Box<dyn Iterator<Item = Arc<[u8]>> + Send>),
}

impl Response {
    /// Returns a response with content.
    pub(crate) fn new(status: u16, content_type: &'static str, content: impl Into<Vec<u8>>) -> Response {
        Response { status, content_type, fields: Vec::new(), body: Body::Bytes(content.into()) }
    }

    /// Returns a response of problem details (RFC 9457): `sentence` says what is wrong and what to do.
    pub(crate) fn problem(status: u16, sentence: &str) -> Response {
        let problem = json!({ "status": status, "title": reason(status), "detail": sentence });
        Response::new(status, "application/problem+json", problem.to_string())
    }

    /// Returns the bytes of the content. A stream has its own limits.
    pub(super) fn content_bytes(&self) -> usize {
        match &self.body {
            Body::Bytes(bytes) => bytes.len(),
            Body::Stream(_) => 0,
        }
    }

    /// Adds a field.
    pub(crate) fn with(mut self, name: &'static str, value: impl Into<String>) -> Response {
        self.fields.push((name, value.into()));
        self
    }

    /// Sends the response, without its content if `is_head_only`. Returns whether another request may follow.
    pub(super) fn send(self, out: &mut dyn Write, is_head_only: bool, keeps_alive: bool) -> io::Result<bool> {
        let keeps_alive = keeps_alive && matches!(self.body, Body::Bytes(_));
        let mut head = format!("HTTP/1.1 {} {}\r\n", self.status, reason(self.status)).into_bytes();
        if !self.content_type.is_empty() {
            write!(head, "Content-Type: {}\r\n", self.content_type)?;
        }
        // Browsers must not guess another content type, and nothing may cache the content.
        head.extend_from_slice(b"X-Content-Type-Options: nosniff\r\nCache-Control: no-store\r\n");
        for (name, value) in &self.fields {
            write!(head, "{name}: {value}\r\n")?;
        }
        if !keeps_alive {
            head.extend_from_slice(b"Connection: close\r\n");
        }
        match self.body {
            Body::Bytes(bytes) => {
                write!(head, "Content-Length: {}\r\n", bytes.len())?;
                head.extend_from_slice(b"\r\n");
                let mut rest = if is_head_only { &[][..] } else { &*bytes };
                if rest.len() <= SMALL_BYTES {
                    head.extend_from_slice(std::mem::take(&mut rest));
                }
                out.write_all(&head)?;
                out.write_all(rest)?;
            }
            Body::Stream(pieces) => {
                head.extend_from_slice(b"\r\n");
                out.write_all(&head)?;
                for piece in pieces.take_while(|_| !is_head_only) {
                    out.write_all(&piece)?;
                    out.flush()?;
                }
            }
        }
        out.flush()?;
        Ok(keeps_alive)
    }
}

/// Returns the reason phrase of the status codes in use (RFC 9110 section 15).
fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        201 => "Created",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        409 => "Conflict",
        412 => "Precondition Failed",
        413 => "Content Too Large",
        422 => "Unprocessable Content",
        431 => "Request Header Fields Too Large",
        501 => "Not Implemented",
        503 => "Service Unavailable",
        505 => "HTTP Version Not Supported",
        _ => "Internal Server Error",
    }
}
