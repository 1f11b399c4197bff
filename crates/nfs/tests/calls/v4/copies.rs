//! COPY of more than is copied before the reply.

use std::cell::Cell;
use std::time::Duration;

use nfs::charge::{CopyId, CopyLimits, CopyPart, CopyTerms};
use nfs::exports::Export;
use nfs::service::Destination;
use volume::handle::Handle;
use volume::request::{Access, Credentials, Request};
use volume::results::Stability;
use wire::array::Array;
use wire::nfs4::callback::{
    CbArgOp4, CbCompoundEncoder, CbCompoundReader, CbResOp4, CbSequenceOk, OffloadFail,
};
use wire::nfs4::*;
use wire::record::MARK_BYTES;
use wire::rpc::{AcceptStat, ReplyHeader, decode_call};
use wire::xdr::{Encode as _, Encoder};

use super::session::Session;
use super::support::*;
use crate::support::{Client, Server, open_export, root};

const ANY: Stateid4 = Stateid4::ANONYMOUS;
const SIZE: usize = 2 << 20;
/// The distance of holes, small enough that the journal entries before a reply do not cover all mappings.
const STRIDE: usize = 256;

/// Creates a file of many mappings, and an empty one. Returns the content of the first.
fn files(server: &Server, session: &Session<'_>) -> (&'static [u8], &'static [u8], Vec<u8>) {
    let (from, to) = (file(server, "from"), file(server, "to"));
    let mut data: Vec<u8> = (0..SIZE).map(|at| (at / 7 % 251).to_le_bytes()[0]).collect();
    for (piece, offset) in data.chunks(SIZE / 4).zip((0_u64..).step_by(SIZE / 4)) {
        let args = WriteArgs { stateid: ANY, offset, stable: StableHow4::FileSync, data: piece.into() };
        assert_eq!(session.on(from, &[ArgOp4::Write(args)]).status, NfsStat4::Ok);
    }
    let hole = |offset| ArgOp4::Deallocate(DeallocateArgs { stateid: ANY, offset, length: 1 });
    let holes: Vec<_> = (0..u64::try_from(SIZE).unwrap()).step_by(STRIDE).map(hole).collect();
    for some in holes.chunks(12) {
        assert_eq!(session.on(from, some).status, NfsStat4::Ok);
    }
    data.iter_mut().step_by(STRIDE).for_each(|byte| *byte = 0);
    (from, to, data)
}

/// The arguments for a whole file.
fn whole(synchronous: bool) -> CopyArgs<'static> {
    CopyArgs {
        src_stateid: ANY,
        dst_stateid: ANY,
        src_offset: 0,
        dst_offset: 3,
        count: 0,
        consecutive: true,
        synchronous,
        source_server: Array::EMPTY,
    }
}

fn copy_to(session: &Session<'_>, from: &[u8], to: &[u8], synchronous: bool) -> CopyOk {
    let results = session.on(from, &[ArgOp4::Savefh, putfh(to), ArgOp4::Copy(whole(synchronous))]);
    let ResOp4::Copy(Ok(copied)) = results.last() else { panic!("{results:?}") };
    *copied
}

fn status(session: &Session<'_>, to: &[u8], stateid: Stateid4) -> Result<OffloadStatusOk, NfsStat4> {
    let asked = session.on(to, &[ArgOp4::OffloadStatus(OffloadStatusArgs { stateid })]);
    match asked.last() {
        ResOp4::OffloadStatus(result) => *result,
        other => panic!("{other:?}"),
    }
}

fn cancel(session: &Session<'_>, to: &[u8], stateid: Stateid4) -> NfsStat4 {
    session.on(to, &[ArgOp4::OffloadCancel(OffloadCancelArgs { stateid })]).status
}

/// Rate limits that allow at most this many bytes at once; without a number, nothing.
#[derive(Default)]
struct AtMost {
    bytes: Option<u64>,
    copied: Cell<u64>,
    asked: Cell<usize>,
    /// The last copy that was asked for, and whether it went on when the next round began.
    seen: Cell<Option<CopyId>>,
    kept: Cell<bool>,
}

impl CopyLimits for AtMost {
    fn allow(&self, part: &CopyPart) -> Option<u64> {
        assert!(part.bytes > 0 && part.bytes < SIZE as u64, "the first part was copied before the reply");
        self.asked.set(self.asked.get() + 1);
        self.seen.set(Some(part.copy));
        self.bytes
    }

    fn copied(&self, part: &CopyPart, bytes: u64) {
        assert!(bytes <= part.bytes.min(self.bytes.unwrap()));
        self.copied.set(self.copied.get() + bytes);
    }

