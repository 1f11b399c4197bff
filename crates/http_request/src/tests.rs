//! Heads of requests, good and bad.

use super::*;

#[test]
fn fields_that_are_not_plain_ascii_are_refused() {
    for field in [
        &b"Content-Length: 36\xa0"[..],
        b"Transfer-Encoding: chunked\xff",
        "Content-Length: 3\u{a0}".as_bytes(),
        b"X: \xff",
    ] {
        let head = [b"PUT / HTTP/1.1\r\n", field, b"\r\n\r\n"].concat();
        assert_eq!(parse_head(&head).err().map(|refusal| refusal.status), Some(400), "{field:?}");
    }
    assert_eq!(refused("PUT / HTTP/1.1\r\nContent-Length: \t3 \t\r\n\r\n"), None);
}

/// Returns the status with which a head is refused; none if it is accepted or incomplete.
fn refused(head: &str) -> Option<u16> {
    parse_head(head.as_bytes()).err().map(|refusal| refusal.status)
}

#[test]
fn a_malformed_field_is_named_if_the_request_line_is_good() {
    let sentence =
        |head: &str| parse_head(head.as_bytes()).err().map(|refusal| (refusal.status, refusal.sentence));
    for fields in [
        "If-Match: \"a\"\r\r\n",
        "If-Match: \"a\"\r \r\n",
        "If-Match: \0\r\n",
        "If Match: a\r\n",
        ": a\r\n",
        " a\r\n",
    ] {
        assert_eq!(
            sentence(&format!("POST /v1/exports/reload HTTP/1.1\r\nHost: a\r\n{fields}\r\n")),
            Some((400, "a header field of the request is malformed")),
            "{fields:?}"
        );
    }
    for line in ["\x16\x03\x01", "POST", "POST /\r", "POST / HTTP/1.1\rx", "P\0ST / HTTP/1.1"] {
        let head = format!("{line}\r\nHost: a\r\n\r\n");
        assert_eq!(sentence(&head), Some((400, "the request is not HTTP")), "{line:?}");
    }
}

#[test]
fn heads_beyond_the_limits_are_refused() {
    assert_eq!(refused("GET / HTTP/1.1\r\n\r\n"), None);
    assert_eq!(refused("GET / HTTP/2.0\r\n\r\n"), Some(505));
    assert_eq!(refused("GET http://host/ HTTP/1.1\r\n\r\n"), Some(400));
    assert_eq!(refused("* / HTTP/1.1\r\n\r\n \0"), None);
    assert_eq!(refused("G\0T / HTTP/1.1\r\n\r\n"), Some(400));
    assert_eq!(refused("GET /%ff HTTP/1.1\r\n\r\n"), Some(400));
    assert_eq!(refused("PUT / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"), Some(501));
    assert_eq!(refused("PUT / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n"), Some(400));
    assert_eq!(refused("PUT / HTTP/1.1\r\nContent-Length: +1\r\n\r\n"), Some(400));
    assert_eq!(
        refused(&format!("PUT / HTTP/1.1\r\nContent-Length: {}\r\n\r\n", CONTENT_BYTES_MAX + 1)),
        Some(413)
    );
    assert_eq!(refused(&format!("PUT / HTTP/1.1\r\nContent-Length: {}0\r\n\r\n", u64::MAX)), Some(413));
    assert_eq!(refused(&format!("GET /{} HTTP/1.1\r\n\r\n", "a".repeat(HEAD_BYTES_MAX))), Some(431));
    assert_eq!(refused(&format!("GET /{}", "a".repeat(HEAD_BYTES_MAX))), Some(431));
    let fields: String = (0..=FIELDS_MAX).map(|number| format!("a{number}: b\r\n")).collect();
    assert_eq!(refused(&format!("GET / HTTP/1.1\r\n{fields}\r\n")), Some(431));
}

#[test]
fn a_head_may_arrive_byte_by_byte() {
    let whole = b"GET /a?b=c HTTP/1.1\r\nAccept: x\r\n\r\n";
    for length in 0..whole.len() {
        assert_eq!(parse_head(&whole[..length]), Ok(None), "{length}");
    }
    let head = parse_head(whole).unwrap().unwrap();
    assert_eq!(
        (head.bytes, head.request.field("accept"), head.request.parameter("b")),
        (whole.len(), Some("x"), Some("c"))
    );
}
