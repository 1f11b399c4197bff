//! What requests and responses hold, in JSON. Server and command line share these types, and the OpenAPI description is
//! made from them.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use crate::pools::PoolInfo;
pub use crate::rates::Kind;
pub use crate::rates::setting::{Rate, RateLimits, Setting, SettingChange};
pub use crate::volumes::quotas::{GracePeriods, Limit, QuotaChange, QuotaInfo, QuotaKind, QuotaList};
pub use crate::volumes::trees::{NewTree, TreeInfo, TreeList, TreeState};
pub use crate::volumes::{NewVolume, Root, VolumeChange, VolumeInfo};

/// What a caller may do. Each role may do what those before it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Sees everything but secrets.
    Viewer,
    /// Changes what can be changed back: reloads exports, makes and changes volumes.
    Operator,
    /// Changes everything.
    Admin,
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Role::Viewer => "viewer",
            Role::Operator => "operator",
            Role::Admin => "admin",
        })
    }
}

impl FromStr for Role {
    type Err = String;

    fn from_str(text: &str) -> Result<Role, String> {
        let roles = [Role::Viewer, Role::Operator, Role::Admin];
        roles
            .into_iter()
            .find(|role| role.to_string() == text)
            .ok_or_else(|| "a role is viewer, operator or admin".to_owned())
    }
}

/// A token, without its secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Token {
    /// Its name, by which it is listed, logged and deleted.
    pub name: String,
    /// What its bearer may do.
    pub role: Role,
    /// When it was created: seconds since 1970.
    pub created: u64,
}

/// A token that was just created.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CreatedToken {
    /// The token.
    #[serde(flatten)]
    pub token: Token,
    /// What its bearer sends as `Authorization: Bearer SECRET`. It is not shown again.
    pub secret: String,
}

/// A token to create.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewToken {
    /// Its name: 1 to 64 letters, digits, `.`, `_` and `-`.
    pub name: String,
    /// What its bearer may do.
    pub role: Role,
}

/// What to change of the rate limits of one object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct QosChange {
    /// What it is.
    pub kind: Kind,
    /// Its name; of a client, its IP address, or `*` for each client without limits of its own.
    pub name: String,
    /// What to change.
    pub set: SettingChange,
}

/// An object with rate limits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct QosInfo {
    /// What it is.
    pub kind: Kind,
    /// Its name; of a client, its IP address, or `*` for each client without limits of its own.
    pub name: String,
    /// What is set.
    pub set: Setting,
    /// Whether there is no such target or pool any more. What is set for it can only be reset.
    pub is_unused: bool,
    /// The limits that follow, in bytes or operations a second.
    pub in_force: RateLimits,
    /// What may pass at once: as much as the limits allow in this time.
    pub burst_milliseconds: u64,
    /// For how long calls have waited for each limit since the server started; of `*`, the sum of those of all such clients.
    pub throttled_milliseconds: RateLimits,
    /// Calls that wait for each limit now.
    pub waiting: RateLimits,
}

/// A tier: rate limits by name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TierInfo {
    /// Its name.
    pub name: String,
    /// Its limits, whatever the size, in bytes or operations a second.
    pub limits: RateLimits,
    /// Bytes a second, read and written, for each TiB of a volume's size; null if it does not depend on the size.
    pub total_bytes_per_tib: Option<u64>,
    /// What may pass at once: as much as the limits allow in this time.
    pub burst_milliseconds: u64,
}

/// Success, without further content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Done {}

/// Whether the server is healthy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Health {
    /// Always `ok`: a server that is not healthy answers with problem details.
    pub status: String,
}

/// What the server serves, and its counters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Status {
    /// The version of the server.
    pub version: String,
    /// Its process id.
    pub pid: u32,
    /// Seconds since it began to serve.
    pub uptime_seconds: u64,
    /// Addresses on which it listens for NFS.
    pub listen: Vec<String>,
    /// Paths that clients may mount.
    pub exports: Vec<String>,
    /// Counters and gauges of the server.
    pub server: BTreeMap<String, u64>,
    /// Calls executed since the start, by operation.
    pub calls: BTreeMap<String, u64>,
    /// The volumes, by name.
    pub volumes: BTreeMap<String, VolumeStatus>,
    /// Why the last reload of the configuration failed, if it did.
    pub reload_failed: Option<String>,
}

