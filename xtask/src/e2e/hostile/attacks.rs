//! The attacks. Each returns a note on what the server did, or what it achieved and must not. The well-behaved clients
//! and the newcomers beside it are judged elsewhere.

use std::fmt;

use fastrand::Rng;

use super::super::Options;
use super::Scene;

mod callbacks;
mod calls;
mod clients;
mod connections;
mod datagrams;
mod fragments;
mod handshakes;
mod hoards;
mod identity;
mod kernel;
mod local;
mod logs;
mod names;
mod nlm;
mod records;
mod users;
mod waits;

/// The attacks of a sample.
const SAMPLE: usize = 5;

/// Who attacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    /// A host that no export admits.
    Stranger,
    /// A host that the export admits.
    Neighbour,
    /// An unprivileged user of a well-behaved client's host.
    ClientUser,
    /// A user of the server's machine.
    LocalUser,
}

impl fmt::Display for By {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            By::Stranger => "a stranger",
            By::Neighbour => "a neighbour",
            By::ClientUser => "a client's user",
            By::LocalUser => "a local user",
        })
    }
}

/// One attack.
#[derive(Debug)]
pub(in super::super) struct Attack {
    pub(super) name: &'static str,
    pub(super) by: By,
    pub(super) what: &'static str,
    pub(super) run: fn(&Scene) -> Result<String, String>,
    /// Whether the server is killed and restarted when the attack is over, before anybody must be served.
    pub(super) restarts: bool,
    /// What it has achieved is known when all are served again.
    pub(super) afterwards: fn() -> Result<(), String>,
}

const fn attack(
    name: &'static str,
    by: By,
    what: &'static str,
    run: fn(&Scene) -> Result<String, String>,
) -> Attack {
    Attack { name, by, what, run, restarts: false, afterwards: || Ok(()) }
}

pub(super) use handshakes::configuration;

use By::{ClientUser, LocalUser, Neighbour, Stranger};

