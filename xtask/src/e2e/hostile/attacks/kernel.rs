//! Memory of the kernel that a connection pins while nobody reads what lies in its sockets.

use std::fs;
use std::io::{self, Write as _};
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

use super::super::super::lab::PORT;
use super::super::{MEMORY_BYTES, Scene};
use super::records::{large_read, large_write, send};

/// Connections that read nothing.
const CONNECTIONS: usize = 500;
/// READs that each of them has sent before it writes.
const READS: usize = 32;
/// Bytes that a socket of an attacker receives, so that the others stay at the server.
const RECEIVED_BYTES: usize = 4 << 10;
/// What the kernel may keep for the server's ends: half of the share of `docs/security.md`, and 64 KiB for each connection. One send
/// may exceed the limit of a socket by a segment, which is as long.
const KEPT_BYTES_MAX: u64 = MEMORY_BYTES / 8 + CONNECTIONS as u64 * (128 << 10);
const PAUSE: Duration = Duration::from_millis(100);

/// Sends READs and then WRITEs on many connections, and reads nothing.
pub(super) fn unread(scene: &Scene) -> Result<String, String> {
    let calls = large_read(scene)?.repeat(READS);
    let writes = large_write(scene);
    let mut all: Vec<Option<TcpStream>> = (0..CONNECTIONS).map(|_| None).collect();
    let mut most = 0;
    while scene.goes_on() {
        for place in &mut all {
            match place {
                None => *place = send(&calls, RECEIVED_BYTES).ok(),
                Some(stream) => {
                    if stream.write(&writes).is_err_and(|error| error.kind() != io::ErrorKind::WouldBlock) {
                        *place = None;
                    }
                }
            }
        }
        most = most.max(kept_bytes()?);
        thread::sleep(PAUSE);
    }
    let open = all.iter().flatten().count();
    let said = format!("the kernel kept up to {} MiB of {open} connections", most >> 20);
    if most > KEPT_BYTES_MAX {
        return Err(format!("{said}, more than {} MiB", KEPT_BYTES_MAX >> 20));
    }
    Ok(said)
}

/// Returns the bytes that the server's sockets of this namespace have received and sent, and that nobody has read.
fn kept_bytes() -> Result<u64, String> {
    let path = "/proc/net/tcp";
    let table = fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
    let own = format!(":{PORT:04X}");
    let queues = table.lines().skip(1).filter_map(|line| {
        let mut fields = line.split_whitespace().skip(1);
        let local = fields.next()?;
        let (sent, received) = fields.nth(2)?.split_once(':')?;
        let number = |field| u64::from_str_radix(field, 16).ok();
        local.ends_with(&own).then_some(number(sent)? + number(received)?)
    });
    Ok(queues.sum())
}
