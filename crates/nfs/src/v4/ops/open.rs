//! OPEN (RFC 8881 section 18.16): opens a file for an owner, and creates it on request.
//!
//! `open/create.rs` creates. An existing file is opened in three steps: a check for conflicts, the truncation, and the
//! open itself, which checks again.

use std::sync::Arc;

use volume::attributes::{FileType, SetAttributes};
use volume::request::Journaled;
use volume::results::{AccessMask, Accessible};
use wire::nfs4::{
    Attr4, AttrMask, ChangeInfo4, CreateHow4, NfsStat4, OpenArgs, OpenClaim4, OpenOk, OpenRes, Stateid4,
    open_result, share_access,
};
use wire::xdr::{Encode as _, Encoder};

use crate::call::Object;
use crate::state::clients::client::{Client, ClientProtocol, OpenOwner};
use crate::state::clients::owner_sequence::OwnerSequence;
use crate::state::delegations::{Delegated, DelegationWant, NoDelegationReason};
use crate::state::files::share::Mode;
use crate::state::files::{OpenRequest, Opened};
use crate::state::ids::StateId;
use crate::v4::context::{Compound, Done, OpStop, Target};
use crate::v4::{attributes, names};

mod create;
mod delegation;
mod file_hold;

use file_hold::{FileHold, Found};

/// A decoded request.
struct Request<'a> {
    client: &'a Arc<Client>,
    owner: &'a Arc<OpenOwner>,
    mode: Mode,
    want: DelegationWant,
}

impl Request<'_> {
    fn opening(&self) -> OpenRequest<'_> {
        OpenRequest { client: self.client, owner: self.owner, mode: self.mode }
    }
}

/// The parts of the result besides the stateid and the delegation.
#[derive(Clone, Copy)]
struct Shown {
    cinfo: ChangeInfo4,
    attrset: AttrMask,
}

/// No directory is reported.
const NO_DIRECTORY: ChangeInfo4 = ChangeInfo4 { atomic: true, before: 0, after: 0 };

pub(crate) fn run(compound: &mut Compound<'_>, args: &OpenArgs<'_>, out: &mut Encoder<'_>) -> Done {
    compound.target()?;
    let client = compound.client(args.owner.clientid)?;
    let now = compound.now.steady;
    let name = args.owner.owner.0;
    compound.state().check_room(&client, client.known_open_owner(name).is_none().then_some(name))?;
    let owner = client.open_owner(name, || OwnerSequence::new(now));
    if compound.minor == 0 {
        // Only the principal that opens first may close; further opens are checked against the file's permissions.
        let _first = owner.is_of(compound.peer()?.principal);
    }
    if client.version == ClientProtocol::V40 && !owner.sequence.is_confirmed() {
        // An owner that was never confirmed starts anew (RFC 7530 section 16.18.5).
        owner.sequence.restart_unless(args.seqid);
    }
    compound.in_owner_sequence(&owner.sequence, args.seqid, out, |compound, out| {
        let (mode, want) = share_and_want(args, compound.minor)?;
        let request = Request { client: &client, owner: &owner, mode, want };
        let reclaimed = client.inner.lock().reclaimed;
        if !reclaimed && !args.claim.is_reclaim() {
            // A new client must first complete its reclaims (RFC 8881 section 18.51.3).
            return Err(NfsStat4::Grace.into());
        }
        claim(compound, args, &request, out)
    })
}

/// Decodes `share_access` and `share_deny`.
fn share_and_want(args: &OpenArgs<'_>, minor: u32) -> Result<(Mode, DelegationWant), OpStop> {
    let wish = args.share_access & share_access::WANT_DELEG_MASK;
    let signals = share_access::WANT_SIGNAL_DELEG_WHEN_RESRC_AVAIL
        | share_access::WANT_PUSH_DELEG_WHEN_UNCONTENDED
        | share_access::WANT_DELEG_TIMESTAMPS
        | share_access::WANT_OPEN_XOR_DELEGATION;
    let known = if minor == 0 { 0 } else { share_access::WANT_DELEG_MASK | signals };
    let mode = Mode::new(args.share_access & !known, args.share_deny).ok_or(NfsStat4::Inval)?;
    let want = match wish {
        share_access::WANT_NO_PREFERENCE => DelegationWant::NoPreference,
        share_access::WANT_READ_DELEG => DelegationWant::Read,
        share_access::WANT_WRITE_DELEG => DelegationWant::Write,
        share_access::WANT_ANY_DELEG => DelegationWant::Any,
        share_access::WANT_NO_DELEG => DelegationWant::None,
        share_access::WANT_CANCEL => DelegationWant::Cancel,
        _ => return Err(NfsStat4::Inval.into()),
    };
    Ok((mode, want))
}

