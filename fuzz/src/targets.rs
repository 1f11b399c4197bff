//! The targets. Each panics on a fault and returns the kind of its input, so that the driver can keep inputs that show
//! something new.

use std::fmt::Debug;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::sync::Arc;
use std::{env, fs};

use sim::engine::{START, Sizes, create, open};
use sim::media::SimMedia;
use sim::random::Random;
use sim::rpc::encoded;
use volume::Volume;
use volume::time::Time;

/// A fuzz target.
pub struct Target {
    /// The name on the command line.
    pub name: &'static str,
    /// Returns the initial inputs.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// Runs an input. Returns its kind.
    pub run: fn(&[u8]) -> Kind,
}

/// All of them.
pub const TARGETS: &[Target] = &[
    Target { name: "rpc", seeds: rpc::seeds, run: rpc::run },
    Target { name: "xdr", seeds: xdr::seeds, run: xdr::run },
    Target { name: "mount", seeds: mount::seeds, run: mount::run },
    Target { name: "rquota", seeds: rquota::seeds, run: rquota::run },
    Target { name: "nfs3", seeds: nfs3::seeds, run: nfs3::run },
    Target { name: "nfs4", seeds: nfs4::seeds, run: nfs4::run },
    Target { name: "compounds", seeds: compounds::seeds, run: compounds::run },
    Target { name: "payloads", seeds: payloads::seeds, run: payloads::run },
    Target { name: "http", seeds: http::seeds, run: http::run },
    Target { name: "journal", seeds: journal::seeds, run: journal::run },
    Target { name: "segment", seeds: segment::seeds, run: segment::run },
    Target { name: "lease", seeds: lease::seeds, run: lease::run },
    Target { name: "record", seeds: record::seeds, run: record::run },
];

/// A number that is equal for inputs that take the same path through a decoder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Kind(u64);

impl Kind {
    /// Returns the kind of everything with this hash.
    fn of(what: impl Hash) -> Kind {
        let mut hasher = DefaultHasher::new();
        what.hash(&mut hasher);
        Kind(hasher.finish())
    }
}

/// Decodes a message. Its encoding must have the same length, and be stable when decoded and encoded again.
macro_rules! round_trip {
    ($type:ty, $bytes:expr) => {{
        let bytes: &[u8] = $bytes;
        let mut input = wire::xdr::Decoder::new(bytes);
        let decoded = <$type as wire::xdr::Decode>::decode(&mut input);
        let read = bytes.len() - input.rest().len();
        match decoded {
            Ok(value) => {
                let first = $crate::targets::encoded(&value);
                assert_eq!(first.len(), read, "encoding takes the room that decoding took");
                let again = wire::xdr::decode_all::<$type>(&first).expect("what was encoded decodes");
                assert_eq!($crate::targets::encoded(&again), first, "encoding is stable");
                $crate::targets::Kind::of((stringify!($type), "decoded", read.min(256)))
            }
            Err(error) => {
                $crate::targets::Kind::of((stringify!($type), std::mem::discriminant(&error), read))
            }
        }
    }};
}

mod compounds;
mod http;
mod journal;
mod lease;
mod mount;
mod nfs3;
mod nfs4;
mod payloads;
mod record;
mod rpc;
mod rquota;
mod segment;
mod xdr;

/// Returns a new volume on simulated media, always the same.
fn new_volume() -> Arc<Volume> {
    let sizes = Sizes::default();
    let media = SimMedia::new(sizes.log_bytes, sizes.capacity, Random::new(1));
    create(&media).expect("a volume can be created");
    open(&media, &sizes, START).expect("a new volume opens")
}

/// Runs the steps of the server's threads.
fn work(volume: &Volume, now: Time) {
    volume.step_write_back(now, true, true);
    volume.step_commit(now);
    volume.step_checkpoint(now, false);
}

/// Decodes stored bytes. The value must survive being stored and decoded again.
fn survives_storage<T: PartialEq + Debug, E>(
    bytes: &[u8],
    decode: impl Fn(&[u8]) -> Result<T, E>,
    encode: impl Fn(&T) -> Vec<u8>,
) -> bool {
    let Ok(value) = decode(bytes) else { return false };
    let stored = encode(&value);
    let again = decode(&stored).ok();
    assert_eq!(again.as_ref(), Some(&value), "survives being stored");
    true
}

/// Returns the golden messages whose names contain `part`.
fn golden(part: &str) -> Vec<Vec<u8>> {
    let here = env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    let root = Path::new(&here).join("../crates/wire/tests/golden");
    let mut messages = Vec::new();
    for folder in fs::read_dir(root).into_iter().flatten().flatten() {
        for file in fs::read_dir(folder.path()).into_iter().flatten().flatten() {
            if file.file_name().to_string_lossy().contains(part) {
                messages.extend(fs::read(file.path()));
            }
        }
    }
    // The order of folders varies; runs with one seed must agree.
    messages.sort();
    messages
}

/// Returns the arguments and results of golden messages, without RPC headers.
fn bodies(part: &str) -> Vec<Vec<u8>> {
    let body = |message: &Vec<u8>| match wire::rpc::decode_call(message) {
        Ok((_, input)) => input.rest().to_vec(),
        Err(_) => message.get(wire::rpc::SUCCESS_BYTES..).unwrap_or_default().to_vec(),
    };
    golden(part).iter().map(body).collect()
}
