//! EXCHANGE_ID (RFC 8881 section 18.35): introduces client and server to each other.

use wire::nfs4::{
    ClientId4, ExchangeIdArgs, ExchangeIdOk, ExchangeIdRes, NfsStat4, OwnerId4, ServerOwner4, StateProtect4A,
    StateProtect4R, exchange_id_flag,
};
use wire::xdr::{Encode as _, Encoder};

use crate::state::StateStore as _;
use crate::state::clients::Introduction;
use crate::v4::context::{Compound, Done};

pub(crate) fn run(compound: &mut Compound<'_>, args: &ExchangeIdArgs<'_>, out: &mut Encoder<'_>) -> Done {
    let later = if compound.minor < 2 { exchange_id_flag::SUPP_FENCE_OPS } else { 0 };
    if args.flags & !(exchange_id_flag::MASK_A & !later) != 0 {
        return Err(NfsStat4::Inval.into());
    }
    match args.state_protect {
        StateProtect4A::None => {}
        // Both need RPCSEC_GSS.
        StateProtect4A::MachCred(_) => return Err(NfsStat4::Inval.into()),
        StateProtect4A::Ssv(_) => return Err(NfsStat4::EncrAlgUnsupp.into()),
    }
    let name = compound.client_name(args.clientowner.ownerid.0);
    let who = Introduction { name: &name, verifier: args.clientowner.verifier, peer: compound.peer()? };
    let update = args.flags & exchange_id_flag::UPD_CONFIRMED_REC_A != 0;
    let exchanged = compound.state().exchange_id(&compound.state_context(), &who, compound.minor, update)?;
    // Equal on all addresses and after every restart, so that clients see one server.
    let server = format!("holdfast {}", compound.service.home());
    let owner = OwnerId4(server.as_bytes());
    let confirmed = if exchanged.confirmed { exchange_id_flag::CONFIRMED_R } else { 0 };
    ExchangeIdRes::Ok(ExchangeIdOk {
        clientid: ClientId4(exchanged.id.0),
        sequenceid: exchanged.sequence,
        flags: exchange_id_flag::USE_NON_PNFS | confirmed,
        state_protect: StateProtect4R::None,
        server_owner: ServerOwner4 { minor_id: 0, major_id: owner },
        server_scope: owner,
        server_impl_id: None,
    })
    .encode(out);
    Ok(())
}
