//! The port of administrators: TLS handshakes, each of which costs the server a signature, or which never end; and requests
//! that are refused.

use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, TcpStream};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::super::super::lab::{ADDRESS, Lab};
use super::super::rpc::{self, Caller};
use super::super::{Scene, places};
use crate::process;

/// The port.
const PORT: u16 = 9049;
/// Threads of neighbours, and their addresses: a host may begin some handshakes in a while only.
const THREADS: u8 = 4;
const HOSTS: u8 = 200;
/// Handshakes that never end.
const HALVES: usize = 100;
/// Requests without a token on a connection.
const REQUESTS: usize = 50;
/// How long an attacker waits.
const PATIENCE: Duration = Duration::from_millis(500);
/// Within this time an administrator must have an answer.
const ANSWERED: Duration = Duration::from_secs(5);
/// Pause between an administrator's requests.
const PAUSE: Duration = Duration::from_secs(1);

/// Makes a certificate whose signatures cost much, and returns the lines of configuration that have administrators served
/// with it.
pub(in super::super) fn configuration(lab: &Lab) -> Result<String, String> {
    let [key, certificate] = ["api.key", "api.crt"].map(|name| lab.folder.join(name).display().to_string());
    let mut openssl = Command::new("openssl");
    openssl.args(["req", "-x509", "-newkey", "rsa:4096", "-nodes", "-subj", "/CN=holdfast", "-days", "2"]);
    process::output(openssl.args(["-keyout", &key, "-out", &certificate]))?;
    Ok(format!("[api]\nlisten = \"{ADDRESS}:{PORT}\"\ncertificate = \"{certificate}\"\nkey = \"{key}\""))
}

/// What happens meanwhile.
#[derive(Default)]
struct Counts {
    strangers: AtomicUsize,
    answered: AtomicUsize,
    refused: AtomicUsize,
    halves: AtomicUsize,
    requests: AtomicUsize,
}

/// Does all of it at once, while an honest administrator asks from time to time.
pub(super) fn all(scene: &Scene) -> Result<String, String> {
    let counts = &Counts::default();
    thread::scope(|scope| {
        let mut threads = vec![
            scope.spawn(|| strangers(scene, counts)),
            scope.spawn(|| halves(scene, counts)),
            scope.spawn(|| refused_requests(scene, counts)),
        ];
        for first in 0..THREADS {
            threads.push(scope.spawn(move || neighbours(scene, first, counts)));
        }
        let longest = administrator(scene);
        threads.into_iter().try_for_each(|thread| {
            thread.join().unwrap_or_else(|_| Err("an attacker panicked".to_owned()))
        })?;
        let count = |count: &AtomicUsize| count.load(Ordering::Relaxed);
        if count(&counts.answered) == 0 {
            return Err("no handshake was answered, so nothing is proved".to_owned());
        }
        Ok(format!(
            "{} strangers closed, {} handshakes answered, {} refused, {} halves begun, {} connections with requests; \
             an administrator has an answer within {} ms",
            count(&counts.strangers),
            count(&counts.answered),
            count(&counts.refused),
            count(&counts.halves),
            count(&counts.requests),
            longest?.as_millis()
        ))
    })
}

/// Connects and sends bytes.
fn greet(address: IpAddr, bytes: &[u8]) -> io::Result<TcpStream> {
    let mut stream = rpc::connect(Caller::unprivileged(address, 0), PORT, PATIENCE)?;
    stream.write_all(bytes)?;
    Ok(stream)
}

