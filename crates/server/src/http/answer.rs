//! The requests of one connection, one after the other.

use std::io;
use std::sync::atomic::Ordering;

use super::connection::{Connection, Peer};
use super::listener::Shared;
use super::response::Response;
use super::{Body, IDLE_MAX, LINGER_MAX, REFUSALS_MAX, REPLY_MAX, REQUEST_MAX, Verdict};
use http_request::{HEAD_BYTES_MAX, Head, Refusal, Request, parse_head};

/// Bytes that are read at once.
const READ_BYTES: usize = 4096;

impl Shared {
    /// Answers the requests of a connection until it is closed, idle for too long, refused too often, or the listener stops.
    pub(super) fn answer_all(&self, socket: &mut dyn Connection, peer: Peer, number: u64) -> io::Result<()> {
        let (mut received, mut refusals) = (Vec::new(), 0);
        while refusals < REFUSALS_MAX {
            let head = match read_head(socket, &mut received) {
                Ok(Some(Ok(head))) => head,
                Ok(Some(Err(refusal))) => {
                    return send_last(socket, Response::problem(refusal.status, refusal.sentence));
                }
                Ok(None) => return Ok(()),
                Err(error) => return late(socket, &received, error),
            };
            let is_head_only = head.request.method == "HEAD";
            let Verdict { is_known, admitted } = self.handler.judge(&head.request, peer);
            self.connections.note_caller(number, is_known);
            let response = match admitted {
                Ok(bytes_max) if head.content_bytes <= bytes_max => {
                    let content = match read_content(socket, &mut received, &head) {
                        Ok(content) => content,
                        Err(error) => return late(socket, &received, error),
                    };
                    self.connections.set_busy(number);
                    self.handler.handle(&Request { content, ..head.request }, peer)
                }
                refused => {
                    let too_long =
                        |_| Response::problem(413, "the content is longer than this resource takes");
                    let response = refused.map_or_else(|response| response, too_long);
                    if head.content_bytes > 0 {
                        send_last(socket, response)?;
                        return throw_away(socket, head.content_bytes.saturating_sub(received.len()));
                    }
                    response
                }
            };
            // A caller without a token costs a thread and a line of the log whatever it is answered.
            refusals += usize::from(!is_known || matches!(response.status, 401 | 403));
            let response = self.within_streams(response, number);
            // A peer that does not read its response must not keep others out. Streams have a limit of their own.
            if !matches!(response.body, Body::Stream(_)) {
                self.connections.begin_reply(number, response.content_bytes());
            }
            let stays = head.keeps_alive && refusals < REFUSALS_MAX && !self.stop.load(Ordering::Acquire);
            socket.allow(REPLY_MAX);
            if !response.send(&mut Patient(socket), is_head_only, stays)? {
                return Ok(());
            }
            self.connections.end_reply(number);
        }
        Ok(())
    }

    /// Refuses a stream if there are too many: requests that end need places too.
    fn within_streams(&self, response: Response, number: u64) -> Response {
        if matches!(response.body, Body::Stream(_)) && !self.connections.begin_stream(number) {
            return Response::problem(503, "there are too many streams: close others, or poll instead");
        }
        response
    }
}

/// Sends a response after which the connection is closed.
fn send_last(socket: &mut dyn Connection, response: Response) -> io::Result<()> {
    socket.allow(REPLY_MAX);
    response.send(&mut *socket, false, false).map(drop)
}

/// Ends a connection on which a request did not arrive. If a part of it did, the peer is told.
fn late(socket: &mut dyn Connection, received: &[u8], error: io::Error) -> io::Result<()> {
    if error.kind() != io::ErrorKind::TimedOut || received.is_empty() {
        return Err(error);
    }
    send_last(socket, Response::problem(408, "the request did not arrive in time"))
}