const ALL: &[Attack] = &[
    attack(
        "stranger-calls",
        Stranger,
        "calls every program, over IPv4 and IPv6",
        connections::stranger_calls,
    ),
    attack("stranger-connections", Stranger, "connects as often as it can", connections::stranger_churn),
    attack(
        "stranger-datagrams",
        Stranger,
        "calls of all programs as datagrams, over IPv4 and IPv6",
        datagrams::strangers,
    ),
    attack("datagrams", Neighbour, "as many calls as datagrams as it can send", datagrams::flood),
    attack(
        "stranger-flood-busy",
        Stranger,
        "connects and leaves as fast as it can, beside a neighbour's flood of COMPOUNDs",
        connections::stranger_flood_busy,
    ),
    attack("stranger-idle", Stranger, "11,000 connections that say nothing", connections::stranger_idle),
    attack(
        "stranger-half-records",
        Stranger,
        "20 halves of records, then a byte each second",
        records::strange_halves,
    ),
    attack("half-records", Neighbour, "20 halves of records, then a byte each second", records::few_halves),
    attack("half-records-silent", Neighbour, "20 halves of records, then nothing", records::silent_halves),
    attack("half-records-many", Neighbour, "450 halves of records from one host", records::many_halves),
    attack("half-records-spread", Neighbour, "450 halves of records from 225 hosts", records::spread_halves),
    attack(
        "half-records-own",
        Neighbour,
        "20 halves of records from a host that writes itself",
        records::own_halves,
    ),
    attack("half-records-ipv6", Neighbour, "450 halves of records from a /64 network", records::halves_6),
    attack(
        "trickled-replies",
        Neighbour,
        "60 connections that read replies slowly",
        records::trickled_replies,
    ),
    attack("unread-replies", Neighbour, "60 connections that read no replies", records::unread_replies),
    attack("unread-in-kernel", Neighbour, "500 connections that call, and read nothing", kernel::unread),
    attack("idle-connections", Neighbour, "11,000 connections that say nothing", connections::idle),
    attack("idle-connections-ipv6", Neighbour, "11,000 connections from a /64 network", connections::idle_6),
    attack(
        "idle-connections-spread",
        Neighbour,
        "11,000 connections from 250 hosts",
        connections::idle_spread,
    ),
    attack(
        "connection-churn",
        Neighbour,
        "connects, calls and leaves as often as it can",
        connections::churn,
    ),
    attack(
        "unconfirmed-clients",
        Neighbour,
        "clients of NFSv4 that are never confirmed",
        clients::unconfirmed,
    ),
    attack("clients-v41", Neighbour, "one host is as many NFSv4.1 clients as it can", clients::sessions),
    attack("clients-v41-spread", Neighbour, "the same of 50 hosts", clients::sessions_spread),
    attack("clients-v41-crowd", Neighbour, "the same of 200 hosts", clients::sessions_crowd),
    attack("clients-v41-busy", Neighbour, "200 hosts keep a session busy", clients::sessions_busy),
    attack(
        "clients-v41-ipv6",
        Neighbour,
        "a client from each /64 of an IPv6 network",
        clients::sessions_networks,
    ),
    attack("clients-v40", Neighbour, "one host is as many NFSv4.0 clients as it can", clients::old),
    attack(
        "clients-in-turn",
        Neighbour,
        "12 hosts, one after another, are as many clients as they can",
        clients::in_turn,
    ),
    Attack {
        restarts: true,
        ..attack(
            "clients-nlm",
            Neighbour,
            "4 hosts with 64 names, each with a lock; then kill -9",
            clients::nlm,
        )
    },
    attack("slots", Neighbour, "all sessions and slots that it can have", clients::slots),
    attack("opens", Neighbour, "all opens and owners that it can have", hoards::opens),
    attack("opens-in-turn", Neighbour, "the same of 12 hosts, one after another", hoards::opens_in_turn),
    attack("locks", Neighbour, "all locked ranges that it can have", hoards::locks),
    attack("waiters", Neighbour, "all places in queues for locks that it can have", hoards::waiters),
    attack("waiters-nlm", Neighbour, "the same with NLM", hoards::waiters_nlm),
    attack(
        "delegations",
        Neighbour,
        "all delegations that it can have; it returns none",
        hoards::delegations,
    ),
    attack("xattrs", Neighbour, "extended attributes, as many as it can", hoards::xattrs),
    attack(
        "session-ids",
        Neighbour,
        "uses, binds and destroys another's session and client",
        identity::sessions,
    ),
    attack("client-names", Neighbour, "takes the names of other clients", identity::names),
    attack("stateids", Neighbour, "uses, unlocks and closes with another's stateids", identity::stateids),
    attack("replays-v41", Neighbour, "repeats requests of another user byte by byte", identity::replays_4),
    attack("replays-v3", Neighbour, "repeats calls of another user byte by byte", identity::replays_3),
    attack("nlm-unlock", Neighbour, "UNLOCK, FREE_ALL and SM_NOTIFY for another user's locks", nlm::unlock),
    attack("slow-callbacks", Neighbour, "12 hosts that answer callbacks slowly or never", callbacks::slow),
    attack("reflectors", Neighbour, "has the server call a bystander", callbacks::reflectors),
    Attack {
        restarts: true,
        afterwards: callbacks::after_restart_notices,
        ..attack(
            "restart-notices",
            Neighbour,
            "has the server notify a bystander of its restart",
            callbacks::restart_notices,
        )
    },
    attack("portmap", Neighbour, "has the portmapper forward calls and forget services", callbacks::portmap),
    attack(
        "refused-mounts",
        Neighbour,
        "mounts what does not exist, with line breaks in paths",
        logs::mounts,
    ),
    attack("many-names", Neighbour, "a directory of many names that ten connections list", names::many),
    attack("long-compounds", Neighbour, "60 connections with 20 long COMPOUNDs each", calls::long_compounds),
    attack("call-floods", Neighbour, "20 connections with 500 COMPOUNDs of LOOKUPs each", calls::floods),
    attack("clones-while-written", Neighbour, "CLONEs of a file that is written all the time", waits::clones),
    attack(
        "clones-by-path",
        Neighbour,
        "the same in COMPOUNDs that begin at the root",
        waits::clones_by_path,
    ),
    attack("truncations", Neighbour, "truncates files, each time a little longer", waits::truncations),
    attack("cold-reads", Neighbour, "256 READs of data that is not in memory", waits::cold_reads),
    attack(
        "fragmented-reads",
        Neighbour,
        "4 hosts read, clone and overwrite files of one-byte pieces",
        fragments::reads,
    ),
    attack(
        "held-replies",
        Neighbour,
        "48 COMPOUNDs of 12 hosts that take long and end with a large READ",
        fragments::held_replies,
    ),
    attack("users-calls", ClientUser, "5,000 calls wait for the rate limit of the host", users::calls),
    attack("deep-paths", Neighbour, "LOOKUPs of the deepest paths and longest COMPOUNDs", names::deep),
    attack(
        "api-handshakes",
        Stranger,
        "TLS handshakes of strangers and neighbours, halves of them, and requests without a token",
        handshakes::all,
    ),
    attack(
        "admin-socket",
        LocalUser,
        "reads the data directory, and holds the administrator's socket",
        local::files,
    ),
];

/// Finds an attack by name.
pub(in super::super) fn find(name: &str) -> Option<&'static Attack> {
    ALL.iter().find(|attack| attack.name == name)
}

/// The attacks that were asked for; a sample of all that the seed chooses; or all.
pub(super) fn chosen(options: &Options) -> Vec<&'static Attack> {
    if !options.attacks.is_empty() {
        return options.attacks.clone();
    }
    let mut all: Vec<&Attack> = ALL.iter().collect();
    if options.sample {
        Rng::with_seed(options.seed).shuffle(&mut all);
        all.truncate(SAMPLE);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_attack_has_a_name_of_its_own_in_the_proofs() {
        let path = crate::process::root().join("docs/proofs.md");
        let proofs = std::fs::read_to_string(path).unwrap();
        for attack in ALL {
            assert_eq!(ALL.iter().filter(|other| other.name == attack.name).count(), 1, "{}", attack.name);
            assert!(proofs.contains(&format!("| `{}` |", attack.name)), "{}", attack.name);
        }
    }
}