    fn retain(&self, goes_on: &dyn Fn(CopyId) -> bool) {
        assert!(!goes_on(CopyId([0; 12])));
        self.kept.set(self.seen.get().is_some_and(goes_on));
    }
}

/// Lets copies continue until they end.
fn finish(server: &Server) {
    finish_within(server, &AtMost { bytes: Some(u64::MAX), ..AtMost::default() });
}

fn finish_within(server: &Server, limits: &AtMost) {
    for _ in 0..10_000 {
        if server.service.copy_some(server.clocks(), limits) > Duration::from_secs(1) {
            return;
        }
        server.commit();
    }
    panic!("the copies do not end");
}

/// Takes the CB_OFFLOAD calls and answers them with `answer`. Returns what they report.
fn told(server: &Server, answer: NfsStat4) -> Vec<(Stateid4, Res4<WriteResponse4, OffloadFail>)> {
    let mut all = Vec::new();
    for callback in server.service.take_callbacks() {
        assert!(matches!(callback.to, Destination::Connection(_)));
        let (header, input) = decode_call(&callback.record[MARK_BYTES..]).unwrap();
        let mut record = Vec::new();
        let mut out = Encoder::new(&mut record);
        ReplyHeader::accepted(header.xid, AcceptStat::Success).encode(&mut out);
        let reader = CbCompoundReader::new(input).unwrap();
        assert_eq!(reader.minorversion(), 2);
        let mut results = CbCompoundEncoder::begin(&mut out, reader.tag());
        for operation in reader {
            match operation.unwrap() {
                CbArgOp4::Sequence(args) if answer == NfsStat4::Ok => {
                    results.push(&CbResOp4::Sequence(Ok(CbSequenceOk {
                        sessionid: args.sessionid,
                        sequenceid: args.sequenceid,
                        slotid: args.slotid,
                        highest_slotid: 0,
                        target_highest_slotid: 0,
                    })));
                }
                CbArgOp4::Sequence(_) => {
                    results.push(&CbResOp4::Sequence(Err(answer)));
                    break;
                }
                CbArgOp4::Offload(args) => {
                    all.push((args.stateid, args.offload_info));
                    results.push(&CbResOp4::Offload(Ok(())));
                }
                other => panic!("{other:?}"),
            }
        }
        results.finish();
        server.receive(root(), &record);
    }
    all
}

#[test]
fn long_copies_end_after_their_reply_with_cb_offload() {
    let server = Server::new();
    let session = Session::new(&server);
    let (from, to, data) = files(&server, &session);
    let begun = copy_to(&session, from, to, false);
    assert!(!begun.requirements.synchronous);
    assert_eq!(begun.response.count, 0);
    let stateid = begun.response.callback_id.unwrap();
    let known = status(&session, to, stateid).unwrap();
    assert!(known.complete.is_none() && known.count > 0 && known.count < SIZE as u64, "{known:?}");
    assert_eq!(status(&session, from, stateid), Err(NfsStat4::BadStateId), "it is no copy to that file");
    finish(&server);
    let known = status(&session, to, stateid).unwrap();
    assert_eq!((known.count, known.complete), (SIZE as u64, Some(NfsStat4::Ok)));
    // The client is busy, and is called again.
    assert!(told(&server, NfsStat4::Delay).is_empty());
    server.service.tick(server.clocks());
    let [(about, Ok(written))] = told(&server, NfsStat4::Ok)[..] else { panic!("one copy has ended well") };
    assert_eq!((about, written.count), (stateid, SIZE as u64));
    assert_eq!(written.committed, StableHow4::FileSync);
    assert_eq!(status(&session, to, stateid), Err(NfsStat4::BadStateId), "both sides forgot it");
    server.service.tick(server.clocks());
    assert!(told(&server, NfsStat4::Ok).is_empty());
    let mut copied = Vec::new();
    while copied.len() < SIZE {
        let offset = u64::try_from(3 + copied.len()).unwrap();
        let results = session.on(to, &[ArgOp4::Read(ReadArgs { stateid: ANY, offset, count: 1 << 19 })]);
        let ResOp4::Read(Ok(found)) = results.last() else { panic!("{results:?}") };
        assert!(!found.data.is_empty());
        copied.extend_from_slice(found.data);
    }
    assert!(copied == data, "what was copied differs");
}

#[test]
fn synchronous_and_uncallable_clients_get_short_copies() {
    let server = Server::new();
    let session = Session::new(&server);
    let (from, to, _) = files(&server, &session);
    let done = copy_to(&session, from, to, true);
    assert!(done.requirements.synchronous && done.response.callback_id.is_none());
    assert!(done.response.count > 0 && done.response.count < SIZE as u64);
    let server = Server::new();
    let session = Session::uncalled(&server);
    let (from, to, _) = files(&server, &session);
    let done = copy_to(&session, from, to, false);
    assert!(done.requirements.synchronous && done.response.callback_id.is_none());
    assert!(done.response.count > 0 && done.response.count < SIZE as u64);
}

