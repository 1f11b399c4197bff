//! The machine that this program runs on.

use crate::result::Host;

impl Host {
    /// This machine.
    #[must_use]
    pub fn this() -> Self {
        let names = rustix::system::uname();
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            name: names.nodename().to_string_lossy().into_owned(),
            cores: u32::try_from(cores).unwrap_or(u32::MAX),
            kernel: format!("{} {}", names.sysname().to_string_lossy(), names.release().to_string_lossy()),
        }
    }
}