/// Throws away content that is on its way: the reply could be lost if the connection were closed before it has arrived.
fn throw_away(socket: &mut dyn Connection, mut left: usize) -> io::Result<()> {
    socket.allow(LINGER_MAX);
    socket.expect(left);
    let mut bytes = [0; READ_BYTES];
    while left > 0 {
        match socket.read(&mut bytes)? {
            0 => break,
            count => left = left.saturating_sub(count),
        }
    }
    Ok(())
}

/// Gives each write its own time, since a stream may last for days.
struct Patient<'a>(&'a mut dyn Connection);

impl io::Write for Patient<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.allow(REPLY_MAX);
        self.0.flush()
    }
}

/// Decides when to parse what has arrived of a head: once it has an empty line, or is twice as long as it was the last time. A
/// head that came a byte at a time, and was parsed as often, would cost more than anything else that a caller without a token can send.
#[derive(Default)]
struct HeadSearch {
    /// Bytes that were searched, and that were parsed.
    searched: usize,
    parsed: usize,
}

impl HeadSearch {
    fn is_worth_parsing(&mut self, received: &[u8]) -> bool {
        let new = received.get(self.searched.saturating_sub(b"\n\r".len())..).unwrap_or_default();
        let is_empty_line = |at: usize| matches!(new.get(at + 1..), Some([b'\n', ..] | [b'\r', b'\n', ..]));
        let has_end = new.iter().enumerate().any(|(at, byte)| *byte == b'\n' && is_empty_line(at));
        self.searched = received.len();
        let is_worth = has_end || received.len() >= HEAD_BYTES_MAX.min(2 * self.parsed);
        if is_worth {
            self.parsed = received.len();
        }
        is_worth
    }
}

/// Reads until `received` holds a head, and removes it from there. Returns `None` if the peer closed the connection between
/// requests.
fn read_head(
    socket: &mut dyn Connection,
    received: &mut Vec<u8>,
) -> io::Result<Option<Result<Head, Refusal>>> {
    let mut has_begun = !received.is_empty();
    let mut search = HeadSearch::default();
    socket.allow(if has_begun { REQUEST_MAX } else { IDLE_MAX });
    socket.expect(HEAD_BYTES_MAX);
    loop {
        if has_begun && search.is_worth_parsing(received) {
            match parse_head(received) {
                Ok(None) => {}
                Ok(Some(head)) => {
                    received.drain(..head.bytes);
                    return Ok(Some(Ok(head)));
                }
                Err(refusal) => return Ok(Some(Err(refusal))),
            }
        }
        if read_some(socket, received)? == 0 {
            return Ok(None);
        }
        if !has_begun {
            has_begun = true;
            socket.allow(REQUEST_MAX);
        }
    }
}

/// Reads the content of a request, within the time of the request.
fn read_content(socket: &mut dyn Connection, received: &mut Vec<u8>, head: &Head) -> io::Result<Vec<u8>> {
    if head.expects_continue && received.len() < head.content_bytes {
        socket.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
    }
    socket.expect(head.content_bytes.saturating_sub(received.len()));
    while received.len() < head.content_bytes {
        if read_some(socket, received)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    let rest = received.split_off(head.content_bytes);
    Ok(std::mem::replace(received, rest))
}

fn read_some(socket: &mut dyn Connection, received: &mut Vec<u8>) -> io::Result<usize> {
    let mut bytes = [0; READ_BYTES];
    let count = socket.read(&mut bytes)?;
    received.extend_from_slice(&bytes[..count]);
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_that_comes_a_byte_at_a_time_is_parsed_a_few_times() {
        for end in ["\n\n", "\n\r\n", "\r\n\r\n"] {
            let line = format!("GET / HTTP/1.1\nname: {}", "value ".repeat(HEAD_BYTES_MAX / 8));
            let head = [line.as_bytes(), end.as_bytes()].concat();
            let mut search = HeadSearch::default();
            let parsed: Vec<usize> =
                (1..=head.len()).filter(|length| search.is_worth_parsing(&head[..*length])).collect();
            assert!(parsed.len() < 20, "{parsed:?}");
            assert_eq!(parsed.last(), Some(&head.len()));
        }
    }
}
