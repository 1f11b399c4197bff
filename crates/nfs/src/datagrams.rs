//! Calls that come as datagrams: those of RQUOTA and of the portmapper, which the quota tools of clients send over UDP.
//!
//! The source address of a datagram may be forged. So a call cannot change anything, and its reply is never longer than the call:
//! whoever forges an address sends the victim no more than he could send himself. The replies to calls of the quota tools fit, since these
//! name the host, the path, or the address that they ask.

use std::net::SocketAddr;

use volume::request::Access;
use wire::record::MARK_BYTES;

use crate::clocks::ClockReading;
use crate::connection::{Connection, ConnectionId};
use crate::incoming::{CopyTerms, Incoming, IncomingRecord, ReplyBuffer};
use crate::service::{Outcome, Service};
use crate::summary::CallSummary;

/// Why a datagram gets no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unanswered {
    /// It is not a call.
    Malformed,
    /// The reply would be longer than the call, or cannot be made.
    NoReply,
}

impl Service {
    /// Executes a call that came as a datagram from `peer`, which [`Service::admits`], to `local`, which is no wildcard. May block
    /// for media. Returns the reply datagram, and a summary of the call.
    ///
    /// # Errors
    /// There is nothing to send back.
    pub fn handle_datagram(
        &self,
        datagram: &[u8],
        (peer, local): (SocketAddr, SocketAddr),
        now: ClockReading,
    ) -> Result<(Vec<u8>, CallSummary), Unanswered> {
        let record = &IncomingRecord::decode(datagram);
        if record.call().is_err_and(|error| error.reply().is_none()) {
            return Err(Unanswered::Malformed);
        }
        let connection = Connection { peer, local, id: ConnectionId::DATAGRAM };
        let incoming =
            Incoming { record, connection, now, access: Access::Blocking, copy_terms: CopyTerms::Free };
        let mut reply = ReplyBuffer::default();
        match self.handle(&incoming, &mut None, &mut reply) {
            Outcome::Reply { after: None, summary, .. } => {
                let bytes = reply.into_bytes().split_off(MARK_BYTES);
                if bytes.len() <= datagram.len() { Ok((bytes, summary)) } else { Err(Unanswered::NoReply) }
            }
            Outcome::Close => Err(Unanswered::Malformed),
            _ => Err(Unanswered::NoReply),
        }
    }
}

#[cfg(test)]
mod tests {
    use volume::time::Time;
    use wire::nfs3;
    use wire::portmap::{self, Mapping, PROTOCOL_TCP, PROTOCOL_UDP, Rpcb, RpcbString};
    use wire::rpc::{
        AcceptStat, AuthSys, CallHeader, Credential, Groups, OpaqueAuth, ReplyBody, ReplyHeader,
    };
    use wire::rquota::{self, GetQuotaArgs2, Path, QuotaRes};
    use wire::xdr::{Decode as _, Decoder, Encode, Encoder, decode_all};
    use wire::{mount3, nsm};

    use super::*;

    fn call(program: u32, version: u32, procedure: u32, args: &impl Encode) -> Vec<u8> {
        let groups = Groups::default();
        let credential = Credential::Sys(AuthSys { stamp: 1, machine_name: b"vm", uid: 7, gid: 8, groups });
        call_as(credential, (program, version, procedure), args)
    }