/// The state of a volume.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct VolumeStatus {
    /// Its identity: 16 hexadecimal digits.
    pub id: String,
    /// Why it refuses changes, if it does.
    pub refuses_changes: Option<String>,
    /// What is damaged, if anything is.
    pub damage: Option<String>,
    /// Whether it is full: clients get "no space left".
    pub is_full: bool,
    /// Its counters and gauges.
    #[serde(flatten)]
    pub gauges: BTreeMap<String, u64>,
}

/// An export and its rules.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Export {
    /// The path that clients mount.
    pub path: String,
    /// The name of the volume.
    pub volume: String,
    /// Whether changes are refused.
    pub read_only: bool,
    /// Whose identity is replaced by the anonymous one: `root`, `all` or `none`.
    pub squash: String,
    /// The anonymous user.
    pub anonymous_uid: u32,
    /// The anonymous group.
    pub anonymous_gid: u32,
    /// Networks whose clients are admitted; if empty, all clients are.
    pub clients: Vec<String>,
    /// Whether clients must call from a port below 1024.
    pub require_privileged_port: bool,
    /// Whether clients of NFSv4 may be given delegations.
    pub delegations: bool,
}

/// What reloading the configuration changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Reloaded {
    /// The number of exports in force.
    pub exports: u64,
    /// Keys of the configuration that have changed and take effect with the next start.
    pub restart_keys: Vec<String>,
}

/// An event: something that happened and that an operator may want to know.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Event {
    /// Its number. Numbers grow by one; after a restart they begin with 1 again.
    pub number: u64,
    /// When it happened: milliseconds since 1970.
    pub milliseconds: i64,
    /// Its severity: `ERROR`, `WARN` or `INFO`.
    pub level: String,
    /// What kind of event it is, such as `volume_full`.
    pub kind: String,
    /// A sentence.
    pub message: String,
    /// What it is about.
    pub fields: serde_json::Map<String, serde_json::Value>,
}

/// Events, the oldest first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EventList {
    /// The number of the newest event, also if it is not in this list.
    pub last: u64,
    /// Events that were asked for, and that are no longer kept.
    pub missed: u64,
    /// The events.
    pub events: Vec<Event>,
}

/// A client that is connected or holds something.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Client {
    /// Its address; of a link-local one, with the number of the server's interface, as in `fe80::1%2`.
    pub address: String,
    /// The protocols of its calls and of what it holds.
    pub protocols: Vec<String>,
    /// Its open connections.
    pub connections: u64,
    /// Calls received over them.
    pub calls: u64,
    /// Bytes received and sent over them.
    pub bytes: u64,
    /// Seconds since a byte moved over them or, if there are none, since it renewed what it holds.
    pub idle_seconds: u64,
    /// Sessions of NFSv4.1 and 4.2.
    pub sessions: u64,
    /// Stateids of NFSv4: opens, locks and delegations.
    pub stateids: u64,
    /// Ranges of files that it has locked.
    pub locked_ranges: u64,
    /// Delegations.
    pub delegations: u64,
}

/// Clients, by their addresses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClientList {
    /// The clients.
    pub clients: Vec<Client>,
    /// What to ask for as `after` to get those that follow; none if these are the last.
    pub next: Option<String>,
}

/// Time that calls took, in nanoseconds, by what they were doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PhaseTimes {
    /// They waited for their turn, or for memory.
    pub queue: u64,
    /// Rate limits held them.
    pub qos: u64,
    /// They waited for a worker, for a limit of the pool, or for something that was in their way.
    pub line: u64,
    /// They were executed.
    pub engine: u64,
    /// Their replies waited until what they show was durable.
    pub durability: u64,
    /// Their replies were sent.
    pub send: u64,
}

impl PhaseTimes {
    /// The phases with their names, in the order in which a call passes through them.
    #[must_use]
    pub fn all(&self) -> [(&'static str, u64); 6] {
        let PhaseTimes { queue, qos, line, engine, durability, send } = *self;
        [
            ("queue", queue),
            ("qos", qos),
            ("line", line),
            ("engine", engine),
            ("durability", durability),
            ("send", send),
        ]
    }

    /// Applies a function to each phase of two sums.
    fn with(&self, other: &PhaseTimes, combine: fn(u64, u64) -> u64) -> PhaseTimes {
        PhaseTimes {
            queue: combine(self.queue, other.queue),
            qos: combine(self.qos, other.qos),
            line: combine(self.line, other.line),
            engine: combine(self.engine, other.engine),
            durability: combine(self.durability, other.durability),
            send: combine(self.send, other.send),
        }
    }
}

/// Sums over calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ActivityCounts {
    /// Their number. A COMPOUND is one call.
    pub calls: u64,
    /// Bytes of file data that they read.
    pub read_bytes: u64,
    /// Bytes of file data that they wrote.
    pub written_bytes: u64,
    /// The time from their arrival until their replies were sent, in nanoseconds.
    pub nanoseconds: PhaseTimes,
}

