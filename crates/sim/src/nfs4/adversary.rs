//! The adversary: another host, or another user of a client's host. It knows every handle, id and request, and sees
//! requests before the server does. It does not know a client's verifier: with that, and the same principal, AUTH_SYS
//! cannot tell it from a client with a second address.
//!
//! Its requests are refused, and no client notices them, which the other checks prove. It also becomes as many clients as
//! it can, and there is still room for others.

use nfs::service::Connection;
use wire::nfs4::*;

use super::client::Phase;
use super::message::{self, Results};
use super::op::Op;
use super::world::World;
use crate::compound::{channel, create_session, exchange_id, putfh, set_client_id};
use crate::random::Random;

/// The adversary's user.
const USER: u32 = 1000;
/// The requests that it remembers.
const REQUESTS_SEEN: usize = 60;
/// The clients that it tries to become at once: more than there may be.
const CLIENTS_HOARDED: usize = 128;

/// How an introduction ended.
enum Become {
    Confirmed,
    /// There are too many clients.
    Refused,
    /// The server has to wait for something.
    Postponed,
}

/// Whether the status says that a request was refused because of its sender, or for an id that does not exist.
fn is_refusal(status: NfsStat4) -> bool {
    matches!(
        status,
        NfsStat4::ConnNotBoundToSession
            | NfsStat4::BadSession
            | NfsStat4::SeqFalseRetry
            | NfsStat4::SeqMisordered
            | NfsStat4::RetryUncachedRep
            | NfsStat4::WrongCred
            | NfsStat4::ClidInUse
            | NfsStat4::StaleClientId
            | NfsStat4::BadStateId
            | NfsStat4::OldStateId
            | NfsStat4::StaleStateId
            | NfsStat4::Expired
            // It is being executed for the client.
            | NfsStat4::Delay
            // The file was removed since.
            | NfsStat4::Stale
    )
}

/// Whether a request names a client, a session or a stateid. For others the address does not matter, only the user.
fn names_a_client(op: &Op, minor: u32) -> bool {
    match op {
        // The verifier proves the client's identity; the id of a session and the principal prove a new address.
        Op::Exchange | Op::SetClient | Op::Bind => false,
        Op::Name(_) | Op::Commit { .. } => minor > 0,
        _ => true,
    }
}

/// Whether only the principal of the client, or of the open, may send a request. In a session, this holds for requests that
/// were already executed.
fn is_of_its_principal(op: &Op, minor: u32, answered: bool) -> bool {
    match op {
        Op::Exchange | Op::SetClient => false,
        Op::CreateSession | Op::Bind | Op::ConfirmClient => true,
        _ if minor > 0 => answered,
        Op::Confirm { .. } | Op::Close { .. } | Op::Lock { .. } | Op::Unlock { .. } => true,
        _ => false,
    }
}

impl World {
    /// The adversary sends a request or two.
    pub(super) fn attack(&mut self) -> Result<(), String> {
        let mut random = self.adversary.fork();
        let known: Vec<usize> =
            (0..self.clients.len()).filter(|client| self.clients[*client].phase != Phase::New).collect();
        if known.is_empty() {
            return Ok(());
        }
        let victim = *random.pick(&known);
        match random.below(11) {
            0..=3 => self.replay_elsewhere(&mut random),
            4 | 5 => self.replay_for_another_user(&mut random),
            6 | 7 => self.use_known_ids(victim, &mut random),
            8 => self.guess(victim, &mut random),
            9 => self.hoard(&mut random),
            _ => self.take_name(victim, &mut random),
        }
    }

    /// Returns a connection of the adversary's host; with the planted fault, of the client's, as a server that does not check
    /// addresses would take it.
    fn elsewhere(&self, victim: usize, random: &mut Random) -> Connection {
        let client = &self.clients[victim];
        if self.plan.takes_any_address {
            return message::connection(client.host, *random.pick(&client.connections));
        }
        message::foreign_connection(1, 1 << 40)
    }

    /// Chooses one of the last requests.
    fn seen(&self, random: &mut Random, fits: impl Fn(&Op, u32, bool) -> bool) -> Option<usize> {
        let first = self.calls.len().saturating_sub(REQUESTS_SEEN);
        let seen: Vec<usize> = (first..self.calls.len())
            .filter(|number| {
                let call = &self.calls[*number];
                fits(&call.op, self.clients[call.client].minor, call.answer.is_some())
            })
            .collect();
        (!seen.is_empty()).then(|| *random.pick(&seen))
    }

