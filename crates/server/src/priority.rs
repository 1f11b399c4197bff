//! Which threads leave the processors to others.

use crate::limits::LONG_NICENESS;

/// Lowers the priority of this thread, and of those that it will start. It cannot get it back without privileges.
pub(crate) fn let_others_go_first() {
    // On Linux, each thread has a niceness of its own.
    if let Err(error) = rustix::process::nice(LONG_NICENESS) {
        tracing::debug!(%error, "a thread keeps the priority of event loops");
    }
}
