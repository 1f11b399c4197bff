//! The heads of requests of administrators.

use http_request::{CONTENT_BYTES_MAX, FIELDS_MAX, HEAD_BYTES_MAX, Refusal, parse_head};

use super::Kind;

pub(super) fn seeds() -> Vec<Vec<u8>> {
    [
        "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "GET /v1/events?after=7&limit=%31+0 HTTP/1.1\r\nAuthorization: Bearer hf_00\r\nConnection: close\r\n\r\n",
        "POST /v1/tokens HTTP/1.1\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n{}",
        "DELETE /v1/tokens/a%20b HTTP/1.0\r\nIf-Match: \"0123456789abcdef\", *\r\n\r\n",
        "PUT /%c3%a4//x HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n",
        "GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    ]
    .map(|text| text.as_bytes().to_vec())
    .to_vec()
}

/// A head is within its limits, does not depend on what follows it, and is not taken for complete before it is.
pub(super) fn run(bytes: &[u8]) -> Kind {
    match parse_head(bytes) {
        Ok(Some(head)) => {
            assert!(head.bytes <= bytes.len().min(HEAD_BYTES_MAX), "a head is within what arrived");
            assert!(head.content_bytes <= CONTENT_BYTES_MAX && head.request.content.is_empty());
            assert!(head.request.fields.len() <= FIELDS_MAX);
            assert_eq!(parse_head(&bytes[..head.bytes]), Ok(Some(head.clone())), "what follows is not looked at");
            for length in [0, head.bytes / 2, head.bytes - 1] {
                assert_eq!(parse_head(&bytes[..length]), Ok(None), "a part of a head is no head");
            }
            let request = &head.request;
            Kind::of((request.path.len(), request.query.len(), request.fields.len(), head.keeps_alive))
        }
        Ok(None) => {
            assert!(bytes.len() < HEAD_BYTES_MAX, "nobody waits for more");
            Kind::of(bytes.len().min(64))
        }
        Err(Refusal { status, sentence }) => {
            assert!((400..600).contains(&status), "a refusal has a status of one");
            Kind::of(sentence)
        }
    }
}
