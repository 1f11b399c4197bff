//! Requests of HTTP/1.1 (RFC 9110, RFC 9112): their heads, parsed from bytes that anybody may have sent. No I/O.

use percent_encoding::percent_decode_str;

/// The longest head of a request: request line and fields, bytes.
pub const HEAD_BYTES_MAX: usize = 16 << 10;

/// Most fields of a request.
pub const FIELDS_MAX: usize = 64;

/// The longest content of a request, bytes. Each resource may take less.
pub const CONTENT_BYTES_MAX: usize = 16 << 10;

/// A request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The method, as sent: methods are case-sensitive (RFC 9110 section 9.1).
    pub method: String,
    /// The segments of the path, decoded. `/` has none.
    pub path: Vec<String>,
    /// The parameters of the query, decoded, in their order.
    pub query: Vec<(String, String)>,
    /// The fields, with names in lower case.
    pub fields: Vec<(String, String)>,
    /// The content.
    pub content: Vec<u8>,
}

/// The head of a request, and what is known by it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// The request, without its content.
    pub request: Request,
    /// Bytes of the head.
    pub bytes: usize,
    /// Bytes of content that follow.
    pub content_bytes: usize,
    /// Whether the peer waits for `100 Continue` before it sends the content.
    pub expects_continue: bool,
    /// Whether the connection stays open after the reply.
    pub keeps_alive: bool,
}

/// Why a request is refused before it is interpreted: a status and a sentence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The status code.
    pub status: u16,
    /// What is wrong.
    pub sentence: &'static str,
}

const fn refused(status: u16, sentence: &'static str) -> Refusal {
    Refusal { status, sentence }
}

impl Request {
    /// Returns the value of a field, by its name in lower case; the first, if it was sent more than once.
    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(field, _)| field == name).map(|(_, value)| value.as_str())
    }

    /// Returns a parameter of the query.
    pub fn parameter(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(parameter, _)| parameter == name).map(|(_, value)| value.as_str())
    }
}

/// Parses the head of a request. Returns `None` if `bytes` do not hold all of it yet.
///
/// # Errors
/// It is malformed, too long, or needs what is not supported; the connection must then be closed.
pub fn parse_head(bytes: &[u8]) -> Result<Option<Head>, Refusal> {
    let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
    let mut parsed = httparse::Request::new(&mut fields);
    let length = match parsed.parse(bytes) {
        Ok(httparse::Status::Complete(length)) if length <= HEAD_BYTES_MAX => length,
        Ok(httparse::Status::Partial) if bytes.len() < HEAD_BYTES_MAX => return Ok(None),
        Ok(_) => return Err(refused(431, "the head of the request is too long")),
        Err(httparse::Error::TooManyHeaders) => return Err(refused(431, "the request has too many fields")),
        Err(httparse::Error::Version) => {
            return Err(refused(505, "only HTTP/1.0 and HTTP/1.1 are supported"));
        }
        Err(httparse::Error::HeaderName | httparse::Error::HeaderValue) => {
            return Err(refused(400, "a header field of the request is malformed"));
        }
        Err(_) => return Err(refused(400, "the request is not HTTP")),
    };
    let (Some(method), Some(target), Some(version)) = (parsed.method, parsed.path, parsed.version) else {
        return Err(refused(400, "the request is not HTTP"));
    };
    let (path, query) = parse_target(target)?;
    let mut request =
        Request { method: method.to_owned(), path, query, fields: Vec::new(), content: Vec::new() };
    for field in parsed.headers.iter() {
        let value = plain(field.value).ok_or(refused(400, "a field of the request is not plain ASCII"))?;
        request.fields.push((field.name.to_ascii_lowercase(), value.to_owned()));
    }
    let asks = |field: &str, wanted: &str| {
        request
            .field(field)
            .is_some_and(|value| value.split(',').any(|word| word.trim().eq_ignore_ascii_case(wanted)))
    };
    let keeps_alive = version == 1 && !asks("connection", "close");
    let expects_continue = version == 1 && asks("expect", "100-continue");
    let content_bytes = content_bytes(&request)?;
    Ok(Some(Head { request, bytes: length, content_bytes, expects_continue, keeps_alive }))
}

/// Returns the value of a field, if it is visible ASCII, spaces and tabs. Some fields allow other bytes, but a
/// proxy might find a length in what we ignore.
fn plain(value: &[u8]) -> Option<&str> {
    let is_plain = value.iter().all(|byte| matches!(byte, b'\t' | b' '..=b'~'));
    std::str::from_utf8(value).ok().filter(|_| is_plain).map(str::trim)
}

/// Returns the length of the content. Two different lengths, or a length beside a transfer coding, are how requests are
/// smuggled past others (RFC 9112 section 6.3).
fn content_bytes(request: &Request) -> Result<usize, Refusal> {
    if request.field("transfer-encoding").is_some() {
        return Err(refused(501, "transfer codings are not supported: send Content-Length"));
    }
    let mut lengths =
        request.fields.iter().filter(|(name, _)| name == "content-length").map(|(_, value)| value);
    let Some(length) = lengths.next() else { return Ok(0) };
    if lengths.any(|other| other != length) || !length.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(refused(400, "the request has no valid Content-Length"));
    }
    match length.parse() {
        Ok(bytes) if bytes <= CONTENT_BYTES_MAX => Ok(bytes),
        _ => Err(refused(413, "the content of the request is too long")),
    }
}

type Target = (Vec<String>, Vec<(String, String)>);

/// Splits a request target in origin form (RFC 9112 section 3.2.1).
fn parse_target(target: &str) -> Result<Target, Refusal> {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let Some(path) = path.strip_prefix('/') else {
        return Err(refused(400, "the target of the request is not a path"));
    };
    let segments = path.split('/').filter(|segment| !segment.is_empty()).map(decode);
    let pairs = query.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        Ok((decode(&name.replace('+', " "))?, decode(&value.replace('+', " "))?))
    });
    Ok((segments.collect::<Result<_, _>>()?, pairs.collect::<Result<_, _>>()?))
}

fn decode(text: &str) -> Result<String, Refusal> {
    let decoded = percent_decode_str(text).decode_utf8();
    decoded.map(|text| text.into_owned()).map_err(|_| refused(400, "the target of the request is not UTF-8"))
}

#[cfg(test)]
mod tests;