/// Strangers begin handshakes. None may be answered by a byte.
fn strangers(scene: &Scene, counts: &Counts) -> Result<(), String> {
    while scene.goes_on() {
        let answer = greet(places::stranger(1), &hello()).and_then(|mut stream| stream.read(&mut [0]));
        if matches!(answer, Ok(1..)) {
            return Err("a stranger's handshake is answered".to_owned());
        }
        counts.strangers.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

/// Neighbours have the server sign, and leave.
fn neighbours(scene: &Scene, first: u8, counts: &Counts) -> Result<(), String> {
    for number in (first..HOSTS).step_by(usize::from(THREADS)).cycle().take_while(|_| scene.goes_on()) {
        let answer =
            greet(places::neighbour(1 + number), &hello()).and_then(|mut stream| stream.read(&mut [0]));
        let count = if matches!(answer, Ok(1..)) { &counts.answered } else { &counts.refused };
        count.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

/// Neighbours begin handshakes and send nothing more. They reopen connections that the server closes.
fn halves(scene: &Scene, counts: &Counts) -> Result<(), String> {
    let hello = hello();
    let half = hello.get(..hello.len() / 2).unwrap_or_default();
    let mut held = std::collections::VecDeque::new();
    for number in (0..HOSTS).cycle().take_while(|_| scene.goes_on()) {
        if let Ok(stream) = greet(places::neighbour(1 + number), half) {
            held.push_back(stream);
            counts.halves.fetch_add(1, Ordering::Relaxed);
        }
        if held.len() > HALVES {
            held.pop_front();
        }
        thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

/// Neighbours send requests without a token, which would be logged if they were obeyed.
fn refused_requests(scene: &Scene, counts: &Counts) -> Result<(), String> {
    let request = "DELETE /v1/tokens/nobody HTTP/1.1\r\nHost: holdfast\r\n\r\n".repeat(REQUESTS);
    for number in (0..HOSTS).cycle().take_while(|_| scene.goes_on()) {
        let answer = request_over_tls(places::neighbour(1 + number), &request)?;
        if answer.contains("HTTP/1.1 2") {
            return Err(format!("a request without a token is obeyed: {answer}"));
        }
        counts.requests.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

/// An administrator asks from time to time, each time until there is an answer. Returns how long that took at most.
fn administrator(scene: &Scene) -> Result<Duration, String> {
    // Attackers run at low priority; the administrator is not one of them.
    rustix::process::setpriority_process(None, 0)
        .map_err(|error| format!("cannot raise the administrator's priority: {error}"))?;
    let mut longest = Duration::ZERO;
    while scene.goes_on() {
        let began = Instant::now();
        let request = "GET /healthz HTTP/1.1\r\nHost: holdfast\r\nConnection: close\r\n\r\n";
        while !request_over_tls(places::client(8), request)?.starts_with("HTTP/1.1 200") {
            if began.elapsed() > ANSWERED {
                return Err(format!("an administrator has no answer after {} s", ANSWERED.as_secs()));
            }
            thread::sleep(PAUSE / 10);
        }
        longest = longest.max(began.elapsed());
        thread::sleep(PAUSE);
    }
    Ok(longest)
}

/// Makes a connection with TLS, sends `request` and returns what is answered until the server closes it. Nothing if the
/// server closes it at once.
fn request_over_tls(from: IpAddr, request: &str) -> Result<String, String> {
    let mut openssl = Command::new("timeout");
    openssl.arg(ANSWERED.as_secs().to_string()).args(["openssl", "s_client", "-quiet", "-connect"]);
    openssl.arg(format!("{ADDRESS}:{PORT}")).arg("-bind").arg(format!("{from}:0"));
    openssl.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let words = |error: io::Error| format!("openssl: {error}");
    let mut openssl = openssl.spawn().map_err(words)?;
    if let Some(mut input) = openssl.stdin.take() {
        // It may have ended, because the server closed the connection.
        let _ = input.write_all(request.as_bytes());
    }
    let output = openssl.wait_with_output().map_err(words)?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// A ClientHello of TLS 1.3 with an X25519 key, to which a server answers with its signature (RFC 8446, section 4.1.2).
fn hello() -> Vec<u8> {
    let random = || -> [u8; 32] { std::array::from_fn(|_| fastrand::u8(..)) };
    let extensions = [
        // supported_versions: TLS 1.3. supported_groups: x25519.
        &[0, 43, 0, 3, 2, 3, 4, 0, 10, 0, 4, 0, 2, 0, 29][..],
        // signature_algorithms: rsa_pss_rsae_sha256, ecdsa_secp256r1_sha256.
        &[0, 13, 0, 6, 0, 4, 8, 4, 4, 3],
        // key_share: one, of x25519.
        &[0, 51, 0, 38, 0, 36, 0, 29, 0, 32],
        &random(),
    ]
    .concat();
    let length = |bytes: usize| u16::try_from(bytes).unwrap_or(0).to_be_bytes();
    // legacy_version, random, no session id, TLS_AES_128_GCM_SHA256, no compression.
    let body =
        [&[3, 3][..], &random(), &[0, 0, 2, 0x13, 1, 1, 0], &length(extensions.len()), &extensions].concat();
    // A record of a handshake, and in it a ClientHello.
    [&[22, 3, 1][..], &length(body.len() + 4), &[1, 0], &length(body.len()), &body].concat()
}