#[test]
fn copies_are_bounded_and_can_be_cancelled() {
    let server = Server::new();
    let session = Session::new(&server);
    let (from, to, _) = files(&server, &session);
    let mut begun = Vec::new();
    while let Some(stateid) = copy_to(&session, from, to, false).response.callback_id {
        begun.push(stateid);
        assert!(begun.len() <= 100, "copies are not bounded");
    }
    assert!(begun.len() > 1);
    for stateid in begun {
        assert_eq!(cancel(&session, from, stateid), NfsStat4::BadStateId);
        assert_eq!(cancel(&session, to, stateid), NfsStat4::Ok);
        assert_eq!(cancel(&session, to, stateid), NfsStat4::BadStateId);
    }
    finish(&server);
    assert!(told(&server, NfsStat4::Ok).is_empty());
    assert!(copy_to(&session, from, to, false).response.callback_id.is_some());
}

#[test]
fn interrupted_copies_are_reported_after_a_restart() {
    let server = Server::new();
    let session = Session::new(&server);
    let (from, to, _) = files(&server, &session);
    let stateid = copy_to(&session, from, to, false).response.callback_id.unwrap();
    let known = session.known();
    let server = server.restarted();
    let session = Session::resumed(&server, known);
    let ended = status(&session, to, stateid).unwrap();
    assert_eq!(ended.complete, Some(NfsStat4::Delay));
    finish(&server);
    server.service.tick(server.clocks());
    assert!(told(&server, NfsStat4::Ok).is_empty(), "it cannot be called yet");
    session.bind_backchannel();
    server.service.tick(server.clocks());
    // It answered a call of that sequence before the restart.
    assert!(told(&server, NfsStat4::RetryUncachedRep).is_empty());
    server.service.tick(server.clocks());
    let [(about, Err(failed))] = told(&server, NfsStat4::Ok)[..] else { panic!("one copy has ended") };
    assert_eq!((about, failed.status), (stateid, NfsStat4::Delay));
    let known = session.known();
    server.commit();
    let server = server.restarted();
    let session = Session::resumed(&server, known);
    assert_eq!(status(&session, to, stateid), Err(NfsStat4::BadStateId));
}

#[test]
fn copies_end_when_other_rules_are_in_force() {
    let mut server = Server::new();
    let begun = {
        let session = Session::new(&server);
        let (from, to, _) = files(&server, &session);
        copy_to(&session, from, to, false).response.callback_id.unwrap()
    };
    server.export(vec![Export { read_only: true, ..open_export() }]);
    finish(&server);
    server.service.tick(server.clocks());
    let [(about, Ok(written))] = told(&server, NfsStat4::Ok)[..] else { panic!("one copy has ended") };
    assert_eq!(about, begun);
    assert!(written.count > 0 && written.count < SIZE as u64, "{written:?}");
}

#[test]
fn copies_wait_for_rate_limits() {
    let server = Server::new();
    let session = Session::new(&server);
    let (from, to, _) = files(&server, &session);
    let stateid = copy_to(&session, from, to, false).response.callback_id.unwrap();
    let before = status(&session, to, stateid).unwrap().count;
    let closed = AtMost::default();
    assert!(server.service.copy_some(server.clocks(), &closed) > Duration::from_secs(1));
    assert_eq!((closed.asked.get(), status(&session, to, stateid).unwrap().count), (1, before));
    server.service.copy_some(server.clocks(), &closed);
    assert!(closed.kept.get(), "it keeps its place");
    let some = AtMost { bytes: Some(10_000), ..AtMost::default() };
    finish_within(&server, &some);
    assert_eq!(some.copied.get(), SIZE as u64 - before);
    assert!(some.asked.get() >= (SIZE - usize::try_from(before).unwrap()) / 10_000);
    assert_eq!(told(&server, NfsStat4::Ok).len(), 1);
}

