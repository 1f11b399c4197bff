//! How virtual threads, connections and sessions are divided among event loops.

use super::{Connections, Options};

/// Sessions of a measurement at most: servers allow a client some dozens.
const SESSIONS_MAX: u32 = 32;

/// The part of one event loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LoopShare {
    pub(super) threads: u32,
    pub(super) connections: u32,
    /// Sessions of NFSv4. A thread with connections of its own has one for itself, as far as there are enough; threads that
    /// share connections share one, as processes share a mount with `nconnect`.
    pub(super) sessions: u32,
}

/// Divides a measurement among event loops: one per processor, but each with a thread and a connection.
pub(super) fn divide(options: &Options) -> Vec<LoopShare> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let cores = u32::try_from(cores).unwrap_or(u32::MAX);
    let wanted = if options.event_loops == 0 { cores } else { options.event_loops };
    let loops_max = match options.connections {
        Connections::PerThread(_) => options.threads,
        Connections::Total(total) => options.threads.min(total),
    };
    let count = wanted.min(loops_max).max(1);
    // The first event loops get the remainder.
    let share = |total: u32, index: u32| total / count + u32::from(index < total % count);
    let one = |index: u32| {
        let threads = share(options.threads, index);
        let (connections, sessions) = match options.connections {
            Connections::PerThread(each) => (each * threads, threads.min(SESSIONS_MAX / count).max(1)),
            Connections::Total(total) => (share(total, index), 1),
        };
        LoopShare { threads, connections, sessions }
    };
    (0..count).map(one).collect()
}

/// Returns the most threads that share a session.
pub(super) fn threads_per_session(shares: &[LoopShare]) -> u32 {
    shares.iter().map(|share| share.threads.div_ceil(share.sessions)).max().unwrap_or(1)
}

impl LoopShare {
    /// Returns the session of a thread.
    pub(super) const fn session_of(&self, thread: u32) -> u32 {
        thread % self.sessions
    }

    /// Returns the connections that a thread uses.
    pub(super) fn connections_of(&self, connections: Connections, thread: u32) -> Vec<u32> {
        let count = self.connections;
        match connections {
            Connections::PerThread(each) => (thread * each..(thread + 1) * each).collect(),
            Connections::Total(_) if self.threads >= count => vec![thread % count],
            // With fewer threads than connections, each thread uses several.
            Connections::Total(_) => (thread..count).step_by(self.threads as usize).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(threads: u32, connections: Connections, event_loops: u32) -> Options {
        Options { threads, connections, event_loops, ..Options::default() }
    }

    #[test]
    fn shares_add_up_and_every_connection_has_one_session() {
        for (threads, connections, loops) in [
            (1, Connections::PerThread(1), 1),
            (7, Connections::PerThread(3), 2),
            (100, Connections::PerThread(1), 3),
            (5, Connections::Total(9), 2),
            (64, Connections::Total(4), 4),
        ] {
            let options = options(threads, connections, loops);
            let shares = divide(&options);
            assert_eq!(shares.iter().map(|share| share.threads).sum::<u32>(), threads);
            assert_eq!(shares.iter().map(|share| share.connections).sum::<u32>(), options.connections());
            assert!(shares.iter().map(|share| share.sessions).sum::<u32>() <= SESSIONS_MAX);
            for share in shares {
                let mut sessions = vec![None; share.connections as usize];
                for thread in 0..share.threads {
                    for connection in share.connections_of(connections, thread) {
                        let session = share.session_of(thread);
                        assert_eq!(*sessions[connection as usize].get_or_insert(session), session);
                    }
                }
                assert!(sessions.iter().all(Option::is_some), "{threads} {connections:?} {loops}");
            }
        }
    }
}
