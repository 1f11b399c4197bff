//! Bounds what the log takes in, whatever clients do. Events are counted by kind, the place in the program that makes them,
//! and by client. In one period each client has a few lines of each kind, a line is not repeated, and what is left out is
//! counted. A bounded number of clients is counted individually; all others share one count.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::Hash;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use nfs::link_local;
use nfs::service::origin;

/// How long lines are counted before the counts begin anew.
pub(super) const PERIOD: Duration = Duration::from_secs(60);

/// Lines of one kind about one client in a period: enough to see a pattern.
const LINES_PER_CLIENT_MAX: usize = 5;

/// Warnings and errors of one kind that concern no client, in a period.
const LINES_OF_SERVER_MAX: usize = 100;

/// Clients that are told apart, for each kind. A line has about 300 bytes, so all clients together make the log grow by at
/// most 2 KiB/s per kind.
const CLIENTS_MAX: usize = 64;

/// Whom an event concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Source {
    /// No client: the server itself.
    Server,
    /// A client, as all limits count clients.
    Client(IpAddr),
    /// Clients beyond [`CLIENTS_MAX`].
    OtherClients,
}

impl Source {
    /// Returns the source of an event with this field `client`: an address, with or without a port.
    pub(super) fn of_client(text: &str) -> Source {
        let with_port = text.parse::<SocketAddr>().ok().and_then(link_local::named);
        let address = with_port.map(|peer| peer.ip()).or_else(|| link_local::parse(text));
        address.map_or(Source::OtherClients, |address| Source::Client(origin(address)))
    }

    fn lines_max(self) -> usize {
        if self == Source::Server { LINES_OF_SERVER_MAX } else { LINES_PER_CLIENT_MAX }
    }
}

/// Lines of one kind from one source in the current period.
#[derive(Debug, Default)]
struct Count {
    /// Hashes of the lines that were logged.
    logged: Vec<u64>,
    left_out: u64,
}

/// Lines of one kind in the current period.
#[derive(Debug)]
struct Kind {
    /// The message of the first one.
    message: String,
    counts: HashMap<Source, Count>,
}

/// Lines that were not logged.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct LeftOut {
    pub(super) message: String,
    pub(super) source: Source,
    pub(super) count: u64,
}

/// The counts of the current period. `K` names a kind.
#[derive(Debug)]
pub(super) struct Limiter<K>(Mutex<HashMap<K, Kind>>);

impl<K> Default for Limiter<K> {
    fn default() -> Limiter<K> {
        Limiter(Mutex::default())
    }
}

impl<K: Eq + Hash> Limiter<K> {
    /// Whether to log a line whose text has this hash; counts it.
    pub(super) fn admits(&self, kind: K, message: &str, source: Source, hash: u64) -> bool {
        let mut kinds = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let kind =
            kinds.entry(kind).or_insert_with(|| Kind { message: message.to_owned(), counts: HashMap::new() });
        let is_told_apart = kind.counts.len() < CLIENTS_MAX || kind.counts.contains_key(&source);
        let source = if is_told_apart || source == Source::Server { source } else { Source::OtherClients };
        let count = match kind.counts.entry(source) {
            Entry::Occupied(count) => count.into_mut(),
            Entry::Vacant(place) => place.insert(Count::default()),
        };
        let is_logged = count.logged.len() < source.lines_max() && !count.logged.contains(&hash);
        if is_logged {
            count.logged.push(hash);
        } else {
            count.left_out += 1;
        }
        is_logged
    }

    /// Begins a new period. Returns what was left out in the last one.
    pub(super) fn begin_period(&self) -> Vec<LeftOut> {
        let kinds = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        let mut left_out: Vec<LeftOut> = kinds
            .into_values()
            .flat_map(|Kind { message, counts }| {
                let counts = counts.into_iter().filter(|(_, count)| count.left_out > 0);
                counts.map(move |(source, count)| LeftOut {
                    message: message.clone(),
                    source,
                    count: count.left_out,
                })
            })
            .collect();
        left_out.sort_unstable();
        left_out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The client with this number.
    fn client(number: u32) -> Source {
        Source::Client(IpAddr::V4(number.into()))
    }

    fn left_out(message: &str, source: Source, count: u64) -> LeftOut {
        LeftOut { message: message.to_owned(), source, count }
    }

    #[test]
    fn a_client_has_a_few_lines_of_each_kind_in_a_period() {
        let limiter = Limiter::default();
        let admitted =
            |kind, source| (0..100).filter(|line| limiter.admits(kind, kind, source, *line)).count();
        assert_eq!(admitted("refused", client(1)), LINES_PER_CLIENT_MAX);
        assert_eq!(admitted("refused", client(2)), LINES_PER_CLIENT_MAX, "another client");
        assert_eq!(admitted("damaged", client(1)), LINES_PER_CLIENT_MAX, "another kind");
        assert_eq!(admitted("damaged", Source::Server), LINES_OF_SERVER_MAX, "no client");
        let expected = [
            left_out("damaged", client(1), 95),
            left_out("refused", client(1), 95),
            left_out("refused", client(2), 95),
        ];
        assert_eq!(limiter.begin_period(), expected);
        assert_eq!(limiter.begin_period(), []);
        assert_eq!(admitted("refused", client(1)), LINES_PER_CLIENT_MAX, "a new period");
    }

    #[test]
    fn a_line_is_not_repeated_in_a_period() {
        let limiter = Limiter::default();
        for _ in 0..2 {
            assert!(limiter.admits("refused", "refused", client(1), 7));
            assert!(!limiter.admits("refused", "refused", client(1), 7));
            assert!(limiter.admits("refused", "refused", client(1), 8));
            assert!(limiter.admits("refused", "refused", client(2), 7));
            assert_eq!(limiter.begin_period(), [left_out("refused", client(1), 1)]);
        }
    }

    #[test]
    fn clients_beyond_the_limit_share_one_count() {
        let limiter = Limiter::default();
        let admitted =
            (0..100_000).filter(|number| limiter.admits((), "refused", client(*number), 0)).count();
        assert_eq!(admitted, CLIENTS_MAX + 1, "the others have the same line in common");
        assert!(limiter.admits((), "refused", Source::Server, 0), "the server is not counted among them");
        assert!(limiter.0.lock().unwrap()[&()].counts.len() <= CLIENTS_MAX + 2);
        let others = 100_000 - u64::try_from(admitted).unwrap();
        assert_eq!(limiter.begin_period(), [left_out("refused", Source::OtherClients, others)]);
    }

    #[test]
    fn addresses_of_one_client_count_together() {
        let same = |a, b| assert_eq!(Source::of_client(a), Source::of_client(b));
        same("192.0.2.1:700", "192.0.2.1");
        same("[::ffff:192.0.2.1]:701", "192.0.2.1");
        same("[2001:db8::1]:700", "2001:db8::ffff:0:0:1");
        assert_ne!(Source::of_client("2001:db8::1"), Source::of_client("2001:db8:0:1::1"));
        assert_ne!(Source::of_client("192.0.2.1"), Source::of_client("192.0.2.2"));
        assert_eq!(Source::of_client("nonsense"), Source::OtherClients);
    }
}
