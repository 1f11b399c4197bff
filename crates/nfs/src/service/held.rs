//! Calls that rate limits judge, and may hold: their arrival shows that their clients are alive, though they are executed later.

use wire::nfs4::compound::CompoundReader;
use wire::nfs4::{self, ArgOp4, Stateid4};

use super::{ClockReading, Connection, IncomingRecord, Service};
use crate::charge::{Charge, Map};
use crate::context::ServiceContext;
use crate::state::ids::{Other, SessionId};

/// What identifies the client of a COMPOUND.
enum Shown {
    Session(SessionId),
    /// NFSv4.0: a stateid that it uses.
    Stateid(Other),
}

impl Service {
    /// Determines what a record counts towards rate limits; none if it is no call, or one that does nothing. It does not count for
    /// a volume that no export admits the caller to, whatever handle it names: others have that volume's limits.
    #[must_use]
    pub fn charge(&self, record: &IncomingRecord<'_>, connection: &Connection) -> Option<Charge> {
        let ServiceContext { exports, pseudo, .. } = &self.context;
        let mut charge = Charge::of(record, &Map { exports, pseudo, peer: connection.peer })?;
        charge.is_of_client = exports.admit(connection.peer);
        Some(charge)
    }

    /// Notes that a call has arrived which is held. It renews the lease of its client, as its execution would (RFC 7530 section
    /// 9.5, RFC 8881 section 8.3), and gives it time to return what was recalled.
    /// A call from a host that no export admits renews nothing.
    pub fn note_held(&self, record: &IncomingRecord<'_>, connection: &Connection, now: ClockReading) {
        if !self.context.exports.admit(connection.peer) {
            return;
        }
        let state = &self.context.shared.state;
        let address = connection.peer.ip().to_canonical();
        let client = match shown_by(record) {
            Some(Shown::Session(id)) => state.session(id).ok().map(|session| session.client.clone()),
            Some(Shown::Stateid(other)) => state.client_of(other).map(|(client, _)| client),
            None => None,
        };
        if let Some(client) = client.filter(|client| client.is_at(address)) {
            client.note_held(now.steady);
        }
    }
}

fn shown_by(record: &IncomingRecord<'_>) -> Option<Shown> {
    let (header, arguments) = record.call().ok()?;
    if (header.program, header.version) != (nfs4::PROGRAM, nfs4::VERSION) {
        return None;
    }
    let mut reader = CompoundReader::new(arguments.clone()).ok()?;
    while let Some(Ok(number)) = reader.next_number() {
        match reader.arguments_of(number).ok()? {
            ArgOp4::Sequence(args) => return Some(Shown::Session(SessionId(args.sessionid.0))),
            ArgOp4::Read(args) => return Some(shown_stateid(args.stateid)),
            ArgOp4::Write(args) => return Some(shown_stateid(args.stateid)),
            _ => {}
        }
    }
    None
}

fn shown_stateid(stateid: Stateid4) -> Shown {
    Shown::Stateid(Other(stateid.other))
}