    /// Repeats a request byte for byte from another address.
    fn replay_elsewhere(&mut self, random: &mut Random) -> Result<(), String> {
        let Some(number) = self.seen(random, |op, minor, _| names_a_client(op, minor)) else { return Ok(()) };
        let call = &self.calls[number];
        let connection = self.elsewhere(call.client, random);
        let (xid, record) = (call.xid, call.record.clone());
        self.expect_refusal(xid, &record, connection, || format!("call {number} from elsewhere"))
    }

    /// Repeats a request for another user of the client's host.
    fn replay_for_another_user(&mut self, random: &mut Random) -> Result<(), String> {
        let Some(number) = self.seen(random, is_of_its_principal) else { return Ok(()) };
        let call = &self.calls[number];
        let client = &self.clients[call.client];
        let connection = message::connection(client.host, *random.pick(&client.connections));
        let user = if self.plan.takes_any_principal { 0 } else { USER };
        let (xid, record) = (call.xid, message::on_behalf_of(user, &call.record)?);
        self.expect_refusal(xid, &record, connection, || format!("call {number} for another user"))
    }

    /// Uses a client's ids from another address.
    fn use_known_ids(&mut self, victim: usize, random: &mut Random) -> Result<(), String> {
        let connection = self.elsewhere(victim, random);
        let client = &self.clients[victim];
        let (clientid, sessionid, minor) = (client.clientid, client.sessionid, client.minor);
        let sequence = client.slots[0].sequence.wrapping_add(1);
        let operation = match random.below(4) {
            _ if minor == 0 => ArgOp4::Renew(RenewArgs { clientid }),
            0 => ArgOp4::DestroySession(DestroySessionArgs { sessionid }),
            1 => ArgOp4::DestroyClientId(DestroyClientIdArgs { clientid }),
            2 => {
                let channels = (channel(1 << 16, 1), channel(1 << 16, 4));
                create_session(clientid, client.create_sequence, 0, channels)
            }
            _ => sequence_of(sessionid, sequence),
        };
        let record = message::compound(1, minor, &[operation]);
        self.expect_refusal(1, &record, connection, || format!("the ids of client {victim}: {operation:?}"))
    }

    /// Guesses ids near known ones, as a user of the client's host.
    fn guess(&mut self, victim: usize, random: &mut Random) -> Result<(), String> {
        let client = &self.clients[victim];
        let connection = message::connection(client.host, *random.pick(&client.connections));
        let minor = client.minor;
        let stateids: Vec<Stateid4> =
            client.slots.iter().flat_map(|slot| slot.known.iter().map(|held| held.stateid)).collect();
        let handle = self.files[0].handle.clone().unwrap_or_default();
        let operations = match stateids.is_empty() {
            false if minor == 0 => {
                let mut stateid = *random.pick(&stateids);
                change(&mut stateid.other, random);
                vec![putfh(&handle), ArgOp4::Close(CloseArgs { seqid: 1, open_stateid: stateid })]
            }
            _ if minor == 0 => {
                let mut clientid = client.clientid.0.to_be_bytes();
                change(&mut clientid, random);
                vec![ArgOp4::Renew(RenewArgs { clientid: ClientId4(u64::from_be_bytes(clientid)) })]
            }
            _ => {
                let mut sessionid = client.sessionid;
                change(&mut sessionid.0, random);
                vec![sequence_of(sessionid, client.slots[0].sequence.wrapping_add(1))]
            }
        };
        let record = message::compound(1, minor, &operations);
        self.expect_refusal(1, &record, connection, || format!("a guess: {operations:?}"))
    }

    /// Introduces itself by a client's name. That creates another client, and changes nothing for the first.
    fn take_name(&mut self, victim: usize, random: &mut Random) -> Result<(), String> {
        let connection = self.elsewhere(victim, random);
        let client = &self.clients[victim];
        self.become_client(connection, client.name.as_bytes(), client.minor, random.next())?;
        self.note(|| format!("the adversary takes the name of client {victim}"));
        Ok(())
    }

