//! How a process comes to have a namespace.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use cluster::{Name, Watched};

/// How far a process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// It is connected, watches the lease, and takes it when it may.
    Standing {
        /// What distinguishes the process from all others in the lease.
        instance: u64,
    },
    /// The lease was taken or renewed; the change was sent at this time, nanoseconds of `CLOCK_BOOTTIME`.
    Renewed {
        /// Nanoseconds.
        at: u64,
    },
}

/// Told how far a process is. May not wait.
type Tell = Arc<dyn Fn(Progress) + Send + Sync>;

/// How a process takes a namespace. By default it takes one that nobody has, or whose lease has run out.
#[derive(Clone, Default)]
pub struct Candidacy {
    /// What the lease calls the machine; by default its host name.
    pub node: Option<Name>,
    /// What another process of this machine saw of the lease already.
    pub watched: Option<Watched>,
    /// How much longer than necessary it waits.
    pub delay: Duration,
    /// Whether it waits for as long as another process has the namespace, rather than to give up.
    pub is_patient: bool,
    /// Told how far it is.
    pub told: Option<Told>,
}

/// Who is told how far a process is.
#[derive(Clone)]
pub struct Told(pub Tell);

impl fmt::Debug for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Told")
    }
}

impl fmt::Debug for Candidacy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Candidacy { node, watched, delay, is_patient, .. } = self;
        write!(f, "Candidacy({node:?}, {watched:?}, {delay:?}, {is_patient})")
    }
}

impl Candidacy {
    pub(crate) fn tell(&self, progress: Progress) {
        if let Some(Told(tell)) = &self.told {
            tell(progress);
        }
    }
}