/// Otherwise the rest would be owed, and others under the same limits would wait until it is paid.
#[test]
fn under_rate_limits_no_more_is_copied_before_the_reply_than_was_charged() {
    let server = Server::new();
    let session = Session::new(&server);
    let (from, to) = (file(&server, "from"), file(&server, "to"));
    let piece = vec![7; SIZE / 4];
    for offset in (0..SIZE as u64).step_by(SIZE / 4) {
        let args = WriteArgs { stateid: ANY, offset, stable: StableHow4::FileSync, data: piece[..].into() };
        assert_eq!(session.on(from, &[ArgOp4::Write(args)]).status, NfsStat4::Ok);
    }
    let copied = || copy_to(&session, from, to, true).response.count;
    assert_eq!(copied(), SIZE as u64);
    server.copy_terms.set(CopyTerms::Charged);
    assert_eq!(copied(), 1 << 20);
    let rest = copy_to(&session, from, to, false).response.callback_id.unwrap();
    assert_eq!(status(&session, to, rest).unwrap().count, 1 << 20);
    let both = [ArgOp4::Savefh, putfh(to), ArgOp4::Copy(whole(true)), ArgOp4::Copy(whole(true))];
    let results = session.on(from, &both);
    let [.., ResOp4::Copy(Ok(first)), ResOp4::Copy(Err(_))] = &results.all[..] else { panic!("{results:?}") };
    assert_eq!((first.response.count, results.status), (1 << 20, NfsStat4::Delay), "as much as one COPY");
    server.copy_terms.set(CopyTerms::ChargedByTarget);
    let copied = copy_to(&session, from, to, false).response;
    assert_eq!((copied.callback_id, copied.count), (None, 1 << 20), "the rest would pass no target");
}

/// All are continued whenever one can go on, so each host remembers when its own can.
#[test]
fn copies_rest_while_the_journal_is_full() {
    let server = Server::new();
    let session = Session::new(&server);
    let (from, to, _) = files(&server, &session);
    copy_to(&session, from, to, false).response.callback_id.unwrap();
    let credentials = Credentials::root();
    let now = server.clocks().wall;
    let request = Request { credentials: &credentials, now, access: Access::Blocking, key: None };
    let ino = Handle::parse(from).unwrap().ino;
    for number in 0.. {
        if !server.volume.throttle().is_zero() {
            break;
        }
        assert!(number < 10_000, "the journal does not fill");
        server.volume.write(&request, ino, SIZE as u64, &[1; 4096][..], Stability::FileSync).unwrap();
        server.volume.step_commit(now);
    }
    let some = AtMost { bytes: Some(10_000), ..AtMost::default() };
    let rest = server.service.copy_some(server.clocks(), &some);
    assert_eq!((rest, some.copied.get()), (server.volume.throttle(), 10_000));
    assert_eq!(server.service.copy_some(server.clocks(), &some), rest, "it does not rest");
    assert_eq!(some.copied.get(), 10_000);
    server.pass(1);
    server.service.copy_some(server.clocks(), &some);
    assert_eq!(some.copied.get(), 20_000);
}

/// A host that makes as many copies as it may costs another one half of what can be copied, not nearly all.
#[test]
fn hosts_take_turns_whatever_number_of_copies_each_has() {
    let server = Server::new();
    let greedy = Session::new(&server);
    let other = Client { peer: "192.0.2.7:900".parse().unwrap(), ..root() };
    let modest = Session::of_host(&server, other, b"modest");
    let (from, to, _) = files(&server, &greedy);
    let all: Vec<_> = std::iter::from_fn(|| copy_to(&greedy, from, to, false).response.callback_id).collect();
    assert!(all.len() > 4);
    let own = file(&server, "own");
    let copy = copy_to(&modest, from, own, false).response.callback_id.unwrap();
    let done = || all.iter().map(|stateid| status(&greedy, to, *stateid).unwrap().count);
    let begun: Vec<_> = done().collect();
    let of_modest = || status(&modest, own, copy).unwrap();
    let (before, some) = (of_modest().count, AtMost { bytes: Some(10_000), ..AtMost::default() });
    while of_modest().complete.is_none() {
        server.service.copy_some(server.clocks(), &some);
        server.commit();
    }
    let copied = of_modest().count - before;
    let of_greedy = some.copied.get() - copied;
    assert!(of_greedy <= copied + 10 * 10_000, "{of_greedy} beside {copied}");
    let parts: Vec<_> = done().zip(begun).map(|(done, begun)| done - begun).collect();
    let (least, most) = (parts.iter().min().unwrap(), parts.iter().max().unwrap());
    assert!(most - least <= 20_000, "the copies of a host take turns: {least} to {most}");
}

#[test]
fn copies_pause_while_their_client_is_idle() {
    let server = Server::new();
    let session = Session::new(&server);
    let (from, to, _) = files(&server, &session);
    let stateid = copy_to(&session, from, to, false).response.callback_id.unwrap();
    server.pass(61);
    for _ in 0..100 {
        assert_eq!(server.service.copy_some(server.clocks(), &AtMost::default()), Duration::from_secs(1));
    }
    let known = status(&session, to, stateid).unwrap();
    assert!(known.complete.is_none() && known.count < SIZE as u64);
    finish(&server);
    assert_eq!(told(&server, NfsStat4::Ok).len(), 1);
}