    /// Becomes as many clients as it can. There is still room for a stranger.
    fn hoard(&mut self, random: &mut Random) -> Result<(), String> {
        let minor = u32::try_from(random.below(3)).unwrap_or(0);
        let hoarder = message::foreign_connection(1, 1 << 40);
        let mut taken = 0;
        for _ in 0..CLIENTS_HOARDED {
            let (name, verifier) = (random.next().to_be_bytes(), random.next());
            match self.become_client(hoarder, &name, minor, verifier)? {
                Become::Confirmed => taken += 1,
                Become::Refused => break,
                Become::Postponed => return Ok(()),
            }
        }
        self.note(|| format!("the adversary became {taken} clients"));
        let stranger = message::foreign_connection(2, 1 << 41);
        match self.become_client(stranger, b"stranger", minor, 1)? {
            Become::Refused => {
                Err(format!("the adversary became {taken} clients, and there is room for no other"))
            }
            Become::Confirmed | Become::Postponed => Ok(()),
        }
    }

    /// Introduces a client of the adversary's, and confirms it.
    fn become_client(
        &self,
        connection: Connection,
        name: &[u8],
        minor: u32,
        verifier: u64,
    ) -> Result<Become, String> {
        let verifier = verifier.to_be_bytes();
        let introduce = match minor {
            0 => set_client_id(name, verifier, "0.0.0.0.0.0"),
            _ => exchange_id(name, verifier),
        };
        let record = message::compound(1, minor, &[introduce]);
        let Some(out) = self.server.probe(&record, connection, self.now)? else {
            return Ok(Become::Postponed);
        };
        let results = Results::parse(&out, 1)?;
        let confirm = match results.all.as_slice() {
            _ if results.status == NfsStat4::Delay => return Ok(Become::Refused),
            [ResOp4::ExchangeId(Ok(ok))] => {
                let channels = (channel(1 << 16, 1), channel(1 << 16, 4));
                create_session(ok.clientid, ok.sequenceid, 0, channels)
            }
            [ResOp4::SetClientId(SetClientIdRes::Ok(ok))] => {
                let (clientid, setclientid_confirm) = (ok.clientid, ok.setclientid_confirm);
                ArgOp4::SetClientIdConfirm(SetClientIdConfirmArgs { clientid, setclientid_confirm })
            }
            other => return Err(format!("the adversary may have a client of its own: {other:?}")),
        };
        let record = message::compound(1, minor, &[confirm]);
        let Some(out) = self.server.probe(&record, connection, self.now)? else {
            return Ok(Become::Postponed);
        };
        let refused = Results::parse(&out, 1)?.status == NfsStat4::Delay;
        Ok(if refused { Become::Refused } else { Become::Confirmed })
    }

    fn expect_refusal(
        &mut self,
        xid: u32,
        record: &[u8],
        connection: Connection,
        what: impl Fn() -> String,
    ) -> Result<(), String> {
        let told = |wrong: String| format!("the adversary sent {}: {wrong}", what());
        let Some(out) = self.server.probe(record, connection, self.now).map_err(told)? else { return Ok(()) };
        let results = Results::parse(&out, xid).map_err(told)?;
        let status = results.status;
        let no_file = matches!(results.all.last(), Some(ResOp4::Putfh(Err(_))));
        self.note(|| format!("the adversary sent {}: {status:?}", what()));
        if !is_refusal(status) && !no_file {
            return Err(told(format!("{status:?}")));
        }
        self.tally.refused += 1;
        Ok(())
    }
}

fn sequence_of(sessionid: SessionId4, sequenceid: u32) -> ArgOp4<'static> {
    let (slotid, highest_slotid, cachethis) = (0, 0, false);
    ArgOp4::Sequence(SequenceArgs { sessionid, sequenceid, slotid, highest_slotid, cachethis })
}

/// Changes an id a little: adds one to a byte, or flips bits of the last four.
fn change(id: &mut [u8], random: &mut Random) {
    let length = id.len();
    if random.chance(1, 2) {
        let byte = random.index(length);
        id[byte] = id[byte].wrapping_add(1);
        return;
    }
    let mask = u32::try_from(random.below(u64::from(u32::MAX))).unwrap_or(0) | 1;
    id[length - 4..].iter_mut().zip(mask.to_be_bytes()).for_each(|(byte, mask)| *byte ^= mask);
}
