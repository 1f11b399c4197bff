//! The processor time of local servers. It holds on a noisy machine, where rates do not.

use std::fs;

use crate::error::LoadError;
use crate::result::ServerCost;

/// USER_HZ, the unit of `/proc`. Linux fixes it at 100 for user space on all supported architectures.
const TICKS_PER_SECOND: f64 = 100.0;

/// Processes whose processor time is added up.
#[derive(Clone, Debug, Default)]
pub struct Processes(Vec<u32>);

impl Processes {
    /// Measures these processes.
    ///
    /// # Errors
    /// If a process does not exist.
    pub fn new(pids: &[u32]) -> Result<Self, LoadError> {
        let this = Self(pids.to_vec());
        this.cpu_seconds()?;
        Ok(this)
    }

    /// Returns the processor time so far, user and system, of all threads of all processes.
    ///
    /// # Errors
    /// If a process has ended.
    pub fn cpu_seconds(&self) -> Result<f64, LoadError> {
        let mut ticks = 0;
        for pid in &self.0 {
            let path = format!("/proc/{pid}/stat");
            let text =
                fs::read_to_string(&path).map_err(|error| LoadError::new(format!("{path}: {error}")))?;
            ticks += parse(&text).ok_or_else(|| LoadError::new(format!("{path} cannot be parsed")))?;
        }
        Ok(ticks as f64 / TICKS_PER_SECOND)
    }

    /// Returns the cost of this work. Returns none without processes.
    pub(crate) fn cost(&self, cpu_seconds: f64, operations: u64, bytes: u64) -> Option<ServerCost> {
        let pid = *self.0.first()?;
        let gib = bytes as f64 / f64::from(1u32 << 30);
        Some(ServerCost {
            pid,
            cpu_seconds,
            cpu_ns_per_operation: if operations > 0 { cpu_seconds * 1e9 / operations as f64 } else { 0.0 },
            cpu_seconds_per_gib: (bytes > 0).then(|| cpu_seconds / gib),
        })
    }
}

/// Adds utime and stime of a line of `/proc/PID/stat`. The name in parentheses may contain anything.
fn parse(text: &str) -> Option<u64> {
    let (_, rest) = text.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace().skip(11);
    let (user, system): (u64, u64) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    user.checked_add(system)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn process_names_may_contain_parentheses() {
        let text = "7 (a) b) (c)) S 1 2 3 4 5 6 7 8 9 10 30 12 13 14";
        assert_eq!(parse(text), Some(42));
        assert_eq!(parse("7 (a"), None);
    }

    #[test]
    fn the_processor_time_of_this_process_is_read() {
        let this = Processes::new(&[std::process::id()]).unwrap();
        assert!(this.cpu_seconds().unwrap() >= 0.0);
        assert!(Processes::new(&[u32::MAX]).is_err());
        assert_eq!(this.cost(1.0, 1000, 0).unwrap().cpu_ns_per_operation, 1e6);
        assert!(Processes::default().cost(1.0, 1, 1).is_none());
    }
}
