//! What the server knows of its clients.

use std::time::Duration;

use volume::time::Time;

use crate::call::ConnectionId;
use crate::v4::callback::Callback;

/// The longest that nothing is looked at.
const TICK: Duration = Duration::from_secs(1);

/// Clients and what they hold. Survives a change of the configuration.
#[derive(Debug, Default)]
pub(crate) struct State {}

impl State {
    /// A reply to a callback has come by this connection of a client; none: by one of our own.
    pub(crate) fn reply(&self, _record: &[u8], _connection: Option<ConnectionId>, _now: Time) {}

    /// A connection is gone.
    pub(crate) fn connection_closed(&self, _connection: ConnectionId) {}

    /// Does what is due by time; returns when to look again.
    pub(crate) fn tick(&self, _now: Time) -> Duration {
        TICK
    }

    /// The callbacks to be sent.
    pub(crate) fn take_callbacks(&self) -> Vec<Callback> {
        Vec::new()
    }

    /// A callback could not be sent.
    pub(crate) fn callback_failed(&self, _id: u64, _now: Time) {}

    /// Whom to tell of new callbacks.
    pub(crate) fn on_callbacks(&self, _notify: Box<dyn Fn() + Send + Sync>) {}
}
