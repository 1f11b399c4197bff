//! TEST (XNFS section 10.3): reports a lock that would conflict.

use wire::nlm4::{Netobj, Nlm4Holder, Nlm4Stats, Procedure, TestArgs, TestReply, TestRes};
use wire::xdr::{Encode, Encoder};

use crate::call::{Call, Handled, Stop};
use crate::state::clients::client::LockOwnerId;
use crate::state::hosts::{nlm_range, owner_of};
use crate::state::locks::ranges::LockKind;
use crate::state::locks::{Denied, LockError};

use super::Rejection;

pub(super) fn run<'a>(call: &Call<'a>, out: &mut Encoder<'_>) -> Handled<'a> {
    super::reply(call, out, (test(call)?, None))
}

pub(super) fn message<'a>(call: &Call<'a>, _: &mut Encoder<'_>) -> Handled<'a> {
    super::call_back(call, Procedure::TestRes, (test(call)?, None))
}

/// The result of TEST.
struct Tested<'a> {
    cookie: Netobj<'a>,
    found: Result<(), Denied>,
    stat: Nlm4Stats,
}

impl Encode for Tested<'_> {
    fn encode(&self, out: &mut Encoder<'_>) {
        let stat = match &self.found {
            Ok(()) => TestReply::Stat(self.stat),
            Err(denied) => TestReply::Denied(holder(denied)),
        };
        TestRes { cookie: self.cookie, stat }.encode(out);
    }
}

/// Returns the holder of a conflicting lock. An NFSv4 owner has no process that another host could know.
fn holder(denied: &Denied) -> Nlm4Holder<'_> {
    let (svid, oh) = match &denied.owner {
        LockOwnerId::Nlm { name, .. } => owner_of(name),
        LockOwnerId::Nfs4 { name, .. } => (0, &**name),
    };
    let (l_offset, l_len) = nlm_range(denied.range);
    let exclusive = denied.kind == LockKind::Write;
    Nlm4Holder { exclusive, svid, oh: Netobj(oh), l_offset, l_len }
}

fn test<'a>(call: &Call<'a>) -> Result<Tested<'a>, Stop> {
    let args: TestArgs<'a> = call.arguments()?;
    let cookie = args.cookie;
    match find(call, &args) {
        Ok(()) => Ok(Tested { cookie, found: Ok(()), stat: Nlm4Stats::Granted }),
        Err(TestError::Denied(denied)) => Ok(Tested { cookie, found: Err(denied), stat: Nlm4Stats::Denied }),
        // `Denied` must name a lock.
        Err(TestError::Rejected(Rejection::Stat(Nlm4Stats::Denied))) => {
            Ok(Tested { cookie, found: Ok(()), stat: Nlm4Stats::Failed })
        }
        Err(TestError::Rejected(Rejection::Stat(stat))) => Ok(Tested { cookie, found: Ok(()), stat }),
        Err(TestError::Rejected(Rejection::Stop(stop))) => Err(stop),
    }
}

/// Why TEST does not find the range free.
enum TestError {
    Denied(Denied),
    Rejected(Rejection),
}

impl<R: Into<Rejection>> From<R> for TestError {
    fn from(refused: R) -> TestError {
        TestError::Rejected(refused.into())
    }
}

fn find(call: &Call<'_>, args: &TestArgs<'_>) -> Result<(), TestError> {
    let lock = &args.alock;
    let object = super::object(call, lock.fh)?;
    super::check_access(&object, super::READ_OR_WRITE)?;
    let (range, kind) = (super::range(lock)?, super::kind(args.exclusive));
    let (state, context, file) = (super::state(call), super::context(call), object.file_id());
    // Whoever may not lock a file for himself alone has no more recalled than by a lock that he may have.
    let excludes = kind == LockKind::Write && super::check_exclusion(&object).is_ok();
    let recalled = if excludes { LockKind::Write } else { LockKind::Read };
    drop(state.check_delegations(&context, None, file, recalled.into())?);
    let client = super::known(call, lock.caller_name);
    let owner = client.and_then(|client| client.known_lock_owner(&super::owner(lock)));
    match state.test_lock(&context, file, owner.as_ref(), range, kind) {
        Ok(()) => Ok(()),
        Err(LockError::Denied(denied)) => Err(TestError::Denied(denied)),
        Err(LockError::Failed(error)) => Err(error.into()),
    }
}