impl ActivityCounts {
    /// Adds other calls.
    pub fn add(&mut self, other: &ActivityCounts) {
        *self = self.with(other, u64::wrapping_add);
    }

    /// Returns what was counted since an earlier reading.
    #[must_use]
    pub fn since(&self, earlier: &ActivityCounts) -> ActivityCounts {
        self.with(earlier, u64::saturating_sub)
    }

    fn with(&self, other: &ActivityCounts, combine: fn(u64, u64) -> u64) -> ActivityCounts {
        ActivityCounts {
            calls: combine(self.calls, other.calls),
            read_bytes: combine(self.read_bytes, other.read_bytes),
            written_bytes: combine(self.written_bytes, other.written_bytes),
            nanoseconds: self.nanoseconds.with(&other.nanoseconds, combine),
        }
    }
}

/// An operation of a client on a volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Activity {
    /// The address of the client.
    pub client: String,
    /// The name of the volume; empty if the calls were about none.
    pub volume: String,
    /// The protocol: `nfs3`, `nfs4`, `nlm`, `mount`, `nsm`, `rquota`, `portmap` or `rpc`.
    pub protocol: String,
    /// The operation; of a COMPOUND, the one that it was made for.
    pub operation: String,
    /// What the calls came to.
    #[serde(flatten)]
    pub counts: ActivityCounts,
}

/// Calls about a file or a directory, by what they do with it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CallKinds {
    /// They read data.
    pub read: u64,
    /// They wrote data, or committed it.
    pub write: u64,
    /// They were about names in it: they looked them up, opened, made, removed, renamed or listed them.
    pub name: u64,
    /// They were about its attributes, about locks, or about anything else.
    pub other: u64,
}

impl CallKinds {
    /// The kinds with their names.
    #[must_use]
    pub fn all(&self) -> [(&'static str, u64); 4] {
        let CallKinds { read, write, name, other } = *self;
        [("read", read), ("write", write), ("name", name), ("other", other)]
    }
}

/// What the calls about a file or a directory came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ObjectCounts {
    /// Their number. A COMPOUND is one call.
    pub calls: u64,
    /// Bytes of file data that they read.
    pub read_bytes: u64,
    /// Bytes of file data that they wrote.
    pub written_bytes: u64,
    /// Their number, by what they did.
    pub kinds: CallKinds,
}

impl ObjectCounts {
    /// Returns what results from applying a function to each number and to the same number of `other`.
    #[must_use]
    pub fn with(&self, other: &ObjectCounts, combine: impl Fn(u64, u64) -> u64) -> ObjectCounts {
        ObjectCounts {
            calls: combine(self.calls, other.calls),
            read_bytes: combine(self.read_bytes, other.read_bytes),
            written_bytes: combine(self.written_bytes, other.written_bytes),
            kinds: CallKinds {
                read: combine(self.kinds.read, other.kinds.read),
                write: combine(self.kinds.write, other.kinds.write),
                name: combine(self.kinds.name, other.kinds.name),
                other: combine(self.kinds.other, other.kinds.other),
            },
        }
    }
}

/// A file, a directory or another object that many calls, or much data, are about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HotObject {
    /// The name of the volume.
    pub volume: String,
    /// Its number in the volume, which clients see as its inode number.
    pub inode: u64,
    /// What it is: `file`, `directory`, `symlink`, `special`, `removed`, or `unknown`.
    pub kind: String,
    /// Its path in the volume: one of them if it has several; none if it is not known; of a removed object, the last one, if it is
    /// known. Bytes that are not UTF-8, backslashes, control characters and formatting characters are written as `\x` and two
    /// hexadecimal digits.
    pub path: Option<String>,
    /// How long its calls have been counted. Those before that are missing.
    pub counted_milliseconds: u64,
    /// What the calls came to.
    #[serde(flatten)]
    pub counts: ObjectCounts,
}

/// What clients are doing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ActivityList {
    /// Activities, those with the most calls first.
    pub activities: Vec<Activity>,
    /// All other calls.
    pub others: ActivityCounts,
    /// The hottest files and directories, in order.
    pub objects: Vec<HotObject>,
}

/// Why a request was refused (RFC 9457).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProblemDetails {
    /// The status code.
    pub status: u16,
    /// The meaning of the status code.
    pub title: String,
    /// What is wrong, and what to do.
    pub detail: String,
}
