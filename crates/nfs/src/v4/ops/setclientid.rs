//! SETCLIENTID (RFC 7530 section 16.33): introduces an NFSv4.0 client, with its callback address.

use wire::nfs4::{
    ClientId4, Netaddr4, NfsStat4, SetClientIdArgs, SetClientIdFail, SetClientIdOk, SetClientIdRes, Utf8Str4,
};
use wire::portmap::parse_universal_address;
use wire::xdr::{Encode as _, Encoder};

use crate::state::clients::{Introduction, NameInUse};
use crate::state::record::{ADDRESS_BYTES_MAX, CallbackAddress};
use crate::v4::context::{Compound, Done};

pub(crate) fn run(compound: &mut Compound<'_>, args: &SetClientIdArgs<'_>, out: &mut Encoder<'_>) -> Done {
    let name = compound.client_name(args.client.id.0);
    let who = Introduction { name: &name, verifier: args.client.verifier, peer: compound.peer()? };
    // An overlong address counts as none.
    let short = |text: Utf8Str4<'_>| {
        if text.0.len() > ADDRESS_BYTES_MAX { Box::default() } else { Box::from(text.0) }
    };
    let location = &args.callback.cb_location;
    // Only the client itself is called; otherwise anyone could have this server connect to any address it reaches.
    let own = |addr: Utf8Str4<'_>| {
        let named = parse_universal_address(addr.0).map(|named| named.ip().to_canonical());
        named == Some(who.peer.address)
    };
    let callback = CallbackAddress {
        program: args.callback.cb_program,
        netid: short(location.netid),
        address: if own(location.addr) { short(location.addr) } else { Box::default() },
        ident: args.callback_ident,
    };
    match compound.state().set_client_id(&compound.state_context(), &who, callback) {
        Ok((id, setclientid_confirm)) => {
            SetClientIdRes::Ok(SetClientIdOk { clientid: ClientId4(id.0), setclientid_confirm }).encode(out);
        }
        Err(NameInUse(Some(address))) => {
            let (netid, addr) = (Utf8Str4(&address.netid), Utf8Str4(&address.address));
            SetClientIdRes::Err(SetClientIdFail::ClientUsing(Netaddr4 { netid, addr })).encode(out);
        }
        Err(NameInUse(None)) => return Err(NfsStat4::ServerFault.into()),
    }
    Ok(())
}
