//! What the agent says of itself, as `holdfast cluster status` shows it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The groups of a machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeStatus {
    /// The name of the machine.
    pub node: String,
    /// Whether the interface that has the addresses has its link.
    pub has_link: bool,
    /// Its groups, in the order of the configuration.
    pub groups: Vec<GroupStatus>,
}

/// A group on one machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupStatus {
    /// Its name.
    pub name: String,
    /// What it does here.
    pub state: State,
    /// Why it failed here, or is paused; absent if it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Its addresses.
    pub addresses: Vec<String>,
    /// The process that serves it; absent if none does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// How often its server ended without being told to, since the group was started here.
    pub restarts: usize,
    /// How often it was started here since the agent was.
    pub starts_total: u64,
    /// How often its server ended without being told to, since the agent was started.
    pub restarts_total: u64,
    /// How often all clients were made to connect again since the agent was started: after a link or the addresses had been gone.
    pub reconnections_total: u64,
    /// Milliseconds since the server last renewed its claim on the data directory; absent if it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim_age_ms: Option<u64>,
    /// How long the last start here took; absent if there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_start: Option<Phases>,
}

/// What a group does on a machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// It is not served here.
    #[default]
    Stopped,
    /// Its server is started, or opens its pools.
    Starting,
    /// Its server is ready to take the group over from another machine.
    Standby,
    /// Clients are served.
    Serving,
    /// Clients wait: the server could not renew its claim for so long that another machine may have it.
    Paused,
    /// It was to be served here, and is not.
    Failed,
}

/// How long the phases of a start took, milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Phases {
    /// Fencing the other machine; 0 if the cluster manager did.
    pub fence_ms: u64,
    /// Mounting the device; 0 if the cluster manager did.
    pub mount_ms: u64,
    /// From the start of the server until it had the claim on the data directory.
    pub claim_ms: u64,
    /// Ending what remained of earlier connections.
    pub connections_ms: u64,
    /// Taking the addresses, and telling neighbours and clients.
    pub addresses_ms: u64,
    /// From then on until the server served, while addresses were taken.
    pub open_ms: u64,
    /// All of it.
    pub total_ms: u64,
}

impl Phases {
    /// Returns their names in the order in which they follow each other, each with its milliseconds; `total` is the last.
    #[must_use]
    pub fn named(self) -> [(&'static str, u64); 7] {
        [
            ("fence", self.fence_ms),
            ("mount", self.mount_ms),
            ("claim", self.claim_ms),
            ("connections", self.connections_ms),
            ("addresses", self.addresses_ms),
            ("open", self.open_ms),
            ("total", self.total_ms),
        ]
    }
}

impl State {
    /// All states.
    pub const ALL: [State; 6] =
        [State::Stopped, State::Starting, State::Standby, State::Serving, State::Paused, State::Failed];

    /// Returns the word for it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            State::Stopped => "stopped",
            State::Starting => "starting",
            State::Standby => "standby",
            State::Serving => "serving",
            State::Paused => "paused",
            State::Failed => "failed",
        }
    }
}

/// Returns milliseconds, as [`Phases`] counts them.
pub fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
