//! What the server's clocks show.

use volume::time::Time;

/// A reading of both clocks of a server, taken by the caller.
///
/// The wall clock may be set, by days or by milliseconds. Leases and other timeouts must neither end at
/// once then nor last for ever, so they follow a monotonic clock. File times follow the wall clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockReading {
    /// The wall clock.
    pub wall: Time,
    /// A clock that is never set and never stops. Any time may be its first, but a later start of the server should begin with a
    /// later one.
    pub steady: Time,
}

impl From<Time> for ClockReading {
    /// Both clocks show `time`.
    fn from(time: Time) -> ClockReading {
        ClockReading { wall: time, steady: time }
    }
}
