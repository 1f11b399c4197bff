//! What bounds the scale of tests: the processors of this machine, the memory of the server's, and free space.

use crate::client::{BlockingClient, Server};
use crate::error::LoadError;
use crate::host::memory_bytes;

/// Assumed if the system does not report its memory.
const MEMORY_UNKNOWN: u64 = 4 << 30;

/// This machine and the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Processors that this program may use.
    pub cores: u32,
    /// Memory of the server's machine, or of this one if the server's is not known.
    pub memory_bytes: u64,
    /// The server's free space (FSSTAT, RFC 1813 section 3.3.18).
    pub free_bytes: u64,
}

impl Machine {
    /// Describes this machine, and asks the server for its free space. `server_memory_bytes` is given if it is known.
    ///
    /// # Errors
    /// If the server cannot be reached or FSSTAT fails.
    pub fn of(server: &Server, server_memory_bytes: Option<u64>) -> Result<Self, LoadError> {
        let (mut client, root) = BlockingClient::open(server)?;
        let free_bytes = client.free_bytes(&root)?;
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Ok(Self {
            cores: u32::try_from(cores).unwrap_or(u32::MAX),
            memory_bytes: server_memory_bytes.or_else(memory_bytes).unwrap_or(MEMORY_UNKNOWN),
            free_bytes,
        })
    }
}