fn claim(
    compound: &mut Compound<'_>,
    args: &OpenArgs<'_>,
    request: &Request<'_>,
    out: &mut Encoder<'_>,
) -> Done {
    let named = matches!(args.claim, OpenClaim4::Null(_));
    if args.openhow.is_some() && !named {
        return Err(NfsStat4::Inval.into());
    }
    match &args.claim {
        OpenClaim4::Null(file) => match &args.openhow {
            Some(how) => create::run(compound, names::check(*file)?, how, request, out),
            None => open_named(compound, names::check(*file)?, request, out),
        },
        OpenClaim4::DelegateCur(claim) => {
            check_delegation(compound, claim.delegate_stateid)?;
            open_named(compound, names::check(claim.file)?, request, out)
        }
        OpenClaim4::Fh => {
            let file = compound.file()?;
            open_file(compound, &file, NO_DIRECTORY, request, out)
        }
        OpenClaim4::DelegCurFh(stateid) => {
            check_delegation(compound, *stateid)?;
            let file = compound.file()?;
            open_file(compound, &file, NO_DIRECTORY, request, out)
        }
        // The client still has its delegations, whatever it claims.
        OpenClaim4::Previous(_) => reclaim(compound, request, out),
        OpenClaim4::DelegatePrev(_) | OpenClaim4::DelegPrevFh => Err(NfsStat4::NotSupp.into()),
    }
}

/// Checks that the client has the delegation under which it opens.
fn check_delegation(compound: &Compound<'_>, stateid: Stateid4) -> Result<(), OpStop> {
    let client = compound.session_client();
    let stateid = StateId::from(compound.stateid(stateid)?);
    let entry = compound.state().entry(compound.caller(client.as_ref())?, stateid.other)?;
    compound.state().verify(&entry, stateid)?;
    if entry.as_delegation().is_some() { Ok(()) } else { Err(NfsStat4::BadStateId.into()) }
}

/// Opens the file of a name in the current directory.
fn open_named(
    compound: &mut Compound<'_>,
    name: &[u8],
    request: &Request<'_>,
    out: &mut Encoder<'_>,
) -> Done {
    let target = compound.target()?;
    let directory = match &target {
        Target::Pseudo(node) => {
            let found = compound.beneath(node, name)?;
            return Err(if found.is_some() { NfsStat4::IsDir } else { NfsStat4::NoEnt }.into());
        }
        Target::Stored(directory) => directory,
    };
    let found = file_hold::find(compound, directory, name);
    if found.is_err() {
        // Whatever else is wrong, the type of the directory comes first.
        compound.check_directory(directory)?;
    }
    open_found(compound, found?, None, request, out)
}

/// Opens the file of a name, truncating it to `size` if that is given. The directory does not change.
fn open_found<'c>(
    compound: &mut Compound<'c>,
    found: Found<'c>,
    size: Option<u64>,
    request: &Request<'_>,
    out: &mut Encoder<'_>,
) -> Done {
    let cinfo = ChangeInfo4 { atomic: true, before: found.change, after: found.change };
    open_held(compound, (&found.file, &found.access, found.hold), size, cinfo, request, out)
}

/// Opens an existing file.
fn open_file<'c>(
    compound: &mut Compound<'c>,
    file: &Object<'c>,
    cinfo: ChangeInfo4,
    request: &Request<'_>,
    out: &mut Encoder<'_>,
) -> Done {
    let hold = FileHold::of(file);
    let access = file_hold::access(compound, file)?;
    open_held(compound, (file, &access, hold), None, cinfo, request, out)
}

/// Opens a file that is held, with what the caller may do with it, truncating it to `size` if that is given.
fn open_held<'c>(
    compound: &mut Compound<'c>,
    (file, access, hold): (&Object<'c>, &Accessible, FileHold<'c>),
    size: Option<u64>,
    cinfo: ChangeInfo4,
    request: &Request<'_>,
    out: &mut Encoder<'_>,
) -> Done {
    check_file(compound.minor, file.export.read_only, access, request.mode, size.is_some())?;
    let state = compound.state();
    let mut attrset = AttrMask::EMPTY;
    if let Some(size) = size {
        let _in_flight = state.begin_modification(file.file_id());
        state.check_open(&compound.state_context(), file.file_id(), &request.opening(), true)?;
        truncate(compound, file, size)?;
        attrset = attrset.with(Attr4::Size);
    }
    let opened = state.open(&compound.state_context(), file.file_id(), &request.opening())?;
    if opened.took_hold {
        hold.hand_over();
    }
    if let Some(token) = opened.token {
        compound.wait_for_token(token);
    }
    compound.note_change();
    let delegated = delegate(compound, file, &opened, request.want, false);
    compound.set_current(Target::Stored(*file))?;
    write(compound, &opened, delegated, Shown { cinfo, attrset }, out);
    Ok(())
}

