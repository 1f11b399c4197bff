//! COMPOUNDs, and the operations that every NFSv4 client starts with.

use wire::nfs4::compound::{CompoundArgsEncoder, CompoundResReader};
use wire::nfs4::*;
use wire::xdr::{Decoder, Encoder};

/// The program number of the clients' callback service.
pub const CALLBACK_PROGRAM: u32 = 0x4000_0000;

/// Encodes the arguments of a COMPOUND.
pub fn encode(out: &mut Encoder<'_>, minor: u32, operations: &[ArgOp4<'_>]) {
    let mut compound = CompoundArgsEncoder::begin(out, Utf8Str4(b""), minor);
    operations.iter().for_each(|operation| compound.push(operation));
    compound.finish();
}

/// Decodes the results of a COMPOUND. Returns its status and the result of each operation.
///
/// # Errors
/// The results do not decode, or the status is not that of the last operation.
pub fn decode(bytes: &[u8]) -> Result<(NfsStat4, Vec<ResOp4<'_>>), String> {
    let wrong = |error| format!("the results: {error}");
    let mut reader = CompoundResReader::new(Decoder::new(bytes)).map_err(wrong)?;
    let status = reader.status();
    let results: Vec<_> = reader.by_ref().collect::<Result<_, _>>().map_err(wrong)?;
    reader.finish().map_err(wrong)?;
    match results.last().map(Outcome::status) {
        Some(last) if last != status => {
            Err(format!("the status is {status:?}, that of the last operation {last:?}"))
        }
        _ => Ok((status, results)),
    }
}

/// Returns PUTFH.
///
/// # Panics
/// The handle is longer than NFSv4 allows.
#[must_use]
pub fn putfh(handle: &[u8]) -> ArgOp4<'_> {
    ArgOp4::Putfh(PutfhArgs { object: FileHandle4::new(handle).expect("a handle from the server") })
}

/// Returns EXCHANGE_ID of a client with this name, in the life that `verifier` identifies.
#[must_use]
pub fn exchange_id(ownerid: &[u8], verifier: Verifier4) -> ArgOp4<'_> {
    ArgOp4::ExchangeId(ExchangeIdArgs {
        clientowner: ClientOwner4 { verifier, ownerid: OwnerId4(ownerid) },
        flags: 0,
        state_protect: StateProtect4A::None,
        client_impl_id: None,
    })
}

/// Returns the attributes of a channel with messages of up to `bytes` and `slots` slots.
#[must_use]
pub fn channel(bytes: u32, slots: u32) -> ChannelAttrs4 {
    ChannelAttrs4 {
        headerpadsize: 0,
        maxrequestsize: bytes,
        maxresponsesize: bytes,
        maxresponsesize_cached: 4096,
        maxoperations: 16,
        maxrequests: slots,
        rdma_ird: None,
    }
}

/// Returns CREATE_SESSION; callbacks use AUTH_NONE.
///
/// # Panics
/// Never: one kind of credentials is allowed.
#[must_use]
pub fn create_session(
    clientid: ClientId4,
    sequence: u32,
    flags: u32,
    (fore_chan_attrs, back_chan_attrs): (ChannelAttrs4, ChannelAttrs4),
) -> ArgOp4<'static> {
    ArgOp4::CreateSession(CreateSessionArgs {
        clientid,
        sequence,
        flags,
        fore_chan_attrs,
        back_chan_attrs,
        cb_program: CALLBACK_PROGRAM,
        sec_parms: SecParms4::new(&[CallbackSecParms4::None]).expect("one is not too many"),
    })
}

/// Returns SETCLIENTID of a client with this name, whose callback service is at the universal address `callback`.
#[must_use]
pub fn set_client_id<'a>(id: &'a [u8], verifier: Verifier4, callback: &'a str) -> ArgOp4<'a> {
    let (netid, addr) = (Utf8Str4(b"tcp"), Utf8Str4(callback.as_bytes()));
    ArgOp4::SetClientId(SetClientIdArgs {
        client: NfsClientId4 { verifier, id: OwnerId4(id) },
        callback: CbClient4 { cb_program: CALLBACK_PROGRAM, cb_location: Netaddr4 { netid, addr } },
        callback_ident: 1,
    })
}
