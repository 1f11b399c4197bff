//! BIND_CONN_TO_SESSION (RFC 8881 section 18.34): sets the channels of a session that a connection serves.

use wire::nfs4::{
    BindConnToSessionArgs, BindConnToSessionOk, BindConnToSessionRes, ChannelDirFromClient4,
    ChannelDirFromServer4,
};
use wire::xdr::{Encode as _, Encoder};

use crate::state::ids::SessionId;
use crate::v4::context::{Compound, Done};

pub(crate) fn run(compound: &mut Compound<'_>, args: &BindConnToSessionArgs, out: &mut Encoder<'_>) -> Done {
    let (context, peer) = (compound.state_context(), compound.peer()?);
    let dir = match args.dir {
        ChannelDirFromClient4::Fore => ChannelDirFromServer4::Fore,
        ChannelDirFromClient4::Back => ChannelDirFromServer4::Back,
        ChannelDirFromClient4::ForeOrBoth | ChannelDirFromClient4::BackOrBoth => ChannelDirFromServer4::Both,
    };
    let back = dir != ChannelDirFromServer4::Fore;
    compound.state().bind_connection(
        &context,
        SessionId(args.sessid.0),
        (compound.connection.id, &peer),
        back,
    )?;
    BindConnToSessionRes::Ok(BindConnToSessionOk { sessid: args.sessid, dir, use_conn_in_rdma_mode: false })
        .encode(out);
    Ok(())
}