/// Checks that it is a regular file that the caller may open in this mode.
fn check_file(
    minor: u32,
    read_only: bool,
    access: &Accessible,
    mode: Mode,
    truncates: bool,
) -> Result<(), OpStop> {
    let writes = mode.writes() || truncates;
    match access.attributes.file_type {
        FileType::Regular => {}
        FileType::Directory => return Err(NfsStat4::IsDir.into()),
        FileType::Symlink => return Err(NfsStat4::Symlink.into()),
        _ if minor == 0 => return Err(NfsStat4::Symlink.into()),
        _ => return Err(NfsStat4::WrongType.into()),
    }
    // A caller that may not change a file must not deny it to others.
    let excludes = writes || mode.denies();
    if excludes && read_only {
        return Err(NfsStat4::Rofs.into());
    }
    let granted = access.granted.0;
    // To execute a file, a client reads it.
    let may_read = granted & (AccessMask::READ | AccessMask::EXECUTE) != 0;
    let may_write = granted & AccessMask::MODIFY != 0;
    if (mode.reads() && !may_read) || (excludes && !may_write) {
        return Err(NfsStat4::Access.into());
    }
    Ok(())
}

/// Truncates a file once. If the request is repeated after a restart, others may have written since.
fn truncate<'c>(compound: &mut Compound<'c>, file: &Object<'c>, size: u64) -> Result<(), OpStop> {
    let key = compound.request_key_besides(file);
    if let Some((_, after)) = file.volume.lookup_request(&key) {
        compound.wait_for(file.volume, after);
        return Ok(());
    }
    let set = SetAttributes { size: Some(size), ..SetAttributes::default() };
    let nothing = &mut |_: &_| Journaled::default();
    let done = file.volume.set_attributes(&file.request_once(&key), file.ino, &set, None, nothing);
    compound.answered(file.volume, done)?;
    compound.note_change();
    Ok(())
}

/// CLAIM_PREVIOUS: a restart loses no opens, so only existing ones can be reclaimed.
fn reclaim(compound: &mut Compound<'_>, request: &Request<'_>, out: &mut Encoder<'_>) -> Done {
    let file = compound.file()?;
    let sessions = request.client.version == ClientProtocol::Sessions;
    if sessions && request.client.inner.lock().reclaimed {
        return Err(NfsStat4::NoGrace.into());
    }
    let held = compound.state().restored_open(file.file_id(), &request.opening());
    let entry = held.ok_or(NfsStat4::NoGrace)?;
    let stateid = entry.stateid();
    let opened = Opened { stateid, entry, confirm: false, token: None, took_hold: false };
    let none = Delegated::None(NoDelegationReason::NotWanted);
    write(compound, &opened, none, Shown { cinfo: NO_DIRECTORY, attrset: AttrMask::EMPTY }, out);
    Ok(())
}

/// Grants a delegation if the export allows it and nothing conflicts; not to an owner that must still be confirmed (RFC
/// 7530 section 16.18.5).
fn delegate(
    compound: &mut Compound<'_>,
    file: &Object<'_>,
    opened: &Opened,
    want: DelegationWant,
    created: bool,
) -> Delegated {
    if !file.export.delegations {
        return Delegated::None(NoDelegationReason::NotWanted);
    }
    let want = if opened.confirm { DelegationWant::None } else { want };
    let (delegated, token) =
        compound.state().delegate(&compound.state_context(), &opened.entry, want, created);
    if let Some(token) = token {
        compound.wait_for_token(token);
    }
    delegated
}

/// Writes the result of a success.
fn write(
    compound: &mut Compound<'_>,
    opened: &Opened,
    delegated: Delegated,
    shown: Shown,
    out: &mut Encoder<'_>,
) {
    let stateid = Stateid4::from(opened.stateid);
    compound.current_stateid = Some(stateid);
    result(stateid, flags(compound.minor, opened.confirm), shown, delegated, compound.minor, out);
}

/// Returns the result flags (`rflags`).
fn flags(minor: u32, confirm: bool) -> u32 {
    let confirm = if confirm { open_result::CONFIRM } else { 0 };
    let later = if minor > 0 { open_result::PRESERVE_UNLINKED | open_result::MAY_NOTIFY_LOCK } else { 0 };
    open_result::LOCKTYPE_POSIX | confirm | later
}

fn result(
    stateid: Stateid4,
    rflags: u32,
    shown: Shown,
    delegated: Delegated,
    minor: u32,
    out: &mut Encoder<'_>,
) {
    let Shown { cinfo, attrset } = shown;
    let delegation = delegation::shown(delegated, minor);
    OpenRes::Ok(OpenOk { stateid, cinfo, rflags, attrset, delegation }).encode(out);
}

/// Returns the attributes of a new file, and those that the result names.
fn new_attributes(how: &CreateHow4<'_>, minor: u32) -> Result<(SetAttributes, AttrMask), OpStop> {
    match how {
        CreateHow4::Unchecked(fattr) | CreateHow4::Guarded(fattr) => {
            Ok((attributes::to_create(fattr, minor, FileType::Regular)?, fattr.attrmask))
        }
        CreateHow4::Exclusive(_) => Ok((SetAttributes::default(), AttrMask::EMPTY)),
        CreateHow4::Exclusive41(check_files) => Ok((
            attributes::to_create(&check_files.attrs, minor, FileType::Regular)?,
            check_files.attrs.attrmask,
        )),
    }
}
