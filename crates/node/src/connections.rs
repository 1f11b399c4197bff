//! The list of a group's connections, kept beside its pools, so that the next machine can make the clients notice that it has
//! taken over. The list is a hint: a client that it lacks finds out by itself.

use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Instant;

use crate::config::Group;
use crate::limits::{
    CONNECTIONS_MAX, FORMER_KEPT, NEWCOMERS, RECORD_EVERY, RECORD_LAST_MAX, RECORD_NEWCOMERS_EVERY,
};
use crate::network::Network;
use crate::shared::Shared;

/// Longest list that is read, bytes: a line for each connection has the server's and the client's address, both of IPv6 with their ports.
const LIST_BYTES_MAX: usize = CONNECTIONS_MAX * 128;

/// Pairs of the server's and the client's address.
pub(crate) type List = BTreeSet<(SocketAddr, SocketAddr)>;

/// A thread that stores the list when it has changed. It ends when this is dropped, or a little later if the device does not
/// answer.
pub(crate) struct Recorder {
    /// Takes the last list.
    end: Sender<List>,
    ended: Receiver<()>,
}

impl Recorder {
    /// Starts the thread; none if that fails, as the list is only a hint. `former` are the connections to the previous machine.
    pub(crate) fn start(
        config: &Group,
        shared: &Shared,
        network: &Arc<dyn Network>,
        former: List,
    ) -> Option<Recorder> {
        let ((end, told), (alive, ended)) = (channel(), channel::<()>());
        let (config, shared, network) = (config.clone(), shared.clone(), Arc::clone(network));
        let record = move || {
            let _alive = alive;
            let (begun, mut former, mut stored) = (Instant::now(), former, None);
            let pause = || if begun.elapsed() < NEWCOMERS { RECORD_NEWCOMERS_EVERY } else { RECORD_EVERY };
            loop {
                let (mut list, is_last) = match told.recv_timeout(pause()) {
                    Ok(list) => (list, true),
                    Err(RecvTimeoutError::Timeout) => (list(&config, &*network), false),
                    Err(RecvTimeoutError::Disconnected) => return,
                };
                if begun.elapsed() >= FORMER_KEPT {
                    former.clear();
                }
                list.extend(former.iter().take(CONNECTIONS_MAX - list.len()));
                if stored.as_ref() != Some(&list) && store(&shared, &list).is_ok() {
                    stored = Some(list);
                }
                if is_last {
                    return;
                }
            }
        };
        thread::Builder::new().name("connections".to_owned()).spawn(record).ok()?;
        Some(Recorder { end, ended })
    }

    /// Has the thread store the list once more, and end. Returns when it has ended, or after [`RECORD_LAST_MAX`].
    pub(crate) fn finish(self, list: List) {
        // The thread may have ended already. It sends nothing when it ends: the channel closes.
        let _ = self.end.send(list);
        let _ = self.ended.recv_timeout(RECORD_LAST_MAX);
    }
}

/// Returns the connections that the last machine stored; none if they cannot be read.
pub(crate) fn stored(shared: &Shared) -> List {
    let text = shared.connections(LIST_BYTES_MAX).unwrap_or_default();
    let pair = |line: &str| {
        let (local, client) = line.split_once(' ')?;
        Some((local.parse().ok()?, client.parse().ok()?))
    };
    text.lines().filter_map(pair).take(CONNECTIONS_MAX).collect()
}

/// Returns the connections that there are now.
pub(crate) fn list(config: &Group, network: &dyn Network) -> List {
    let of = |local: SocketAddr| {
        let clients = network.connections(local).unwrap_or_default();
        clients.into_iter().map(move |client| (local, client))
    };
    config.sockets().flat_map(of).take(CONNECTIONS_MAX).collect()
}

fn store(shared: &Shared, list: &List) -> io::Result<()> {
    let text: String = list.iter().map(|(local, client)| format!("{local} {client}\n")).collect();
    shared.set_connections(&text)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn stored_connections_are_read_back_and_other_lines_ignored() {
        let data = std::env::temp_dir().join(format!("holdfast-connections-{}", std::process::id()));
        fs::create_dir_all(&data).unwrap();
        let (shared, name) = (Shared::Directory(data.clone()), "connections");
        assert!(stored(&shared).is_empty());
        let pair = |local: &str, client: &str| (local.parse().unwrap(), client.parse().unwrap());
        let list: List =
            [pair("10.0.0.5:2049", "10.0.0.9:700"), pair("[2001:db8::5]:2049", "[2001:db8::9]:700")].into();
        store(&shared, &list).unwrap();
        assert_eq!(stored(&shared), list);
        let damaged = fs::read_to_string(data.join(name)).unwrap() + "nonsense\n10.0.0.5:2049 x\n";
        fs::write(data.join(name), damaged).unwrap();
        assert_eq!(stored(&shared), list);
        fs::rename(data.join(name), data.join("elsewhere")).unwrap();
        std::os::unix::fs::symlink(data.join("elsewhere"), data.join(name)).unwrap();
        assert!(stored(&shared).is_empty(), "a link is not followed");
        fs::remove_dir_all(&data).unwrap();
    }
}
