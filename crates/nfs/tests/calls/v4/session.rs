//! A session of NFSv4.2.

use std::cell::Cell;

use wire::nfs4::*;

use super::support::{Results, compound_as, putfh};
use crate::support::{Client, Server, root};

/// A client with one session and one slot.
pub(crate) struct Session<'s> {
    pub(crate) server: &'s Server,
    who: Client,
    id: SessionId4,
    sequence: Cell<u32>,
    /// The largest reply.
    reply_bytes: u32,
}

impl<'s> Session<'s> {
    /// Creates a session like those of Linux.
    pub(crate) fn new(server: &'s Server) -> Session<'s> {
        Session::with_replies(server, 1 << 20)
    }

    /// Creates a session with limited replies.
    pub(crate) fn with_replies(server: &'s Server, reply_bytes: u32) -> Session<'s> {
        Session::made(server, root(), b"a client", reply_bytes, create_session_flag::CONN_BACK_CHAN)
    }

    /// Creates a session that cannot be called back.
    pub(crate) fn uncalled(server: &'s Server) -> Session<'s> {
        Session::made(server, root(), b"a client", 1 << 20, 0)
    }

    /// Creates a session of a client with this name that has completed its reclaims and can be called.
    pub(crate) fn of(server: &'s Server, name: &'static [u8]) -> Session<'s> {
        Session::of_host(server, root(), name)
    }

    /// The same for a client of another host.
    pub(crate) fn of_host(server: &'s Server, who: Client, name: &'static [u8]) -> Session<'s> {
        let session = Session::made(server, who, name, 1 << 20, create_session_flag::CONN_BACK_CHAN);
        session.compound(&[ArgOp4::ReclaimComplete(ReclaimCompleteArgs { one_fs: false })]);
        session
    }

    fn made(
        server: &'s Server,
        who: Client,
        name: &'static [u8],
        reply_bytes: u32,
        flags: u32,
    ) -> Session<'s> {
        let exchange = ArgOp4::ExchangeId(ExchangeIdArgs {
            clientowner: ClientOwner4 { verifier: [1; 8], ownerid: OwnerId4(name) },
            flags: 0,
            state_protect: StateProtect4A::None,
            client_impl_id: None,
        });
        let results = compound_as(server, who, 2, &[exchange]);
        let ResOp4::ExchangeId(Ok(client)) = results.last() else { panic!("{results:?}") };
        let channel = ChannelAttrs4 {
            headerpadsize: 0,
            maxrequestsize: 1 << 20,
            maxresponsesize: reply_bytes,
            maxresponsesize_cached: 1024,
            maxoperations: 16,
            maxrequests: 1,
            rdma_ird: None,
        };
        let create = ArgOp4::CreateSession(CreateSessionArgs {
            clientid: client.clientid,
            sequence: client.sequenceid,
            flags,
            fore_chan_attrs: channel,
            back_chan_attrs: ChannelAttrs4 { maxrequestsize: 4096, maxresponsesize: 4096, ..channel },
            cb_program: 1 << 30,
            sec_parms: wire::array::Array::EMPTY,
        });
        let results = compound_as(server, who, 2, &[create]);
        let ResOp4::CreateSession(Ok(session)) = results.last() else { panic!("{results:?}") };
        Session { server, who, id: session.sessionid, sequence: Cell::new(0), reply_bytes }
    }

    /// Returns the session at a server that was started again.
    pub(crate) fn resumed(server: &'s Server, (id, sequence): (SessionId4, u32)) -> Session<'s> {
        Session { server, who: root(), id, sequence: Cell::new(sequence), reply_bytes: 1 << 20 }
    }

    /// Returns what the client knows: the session's id, and the sequence of the last request.
    pub(crate) fn known(&self) -> (SessionId4, u32) {
        (self.id, self.sequence.get())
    }

    /// Binds the connection of the requests to the backchannel.
    pub(crate) fn bind_backchannel(&self) {
        let dir = ChannelDirFromClient4::BackOrBoth;
        let bind = BindConnToSessionArgs { sessid: self.id, dir, use_conn_in_rdma_mode: false };
        let results = compound_as(self.server, self.who, 2, &[ArgOp4::BindConnToSession(bind)]);
        assert_eq!(results.status, NfsStat4::Ok);
    }

    /// Returns SEQUENCE for the next request.
    pub(crate) fn sequence(&self, cachethis: bool) -> ArgOp4<'static> {
        self.sequence.set(self.sequence.get() + 1);
        ArgOp4::Sequence(SequenceArgs {
            sessionid: self.id,
            sequenceid: self.sequence.get(),
            slotid: 0,
            highest_slotid: 0,
            cachethis,
        })
    }

    /// Executes operations after a SEQUENCE.
    pub(crate) fn compound(&self, operations: &[ArgOp4<'_>]) -> Results {
        let all = [&[self.sequence(false)][..], operations].concat();
        compound_as(self.server, self.who, 2, &all)
    }

    /// Executes operations on an object. Returns the result of the last, or its status if it failed.
    pub(crate) fn on(&self, handle: &[u8], operations: &[ArgOp4<'_>]) -> Results {
        self.compound(&[&[putfh(handle)][..], operations].concat())
    }

    /// Returns the largest reply that was requested.
    pub(crate) fn reply_bytes(&self) -> u32 {
        self.reply_bytes
    }
}

/// Introduces an NFSv4.0 client with `address` for callbacks.
pub(crate) fn introduce(server: &Server, name: &'static [u8], address: &'static [u8]) -> ClientId4 {
    let set = ArgOp4::SetClientId(SetClientIdArgs {
        client: NfsClientId4 { verifier: [1; 8], id: OwnerId4(name) },
        callback: CbClient4 {
            cb_program: 1 << 30,
            cb_location: Netaddr4 { netid: Utf8Str4(b"tcp"), addr: Utf8Str4(address) },
        },
        callback_ident: 1,
    });
    let results = compound_as(server, root(), 0, &[set]);
    let ResOp4::SetClientId(SetClientIdRes::Ok(ok)) = results.last() else { panic!("{results:?}") };
    let (clientid, setclientid_confirm) = (ok.clientid, ok.setclientid_confirm);
    let confirm = SetClientIdConfirmArgs { clientid, setclientid_confirm };
    let results = compound_as(server, root(), 0, &[ArgOp4::SetClientIdConfirm(confirm)]);
    assert_eq!(results.status, NfsStat4::Ok);
    clientid
}

/// Introduces an NFSv4.0 client. Returns the addresses that the server calls.
fn called(server: &Server, name: &'static [u8], address: &'static [u8]) -> Vec<nfs::service::Destination> {
    introduce(server, name, address);
    server.service.take_callbacks().iter().map(|callback| callback.to).collect()
}

#[test]
fn callbacks_go_only_to_the_clients_own_address() {
    let server = Server::new();
    assert_eq!(called(&server, b"one", b"192.0.2.1.8.1").len(), 1);
    assert_eq!(called(&server, b"two", b"192.0.2.9.8.1"), []);
    assert_eq!(called(&server, b"three", b"127.0.0.1.0.22"), []);
}
