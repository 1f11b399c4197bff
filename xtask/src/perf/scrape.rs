//! The time of a scrape: `/metrics` of a server with more volumes, each used once, than fit into the limit of series.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use super::Run;
use super::results::{Figure, Goal};
use crate::nfs::Procedure;
use crate::process;
use crate::server::Server;

/// Volumes: each has about 40 series, and a scrape has at most 20,000 (`server/src/limits.rs`).
const VOLUMES: u32 = 600;
const QUICK_VOLUMES: u32 = 20;

/// Scrapes in a round.
const SCRAPES: u32 = 10;

const MILLISECONDS_MAX: f64 = 50.0;

/// Time limit of a request.
const PATIENCE: Duration = Duration::from_secs(10);

/// Measures scrapes through the administrator's socket, one after another.
pub(super) fn run(run: &mut Run<'_>) -> Result<(), String> {
    let server = run.server(&[])?;
    let volumes = if run.options.quick { QUICK_VOLUMES } else { VOLUMES };
    for number in 0..volumes {
        let content = format!("{{\"name\":\"v{number}\"}}");
        let reply = ask(&server.admin_socket(), "POST", "/v1/volumes", &content)?;
        if !reply.starts_with("HTTP/1.1 201") {
            return Err(format!("volume {number} is not made: {reply}"));
        }
        use_once(&server, &format!("/v{number}"))?;
    }
    let (mut milliseconds, mut series) = (Vec::new(), 0);
    for _ in 0..run.options.rounds {
        for _ in 0..SCRAPES {
            let began = Instant::now();
            let reply = ask(&server.admin_socket(), "GET", "/metrics", "")?;
            milliseconds.push(began.elapsed().as_secs_f64() * 1e3);
            series = reply.lines().filter(|line| line.starts_with("holdfast_")).count();
        }
    }
    run.figures.push(Figure {
        name: format!("a scrape of {series} series, of {volumes} volumes"),
        values: milliseconds,
        unit: " ms",
        goal: Goal::AtMost(MILLISECONDS_MAX),
    });
    Ok(())
}

/// Makes a call that is counted for the volume at `path`.
fn use_once(server: &Server, path: &str) -> Result<(), String> {
    let root = server.mount(path)?;
    let mut connection = server.connect()?;
    connection.ask(Procedure::Getattr, &[0], |arguments| {
        arguments.opaque(&root);
    })?;
    Ok(())
}

/// Sends a request to the socket, and returns the whole response.
pub(super) fn ask(socket: &Path, method: &str, target: &str, content: &str) -> Result<String, String> {
    let exchange = || {
        let mut stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let length = content.len();
        write!(
            stream,
            "{method} {target} HTTP/1.1\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{content}"
        )?;
        let mut reply = String::new();
        stream.read_to_string(&mut reply).map(|_| reply)
    };
    exchange().map_err(process::at(socket))
}
