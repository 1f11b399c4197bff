//! Requests over sockets, whole and slow, polite and not.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

use super::connection::Timed;
use super::connections::{Connections, TRUST_MAX, TRUSTED_MAX, YOUNG_MAX};
use super::handshakes::Handshakes;
use super::tls::Tls;
use super::{
    Body, CONNECTIONS_MAX, CONNECTIONS_PER_PEER_MAX, CONTENT_BYTES_MAX, HEAD_BYTES_MAX, Handler, Listener,
    Peer, REFUSALS_MAX, REQUEST_MAX, Response, STREAMS_MAX, STREAMS_PER_PEER_MAX, Socket, Verdict, client,
};
use crate::limits::LONG_NICENESS;
use http_request::Request;

/// Answers what it was asked; `/live` with two pieces, `/large` with more than sockets take, `/niceness` with that of the thread.
/// `/secret` needs a token, `/small` takes ten bytes of content.
struct Echo;

/// An address that is not admitted.
const STRANGER: [u8; 4] = [127, 0, 0, 66];

impl Handler for Echo {
    fn admits(&self, peer: Peer) -> bool {
        peer.address() != Some(STRANGER.into())
    }

    fn judge(&self, head: &Request, _: Peer) -> Verdict {
        let is_known = head.field("authorization").is_some();
        let admitted = match head.path.first().map(String::as_str) {
            Some("secret") if !is_known => Err(Response::problem(401, "no token")),
            Some("small") => Ok(10),
            _ => Ok(CONTENT_BYTES_MAX),
        };
        Verdict { is_known, admitted }
    }

    fn handle(&self, request: &Request, peer: Peer) -> Response {
        if request.path == ["live"] {
            let pieces = [b"one", b"two"].map(|piece| Arc::from(&piece[..]));
            return Response {
                body: Body::Stream(Box::new(pieces.into_iter())),
                ..Response::new(200, "text/plain", "")
            };
        }
        if request.path == ["niceness"] {
            return Response::new(200, "text/plain", niceness().to_string());
        }
        if request.path == ["large"] {
            return Response::new(200, "text/plain", vec![b'x'; 32 << 20]);
        }
        let text = format!("{} {:?} {:?} {peer}", request.method, request.path, request.query);
        Response::new(200, "text/plain", [text.as_bytes(), b"|", &request.content].concat())
    }
}

/// Returns how nice this thread is.
fn niceness() -> i32 {
    rustix::process::getpriority_process(None).unwrap()
}

fn serve() -> (Listener, std::net::SocketAddr) {
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    (Listener::start(Socket::Tcp(socket, None), Arc::new(Echo)).unwrap(), address)
}

fn exchange(address: std::net::SocketAddr, sent: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(sent).unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    reply
}

