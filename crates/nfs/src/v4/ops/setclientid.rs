//! SETCLIENTID (RFC 7530 section 16.33): introduces an NFSv4.0 client, with its callback address.

use std::net::{IpAddr, SocketAddr};

use wire::nfs4::{
    CbClient4, ClientId4, Netaddr4, NfsStat4, SetClientIdArgs, SetClientIdFail, SetClientIdOk,
    SetClientIdRes, Utf8Str4,
};
use wire::portmap::{parse_universal_address, universal_address};
use wire::xdr::{Encode as _, Encoder};

use crate::link_local::without_link;
use crate::state::clients::{Introduction, NameInUse};
use crate::state::record::{ADDRESS_BYTES_MAX, CallbackAddress};
use crate::v4::context::{Compound, Done};

/// The first program number that is not assigned by IANA (RFC 5531 section 8.3). A callback program is transient.
const UNASSIGNED_PROGRAM: u32 = 0x2000_0000;

pub(crate) fn run(compound: &mut Compound<'_>, args: &SetClientIdArgs<'_>, out: &mut Encoder<'_>) -> Done {
    let name = compound.client_name(args.client.id.0);
    let who = Introduction { name: &name, verifier: args.client.verifier, peer: compound.peer()? };
    let callback = callback(args, who.peer.address);
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

/// Returns where a client at `peer` wants to be called, without an address if it must not be called there.
///
/// Only the client itself is called, and none of the services that its host may have; otherwise anyone could have this server connect
/// to any address it reaches, and a user of a host to what trusts this server there. So the address is that of the peer, which also
/// says on which link a link-local one is.
fn callback(args: &SetClientIdArgs<'_>, peer: IpAddr) -> CallbackAddress {
    let CbClient4 { cb_program: program, cb_location: Netaddr4 { netid, addr } } = args.callback;
    let may_call =
        |named: &SocketAddr| named.ip().to_canonical() == without_link(peer) && program >= UNASSIGNED_PROGRAM;
    let named = parse_universal_address(addr.0).filter(may_call);
    let address = named.map(|named| universal_address(&SocketAddr::new(peer, named.port())));
    let address = address.unwrap_or_default().into_bytes().into();
    // An overlong id counts as none.
    let netid = if netid.0.len() > ADDRESS_BYTES_MAX { Box::default() } else { Box::from(netid.0) };
    CallbackAddress { program, netid, address, ident: args.callback_ident }
}

#[cfg(test)]
mod tests {
    use wire::nfs4::{NfsClientId4, OwnerId4};

    use super::*;
    use crate::link_local::{named, socket_address};

    #[test]
    fn only_a_program_of_the_client_itself_is_called() {
        let address_at = |peer: IpAddr, program, addr: &'static [u8]| {
            let callback = CbClient4 {
                cb_program: program,
                cb_location: Netaddr4 { netid: Utf8Str4(b"tcp"), addr: Utf8Str4(addr) },
            };
            let client = NfsClientId4 { verifier: [0; 8], id: OwnerId4(b"client") };
            let args = SetClientIdArgs { client, callback, callback_ident: 1 };
            super::callback(&args, peer).address
        };
        let address = |program, addr| address_at("192.0.2.1".parse().unwrap(), program, addr);
        assert_eq!(*address(0x4000_0000, b"192.0.2.1.8.1"), *b"192.0.2.1.8.1");
        assert_eq!(*address(0x4000_0000, b"192.0.2.2.8.1"), *b"", "another host");
        assert_eq!(*address(100_003, b"192.0.2.1.8.1"), *b"", "NFS");
        assert_eq!(*address(0x1fff_ffff, b"192.0.2.1.8.1"), *b"");
        assert_eq!(*address(0x2000_0000, b"192.0.2.1.8.1"), *b"192.0.2.1.8.1");
        let link_local = named("[fe80::1%2]:700".parse().unwrap()).unwrap().ip();
        let called = address_at(link_local, 0x2000_0000, b"fe80::1.8.1");
        let called = parse_universal_address(&called).unwrap();
        assert_eq!(socket_address(called), "[fe80::1%2]:2049".parse().unwrap());
        assert_eq!(*address_at(link_local, 0x2000_0000, b"fe80:2::1.8.1"), *b"", "not its address");
    }
}
