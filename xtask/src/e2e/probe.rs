//! The least that tells whether a server answers and whether an old handle still means a file: NULL, MNT and GETATTR,
//! put together by hand, so that a mistake in Holdfast's own codec cannot hide here.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

const SERVER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 77, 0, 1));
const PATIENCE: Duration = Duration::from_secs(2);
const NFS: u32 = 100_003;
const MOUNT: u32 = 100_005;
const HANDLE_BYTES_MAX: usize = 64;
const REPLY_BYTES_MAX: usize = 64 << 10;

/// Calls NULL of NFSv3, or of MOUNT at its own port.
pub(super) fn null(port: u16) -> io::Result<()> {
    let program = if port == super::lab::PORT { NFS } else { MOUNT };
    call(port, program, 0, &[]).map(|_| ())
}

/// The handle of "/main".
pub(super) fn mount(port: u16) -> io::Result<Vec<u8>> {
    let results = call(port, MOUNT, 1, &opaque(b"/main"))?;
    let length = usize::try_from(word(&results, 4)?).map_err(|_| malformed())?;
    if word(&results, 0)? != 0 || length > HANDLE_BYTES_MAX {
        return Err(malformed());
    }
    results.get(8..8 + length).map(<[u8]>::to_vec).ok_or_else(malformed)
}

/// The status of GETATTR for a handle.
pub(super) fn getattr(handle: &[u8]) -> io::Result<u32> {
    let results = call(super::lab::PORT, NFS, 1, &opaque(handle))?;
    word(&results, 0)
}

/// The results of one call with AUTH_NONE, on a connection of its own.
fn call(port: u16, program: u32, procedure: u32, arguments: &[u8]) -> io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect_timeout(&SocketAddr::new(SERVER, port), PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    // xid, call, RPC version 2, program, version 3, procedure, no credential, no verifier.
    let header = [0x4846_0001, 0, 2, program, 3, procedure, 0, 0, 0, 0];
    let mut record: Vec<u8> = header.iter().flat_map(|word: &u32| word.to_be_bytes()).collect();
    record.extend_from_slice(arguments);
    let length = u32::try_from(record.len()).map_err(|_| malformed())?;
    let mut message = (length | 0x8000_0000).to_be_bytes().to_vec();
    message.extend_from_slice(&record);
    stream.write_all(&message)?;

    let mut mark = [0; 4];
    stream.read_exact(&mut mark)?;
    let length = usize::try_from(u32::from_be_bytes(mark) & 0x7fff_ffff).map_err(|_| malformed())?;
    if length > REPLY_BYTES_MAX {
        return Err(malformed());
    }
    let mut reply = vec![0; length];
    stream.read_exact(&mut reply)?;
    // xid, reply, accepted, no verifier, success.
    let expected = [0x4846_0001, 1, 0, 0, 0, 0];
    for (number, wanted) in expected.into_iter().enumerate() {
        if word(&reply, number * 4)? != wanted {
            return Err(malformed());
        }
    }
    Ok(reply.split_off(24))
}

fn opaque(bytes: &[u8]) -> Vec<u8> {
    let length = u32::try_from(bytes.len()).expect("handles and paths are short");
    let mut encoded = length.to_be_bytes().to_vec();
    encoded.extend_from_slice(bytes);
    encoded.resize(encoded.len().next_multiple_of(4), 0);
    encoded
}

fn word(bytes: &[u8], at: usize) -> io::Result<u32> {
    let word = bytes.get(at..at + 4).and_then(|word| word.try_into().ok());
    word.map(u32::from_be_bytes).ok_or_else(malformed)
}

fn malformed() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the reply is not what was expected")
}