    fn call_as(
        credential: Credential<'_>,
        (program, version, procedure): (u32, u32, u32),
        args: &impl Encode,
    ) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut out = Encoder::new(&mut bytes);
        CallHeader { xid: 77, program, version, procedure, credential, verifier: OpaqueAuth::NONE }
            .encode(&mut out);
        args.encode(&mut out);
        bytes
    }

    fn service() -> Service {
        Service::new(Vec::new(), Vec::new()).unwrap().with_datagrams()
    }

    /// Sends a datagram. Returns the header and the results of the reply.
    fn send(datagram: &[u8]) -> Result<(ReplyBody<'static>, Vec<u8>), Unanswered> {
        let ends = ("192.0.2.1:900".parse().unwrap(), "192.0.2.2:2049".parse().unwrap());
        let (reply, _) = service().handle_datagram(datagram, ends, Time::EPOCH.into())?;
        let reply: &'static [u8] = reply.leak();
        let mut input = Decoder::new(reply);
        let header = ReplyHeader::decode(&mut input).unwrap();
        assert_eq!(header.xid, 77);
        Ok((header.body, input.rest().to_vec()))
    }

    fn accepted(stat: AcceptStat) -> ReplyBody<'static> {
        ReplyBody::Accepted { verifier: OpaqueAuth::NONE, stat }
    }

    fn results(datagram: &[u8]) -> Vec<u8> {
        let (body, results) = send(datagram).unwrap();
        assert_eq!(body, accepted(AcceptStat::Success));
        results
    }

    #[test]
    fn only_the_portmapper_and_rquota_take_datagrams() {
        for (program, version) in
            [(portmap::PROGRAM, 2), (portmap::PROGRAM, 3), (rquota::PROGRAM, 1), (rquota::PROGRAM, 2)]
        {
            assert_eq!(results(&call(program, version, 0, &())), [], "{program}");
        }
        for (program, version) in [(nfs3::PROGRAM, 3), (mount3::PROGRAM, 3), (nsm::PROGRAM, 1)] {
            let (body, _) = send(&call(program, version, 0, &())).unwrap();
            assert_eq!(body, accepted(AcceptStat::ProgUnavail), "{program}");
        }
    }

    #[test]
    fn the_portmapper_names_the_programs_of_each_transport() {
        let port = |program, protocol| {
            let wanted = Mapping { program, version: 1, protocol, port: 0 };
            decode_all::<u32>(&results(&call(portmap::PROGRAM, 2, 3, &wanted))).unwrap()
        };
        assert_eq!(port(rquota::PROGRAM, PROTOCOL_UDP), 2049);
        assert_eq!(port(portmap::PROGRAM, PROTOCOL_UDP), 2049);
        assert_eq!((port(nfs3::PROGRAM, PROTOCOL_UDP), port(nfs3::PROGRAM, PROTOCOL_TCP)), (0, 2049));
        assert_eq!(port(nsm::PROGRAM, PROTOCOL_UDP), 0, "a forged notice would free locks");
        let address = |program, netid: &[u8]| {
            let (address, owner) = (RpcbString(b"192.0.2.2.0.111"), RpcbString(b"libtirpc"));
            let wanted = Rpcb { program, version: 2, netid: RpcbString(netid), address, owner };
            let results = results(&call_as(Credential::None, (portmap::PROGRAM, 4, 3), &wanted));
            String::from_utf8(decode_all::<RpcbString<'_>>(&results).unwrap().0.to_vec()).unwrap()
        };
        assert_eq!(address(rquota::PROGRAM, b"udp"), "192.0.2.2.8.1");
        assert_eq!(address(rquota::PROGRAM, b""), "192.0.2.2.8.1", "the transport of the call");
        assert_eq!(
            (address(nfs3::PROGRAM, b"udp"), address(nfs3::PROGRAM, b"")),
            (String::new(), String::new())
        );
        assert_eq!(address(nfs3::PROGRAM, b"tcp"), "192.0.2.2.8.1");
    }

    #[test]
    fn replies_are_no_longer_than_their_calls() {
        // A list of all programs.
        assert_eq!(send(&call(portmap::PROGRAM, 2, 4, &())), Err(Unanswered::NoReply));
        assert_eq!(send(&call(portmap::PROGRAM, 4, 4, &())), Err(Unanswered::NoReply));
        let args = GetQuotaArgs2 { path: Path(b"/"), kind: 0, id: 7 };
        let call = call(rquota::PROGRAM, 2, 1, &args);
        assert_eq!(decode_all::<QuotaRes>(&results(&call)), Ok(QuotaRes::NoQuota));
        let largest = rquota::Quota {
            block_bytes: 1024,
            is_active: true,
            block_hard_limit: 0,
            block_soft_limit: 0,
            blocks: 0,
            file_hard_limit: 0,
            file_soft_limit: 0,
            files: 0,
            block_time_left: 0,
            file_time_left: 0,
        };
        let mut result = Vec::new();
        QuotaRes::Quota(largest).encode(&mut Encoder::new(&mut result));
        assert!(
            wire::rpc::SUCCESS_BYTES + result.len() <= call.len(),
            "a quota fits, however short the path"
        );
    }

    #[test]
    fn what_is_no_call_gets_no_answer() {
        let mut reply = Vec::new();
        ReplyHeader::accepted(77, AcceptStat::Success).encode(&mut Encoder::new(&mut reply));
        for malformed in [&b""[..], b"short", &reply, &[0xff; 400]] {
            assert_eq!(send(malformed), Err(Unanswered::Malformed));
        }
        let garbage = call(rquota::PROGRAM, 2, 1, &());
        assert_eq!(send(&garbage).unwrap().0, accepted(AcceptStat::GarbageArgs));
    }
}