#[test]
fn requests_of_one_connection_are_answered_in_order() {
    let (listener, address) = serve();
    let reply = exchange(
        address,
        b"POST /v1/a%20b?x=1&y=%C3%A4 HTTP/1.1\r\nContent-Length: 3\r\n\r\nabcGET /two HTTP/1.1\r\nConnection: close\r\n\r\n",
    );
    assert!(reply.starts_with("HTTP/1.1 200 OK\r\n"), "{reply}");
    assert!(reply.contains(r#"POST ["v1", "a b"] [("x", "1"), ("y", "ä")]"#), "{reply}");
    assert!(reply.contains("|abcHTTP/1.1 200 OK"), "{reply}");
    assert!(reply.contains(r#"GET ["two"]"#) && reply.contains("Connection: close"), "{reply}");
    listener.stop();
}

#[test]
fn a_reply_to_head_has_no_content() {
    let (listener, address) = serve();
    let reply = exchange(address, b"HEAD / HTTP/1.0\r\n\r\n");
    assert!(reply.contains("Content-Length: ") && reply.ends_with("\r\n\r\n"), "{reply}");
    listener.stop();
}

#[test]
fn a_stream_ends_with_its_connection() {
    let (listener, address) = serve();
    let reply = exchange(address, b"GET /live HTTP/1.1\r\n\r\n");
    assert!(reply.ends_with("\r\n\r\nonetwo") && !reply.contains("Content-Length"), "{reply}");
    listener.stop();
}

#[test]
fn a_peer_that_waits_for_it_is_told_to_continue() {
    let (listener, address) = serve();
    let mut stream = TcpStream::connect(address).unwrap();
    stream
        .write_all(
            b"PUT / HTTP/1.1\r\nContent-Length: 1\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n",
        )
        .unwrap();
    let mut interim = [0; 25];
    stream.read_exact(&mut interim).unwrap();
    assert_eq!(&interim, b"HTTP/1.1 100 Continue\r\n\r\n");
    stream.write_all(b"x").unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    assert!(reply.ends_with("|x"), "{reply}");
    listener.stop();
}

#[test]
fn the_idlest_connection_of_an_address_gives_way() {
    let (listener, address) = serve();
    let connect = || TcpStream::connect(address).unwrap();
    let mut idle: Vec<_> = (0..CONNECTIONS_PER_PEER_MAX).map(|_| connect()).collect();
    // Connections are accepted, and counted, in order.
    let mut last = connect();
    last.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    last.read_exact(&mut [0]).unwrap();
    let (mut first, mut second) = (idle.remove(0), idle.remove(0));
    let mut rest = Vec::new();
    first.read_to_end(&mut rest).unwrap();
    second.write_all(b"GET /again HTTP/1.1\r\nConnection: close\r\n\r\n").unwrap();
    second.read_to_end(&mut rest).unwrap();
    assert!(String::from_utf8(rest).unwrap().contains("again"));
    listener.stop();
}

#[test]
fn connections_whose_requests_do_not_arrive_give_way() {
    let (listener, address) = serve();
    let late: Vec<_> = (0..CONNECTIONS_PER_PEER_MAX)
        .map(|_| {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.write_all(b"PUT / HTTP/1.1\r\nContent-Length: 9\r\nExpect: 100-continue\r\n\r\n").unwrap();
            stream.read_exact(&mut [0; 25]).unwrap();
            stream
        })
        .collect();
    let reply = exchange(address, b"GET /other HTTP/1.1\r\nConnection: close\r\n\r\n");
    assert!(reply.contains("other"), "{reply}");
    drop(late);
    listener.stop();
}

#[test]
fn peers_that_take_no_reply_or_send_no_content_give_way() {
    for request in ["GET /large HTTP/1.1\r\n\r\n", "POST /secret HTTP/1.1\r\nContent-Length: 16000\r\n\r\n"] {
        let (listener, address) = serve();
        let mut slow: Vec<_> = (0..CONNECTIONS_PER_PEER_MAX)
            .map(|_| {
                let mut stream = TcpStream::connect(address).unwrap();
                stream.write_all(request.as_bytes()).unwrap();
                stream
            })
            .collect();
        // All of them are being answered, or have given way to others already.
        slow.iter_mut().for_each(|stream| drop(stream.read(&mut [0])));
        let reply = exchange(address, b"GET / HTTP/1.1\r\nConnection: close\r\n\r\n");
        assert!(reply.starts_with("HTTP/1.1 200"), "{request}: {reply}");
        drop(slow);
        listener.stop();
    }
}

#[test]
fn connections_that_are_being_answered_do_not_give_way() {
    let (connections, address) = (Connections::default(), Some("192.0.2.1".parse().unwrap()));
    let stream = || Box::new(std::os::unix::net::UnixStream::pair().unwrap().0);
    let numbers: Vec<u64> =
        (0..CONNECTIONS_PER_PEER_MAX).map(|_| connections.add(address, stream()).unwrap()).collect();
    numbers.iter().for_each(|number| connections.set_busy(*number));
    assert!(connections.add(address, stream()).is_none());
    assert!(
        connections.add(Some("192.0.2.2".parse().unwrap()), stream()).is_some(),
        "another host has its share"
    );
    connections.remove(numbers[0]);
    assert!(connections.add(address, stream()).is_some());
}

/// Returns the certificate of these tests.
fn certificate() -> Tls {
    let folder = Path::new("src/http/tests");
    Tls::read(&folder.join("certificate.pem"), &folder.join("key.pem")).unwrap()
}

fn serve_encrypted() -> (Listener, std::net::SocketAddr) {
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    (Listener::start(Socket::Tcp(socket, Some(certificate())), Arc::new(Echo)).unwrap(), address)
}

/// Encrypts a connection to a server with the certificate of these tests.
fn encrypted<T: Read + Write>(socket: T) -> rustls::StreamOwned<rustls::ClientConnection, T> {
    let name = "localhost".try_into().unwrap();
    let session = rustls::ClientConnection::new(Arc::new(trusting_client()), name).unwrap();
    rustls::StreamOwned::new(session, socket)
}

/// A client that trusts the certificate of these tests alone.
fn trusting_client() -> rustls::ClientConfig {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(include_bytes!("tests/certificate.pem")).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth()
}

#[test]
fn of_large_replies_that_hold_too_much_those_taken_slowly_give_way() {
    let (listener, address) = serve();
    let ask = || {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(b"GET /large HTTP/1.1\r\nConnection: close\r\n\r\n").unwrap();
        stream.read_exact(&mut [0]).unwrap();
        stream
    };
    let (mut slow, mut prompt) = (ask(), ask());
    let (mut whole, mut part) = (Vec::new(), Vec::new());
    prompt.read_to_end(&mut whole).unwrap();
    assert!(whole.len() > 32 << 20, "{}", whole.len());
    let _cut_off = slow.read_to_end(&mut part);
    assert!(part.len() < 32 << 20, "{}", part.len());
    listener.stop();
}

#[test]
fn small_replies_cut_nobody_off() {
    let (listener, address) = serve();
    let mut large = TcpStream::connect(address).unwrap();
    large.write_all(b"GET /large HTTP/1.1\r\nConnection: close\r\n\r\n").unwrap();
    large.read_exact(&mut [0]).unwrap();
    let reply = exchange(address, b"GET /secret HTTP/1.1\r\nConnection: close\r\n\r\n");
    assert!(reply.starts_with("HTTP/1.1 401"), "{reply}");
    let mut whole = Vec::new();
    large.read_to_end(&mut whole).unwrap();
    assert!(whole.len() > 32 << 20, "{}", whole.len());
    listener.stop();
}

#[test]
fn requests_over_tls_are_answered_however_slowly_the_handshake_arrives() {
    let (listener, address) = serve_encrypted();
    // They have begun a handshake, and hold no place of those that are computed.
    let stalled: Vec<_> = (0..4)
        .map(|_| {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.write_all(&[0x16, 3, 1, 2]).unwrap();
            stream
        })
        .collect();
    for piece in [1, 100, 10_000] {
        let mut stream = encrypted(Pieces(TcpStream::connect(address).unwrap(), piece));
        stream.write_all(b"POST /x HTTP/1.1\r\nContent-Length: 2\r\nConnection: close\r\n\r\nab").unwrap();
        let mut reply = String::new();
        let ended = stream.read_to_string(&mut reply);
        assert!(reply.ends_with("|ab"), "{ended:?}: {reply}");
    }
    drop(stalled);
    listener.stop();
}

/// A socket that sends at most this many bytes at a time.
struct Pieces(TcpStream, usize);

impl Read for Pieces {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        self.0.read(into)
    }
}

impl Write for Pieces {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.write(&bytes[..bytes.len().min(self.1)])
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.0.flush()
    }
}

#[test]
fn a_peer_that_sends_far_more_than_a_request_can_need_is_closed() {
    let (listener, address) = serve_encrypted();
    for key_updates in [0, 30] {
        let mut stream = encrypted(TcpStream::connect(address).unwrap());
        stream.conn.complete_io(&mut stream.sock).unwrap();
        let head = [b"GET / HTTP/1.1\r\nname: ".to_vec(), vec![b'x'; 4 * HEAD_BYTES_MAX / 22]].concat();
        // A change of keys is a record too, of a few bytes which no request has. It may be cut off while it sends.
        let _sent = head.chunks(1).try_for_each(|byte| {
            (0..key_updates).try_for_each(|_| stream.conn.refresh_traffic_keys()).unwrap();
            stream.write_all(byte)
        });
        stream.sock.set_read_timeout(Some(REQUEST_MAX / 2)).unwrap();
        let ended = stream.sock.read_to_end(&mut Vec::new());
        let is_cut_off =
            ended.as_ref().map_or_else(|error| error.kind() == std::io::ErrorKind::ConnectionReset, |_| true);
        assert!(is_cut_off, "{key_updates}: {ended:?}");
    }
    listener.stop();
}

#[test]
fn a_request_may_come_in_records_of_a_byte() {
    let (listener, address) = serve_encrypted();
    let mut stream = encrypted(TcpStream::connect(address).unwrap());
    let name = "x".repeat(1000);
    let request =
        format!("POST /x HTTP/1.1\r\nname: {name}\r\nContent-Length: 100\r\nConnection: close\r\n\r\n");
    let content = "y".repeat(100);
    [request.as_bytes(), content.as_bytes()]
        .concat()
        .chunks(1)
        .for_each(|byte| stream.write_all(byte).unwrap());
    let mut reply = String::new();
    let ended = stream.read_to_string(&mut reply);
    assert!(reply.ends_with(&content), "{ended:?}: {reply}");
    listener.stop();
}

#[test]
fn what_peers_send_is_decrypted_two_at_a_time() {
    let handshakes = Arc::new(Handshakes::default());
    let (socket, end) = std::os::unix::net::UnixStream::pair().unwrap();
    let mut connection = certificate().accept(Timed::new(Box::new(socket)), Arc::clone(&handshakes)).unwrap();
    connection.allow(REQUEST_MAX);
    connection.expect(2);
    let (read, bytes) = std::sync::mpsc::channel();
    let reader = std::thread::spawn(move || {
        for _ in 0..2 {
            let mut byte = [0];
            connection.read_exact(&mut byte).unwrap();
            read.send(byte).unwrap();
        }
    });
    let mut client = encrypted(end);
    client.write_all(b"a").unwrap();
    assert_eq!(bytes.recv().unwrap(), *b"a");
    let others = [handshakes.permit(), handshakes.permit()];
    client.write_all(b"b").unwrap();
    assert!(bytes.recv_timeout(Duration::from_millis(200)).is_err(), "two others are decrypted");
    drop(others);
    assert_eq!(bytes.recv().unwrap(), *b"b");
    reader.join().unwrap();
}

#[test]
fn hosts_leave_the_processor_to_event_loops_and_local_processes_do_not() {
    let (listener, address) = serve();
    let nicer = (niceness() + LONG_NICENESS).min(19);
    let reply = exchange(address, b"GET /niceness HTTP/1.1\r\nConnection: close\r\n\r\n");
    assert!(reply.ends_with(&format!("\r\n\r\n{nicer}")), "{reply}");
    listener.stop();
    let reply = local_reply("niceness", "GET", "/niceness");
    assert_eq!(reply.content, niceness().to_string().as_bytes());
}

#[test]
fn a_network_of_ipv6_addresses_is_one_host() {
    let connections = Connections::default();
    let origin =
        |address: &str| Peer::Remote(std::net::SocketAddr::new(address.parse().unwrap(), 1)).origin();
    let add = |address: &str| {
        let stream = Box::new(std::os::unix::net::UnixStream::pair().unwrap().0);
        connections.add(origin(address), stream)
    };
    for number in 0..CONNECTIONS_PER_PEER_MAX {
        connections.set_busy(add(&format!("2001:db8::{number}:1")).unwrap());
    }
    assert!(add("2001:db8::ffff:2").is_none());
    assert!(add("2001:db8:0:1::1").is_some() && add("::ffff:192.0.2.1").is_some());
    assert_eq!(origin("::ffff:192.0.2.1"), origin("192.0.2.1"));
}

#[test]
fn whoever_shows_no_token_gives_way_first() {
    let (connections, host) = (Connections::default(), Some("192.0.2.1".parse().unwrap()));
    let mut ends = Vec::new();
    let mut add = || {
        let (stream, end) = std::os::unix::net::UnixStream::pair().unwrap();
        end.set_nonblocking(true).unwrap();
        ends.push(end);
        connections.add(host, Box::new(stream))
    };
    for number in 0..CONNECTIONS_PER_PEER_MAX {
        let connection = add().unwrap();
        // The first ones, which have been idle longest, have a token.
        connections.note_caller(connection, number < CONNECTIONS_PER_PEER_MAX / 2);
    }
    for _ in 0..CONNECTIONS_PER_PEER_MAX {
        add().unwrap();
    }
    let open = ends.iter().map(|mut end| end.read(&mut [0]).is_err());
    let open: Vec<usize> =
        open.enumerate().filter_map(|(number, is_open)| is_open.then_some(number)).collect();
    let known = 0..CONNECTIONS_PER_PEER_MAX / 2;
    assert!(known.clone().all(|number| open.contains(&number)), "{open:?}");
    assert_eq!(open.len(), CONNECTIONS_PER_PEER_MAX);
}

/// Adds connections, and tells which of them are open.
#[derive(Default)]
struct Places {
    connections: Connections,
    ends: Vec<std::os::unix::net::UnixStream>,
}

impl Places {
    fn add(&mut self, host: [u8; 4], now: Instant) -> Option<u64> {
        let (stream, end) = std::os::unix::net::UnixStream::pair().unwrap();
        end.set_nonblocking(true).unwrap();
        let added = self.connections.add_at(Some(host.into()), Box::new(stream), now);
        self.ends.extend(added.map(|_| end));
        added
    }

    /// Whether the connection that was added as the one of this number is open.
    fn is_open(&mut self, number: u64) -> bool {
        self.ends[usize::try_from(number).unwrap() - 1].read(&mut [0]).is_err()
    }
}

#[test]
fn hosts_without_a_token_displace_no_newcomer_from_a_host_that_showed_one() {
    const ADMINISTRATOR: [u8; 4] = [192, 0, 2, 1];
    let (mut places, start) = (Places::default(), Instant::now());
    let first = places.add(ADMINISTRATOR, start).unwrap();
    places.connections.note_caller(first, true);
    places.connections.remove(first);
    // Two connections a second from each of 150 hosts.
    let mut now = start;
    for number in 0..30_u64 {
        now += Duration::from_millis(500);
        let administrators = places.add(ADMINISTRATOR, now).expect("there is a place");
        for host in 0..150 {
            places.add([198, 51, 100, host], now);
        }
        assert!(places.is_open(administrators), "connection {number} was displaced");
        places.connections.remove(administrators);
    }
}

/// Has as many hosts as there are places connect.
fn fill(places: &mut Places, now: Instant) {
    for host in 0..u8::try_from(CONNECTIONS_MAX).unwrap() {
        places.add([198, 51, 100, host], now);
    }
}

#[test]
fn a_new_connection_has_time_to_show_a_token() {
    let (mut places, start) = (Places::default(), Instant::now());
    fill(&mut places, start);
    let later = start + YOUNG_MAX / 2;
    assert!(places.add([192, 0, 2, 1], later).is_none(), "all are younger than that");
    let later = start + YOUNG_MAX;
    let newcomer = places.add([192, 0, 2, 1], later).expect("the oldest goes");
    fill(&mut places, later + YOUNG_MAX / 2);
    assert!(places.is_open(newcomer));
}

#[test]
fn hosts_that_showed_a_token_are_remembered_for_a_time() {
    let (mut places, start) = (Places::default(), Instant::now());
    let mut number = places.add([192, 0, 2, 0], start).unwrap();
    for host in 1..=u8::try_from(TRUSTED_MAX).unwrap() {
        places.connections.note_caller(number, true);
        places.connections.remove(number);
        number = places.add([192, 0, 2, host], start).unwrap();
    }
    places.connections.note_caller(number, true);
    places.connections.remove(number);
    fill(&mut places, start);
    assert!(places.add([192, 0, 2, 0], start).is_none(), "the first one was forgotten for the last");
    assert!(places.add([192, 0, 2, 1], start).is_some());
    let later = start + TRUST_MAX + YOUNG_MAX;
    let mut places = Places { connections: places.connections, ends: Vec::new() };
    fill(&mut places, later);
    assert!(places.add([192, 0, 2, 1], later).is_none(), "its time is over");
}

#[test]
fn stopping_ends_idle_connections() {
    let (listener, address) = serve();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    stream.read_exact(&mut [0]).unwrap();
    listener.stop();
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).unwrap();
}

/// Makes a request by a local process. The name of the socket is that of the test.
fn local_reply(test: &str, method: &str, target: &str) -> client::Reply {
    let path = std::env::temp_dir().join(format!("holdfast-http-{test}-{}", std::process::id()));
    let _ = std::fs::remove_file(&path);
    let socket = std::os::unix::net::UnixListener::bind(&path).unwrap();
    let listener = Listener::start(Socket::Unix(socket), Arc::new(Echo)).unwrap();
    let reply = client::request(&path, method, target, &[("if-match", "\"7\"")], b"{}").unwrap();
    listener.stop();
    std::fs::remove_file(&path).unwrap();
    reply
}

#[test]
fn the_client_reads_what_the_server_sends() {
    let reply = local_reply("client", "PATCH", "/v1/x?dry=1");
    assert_eq!(reply.status, 200);
    let text = String::from_utf8(reply.content).unwrap();
    assert!(text.starts_with(r#"PATCH ["v1", "x"] [("dry", "1")] uid "#) && text.ends_with("|{}"), "{text}");
}

#[test]
fn strangers_are_closed_before_a_byte_is_read() {
    let (listener, address) = serve();
    let connect = |from: [u8; 4]| {
        let socket =
            rustix::net::socket(rustix::net::AddressFamily::INET, rustix::net::SocketType::STREAM, None)
                .unwrap();
        rustix::net::bind(&socket, &std::net::SocketAddr::new(from.into(), 0)).unwrap();
        rustix::net::connect(&socket, &address).unwrap();
        TcpStream::from(socket)
    };
    // It sends nothing, and yet it is closed.
    assert_eq!(connect(STRANGER).read(&mut [0]).unwrap(), 0);
    let mut other = connect([127, 0, 0, 67]);
    other.write_all(b"GET / HTTP/1.0\r\n\r\n").unwrap();
    assert_eq!(other.read(&mut [0]).unwrap(), 1);
    listener.stop();
}

#[test]
fn a_request_is_refused_before_its_content_was_sent() {
    let (listener, address) = serve();
    for (path, status) in [("secret", 401), ("small", 413)] {
        let mut stream = TcpStream::connect(address).unwrap();
        write!(stream, "POST /{path} HTTP/1.1\r\nContent-Length: 11\r\n\r\n").unwrap();
        // None of the content, and yet there is an answer.
        let mut start = [0; 12];
        stream.read_exact(&mut start).unwrap();
        assert_eq!(start, *format!("HTTP/1.1 {status}").as_bytes());
        stream.write_all(b"GET / HTTP/").unwrap();
        let mut rest = String::new();
        stream.read_to_string(&mut rest).unwrap();
        assert!(
            rest.contains("Connection: close") && !rest.contains("HTTP/1.1"),
            "content is no request: {rest}"
        );
    }
    listener.stop();
}

#[test]
fn a_connection_is_closed_after_some_refusals() {
    let (listener, address) = serve();
    for (path, status) in [("secret", 401), ("open", 200)] {
        let request = format!("GET /{path} HTTP/1.1\r\n\r\n");
        let reply = exchange(address, request.repeat(REFUSALS_MAX + 1).as_bytes());
        assert_eq!(
            reply.matches(&format!("HTTP/1.1 {status}")).count(),
            REFUSALS_MAX,
            "nobody knows the caller"
        );
        assert_eq!(reply.matches("Connection: close").count(), 1, "{reply}");
    }
    let known = "GET /open HTTP/1.1\r\nAuthorization: token\r\n\r\n".repeat(REFUSALS_MAX + 1);
    let reply =
        exchange(address, format!("{known}GET /open HTTP/1.1\r\nConnection: close\r\n\r\n").as_bytes());
    assert_eq!(reply.matches("HTTP/1.1 200").count(), REFUSALS_MAX + 2);
    listener.stop();
}

#[test]
fn streams_leave_places_for_requests_that_end() {
    let connections = Connections::default();
    let add = |host: Option<u8>| {
        let stream = Box::new(std::os::unix::net::UnixStream::pair().unwrap().0);
        connections.add(host.map(|host| [192, 0, 2, host].into()), stream).unwrap()
    };
    let begun = |host: Option<u8>, count| (0..count).filter(|_| connections.begin_stream(add(host))).count();
    assert_eq!(begun(Some(1), CONNECTIONS_PER_PEER_MAX), STREAMS_PER_PEER_MAX);
    // Of this machine's processes alone, there may be as many as there are places for.
    let rest = CONNECTIONS_MAX - CONNECTIONS_PER_PEER_MAX;
    assert_eq!(begun(None, rest), STREAMS_MAX - STREAMS_PER_PEER_MAX);
}
