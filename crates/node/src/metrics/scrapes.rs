//! Answers Prometheus over HTTP. One connection at a time: a scrape takes a moment, and only programs of this machine reach the
//! address.

use std::io::{self, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use http_request::{Refusal, parse_head};

/// How long a request and its answer may take.
const SCRAPE_MAX: Duration = Duration::from_secs(2);

/// How long to wait after a connection could not be accepted.
const PAUSE: Duration = Duration::from_millis(100);

/// Answers every request for `/metrics` with what `text` returns.
pub(crate) fn answer(listener: &TcpListener, text: impl Fn() -> String) {
    for stream in listener.incoming() {
        match stream {
            // Whoever has gone, or takes too long, needs no answer.
            Ok(mut stream) => drop(answer_one(&mut stream, &text)),
            Err(error) => {
                eprintln!("holdfast: cannot accept a scrape: {error}");
                std::thread::sleep(PAUSE);
            }
        }
    }
}

fn answer_one(stream: &mut TcpStream, text: impl Fn() -> String) -> io::Result<()> {
    let end = Instant::now() + SCRAPE_MAX;
    let left = || Some(end.saturating_duration_since(Instant::now()).max(Duration::from_millis(1)));
    let mut bytes = Vec::new();
    let asked = loop {
        match parse_head(&bytes) {
            Ok(Some(head)) => break Ok(head.request),
            Err(refusal) => break Err(refusal),
            Ok(None) if Instant::now() > end => return Err(io::ErrorKind::TimedOut.into()),
            Ok(None) => {}
        }
        stream.set_read_timeout(left())?;
        let mut part = [0; 4096];
        match stream.read(&mut part)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            length => bytes.extend_from_slice(&part[..length]),
        }
    };
    let asked = asked.and_then(|request| match (&*request.method, request.path.as_slice()) {
        ("GET", [path]) if path == "metrics" => Ok(()),
        ("GET", _) => Err(Refusal { status: 404, sentence: "there is only /metrics" }),
        _ => Err(Refusal { status: 405, sentence: "only GET is supported" }),
    });
    let (status, body) = match asked {
        Ok(()) => (200, text()),
        Err(Refusal { status, sentence }) => (status, format!("{sentence}\n")),
    };
    stream.set_write_timeout(left())?;
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status} \r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: {length}\r\n\
         Connection: close\r\n\r\n"
    );
    stream.write_all((head + &body).as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends bytes, and returns the answer.
    fn ask(request: &[u8]) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        // Ends with the test's process.
        std::thread::spawn(move || answer(&listener, || "some 1\n".to_owned()));
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(request).unwrap();
        let mut said = String::new();
        // What is cut off was answered, or not worth an answer.
        let _ = stream.read_to_string(&mut said);
        said
    }

    #[test]
    fn requests_for_metrics_are_answered_and_others_refused() {
        let said = ask(b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n");
        assert!(said.starts_with("HTTP/1.1 200 ") && said.ends_with("\r\n\r\nsome 1\n"), "{said}");
        assert!(said.contains("Content-Length: 7\r\n"), "{said}");
        for (request, status) in [
            (&b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"[..], "404"),
            (b"POST /metrics HTTP/1.1\r\nHost: a\r\n\r\n", "405"),
            (b"\x16\x03\x01 nonsense\r\n\r\n", "400"),
        ] {
            let said = ask(request);
            assert!(said.starts_with(&format!("HTTP/1.1 {status} ")), "{said}");
        }
        assert_eq!(ask(b"GET /metrics"), "", "who does not go on is not waited for");
    }
}
