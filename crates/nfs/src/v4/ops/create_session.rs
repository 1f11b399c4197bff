//! CREATE_SESSION (RFC 8881 section 18.36): confirms a client and creates a session.

use wire::nfs4::{
    CallbackSecParms4, ChannelAttrs4, CreateSessionArgs, CreateSessionOk, CreateSessionRes, NfsStat4,
    SecParms4, SessionId4, create_session_flag,
};
use wire::xdr::{Encode as _, Encoder};

use crate::state::clients::CreateSession;
use crate::state::ids::ClientId;
use crate::state::record::{CallbackSecurity, Channel};
use crate::state::sessions::Channels;
use crate::v4::context::{Compound, Done};

pub(crate) fn run(compound: &mut Compound<'_>, args: &CreateSessionArgs<'_>, out: &mut Encoder<'_>) -> Done {
    if args.flags & !create_session_flag::MASK != 0 {
        return Err(NfsStat4::Inval.into());
    }
    let wanted = CreateSession {
        client: ClientId(args.clientid.0),
        sequence: args.sequence,
        peer: compound.peer()?,
        // Replies survive a restart, because their effects are remembered; there is no RDMA.
        flags: args.flags & (create_session_flag::PERSIST | create_session_flag::CONN_BACK_CHAN),
        channels: Channels { fore: channel(&args.fore_chan_attrs), back: channel(&args.back_chan_attrs) },
        program: args.cb_program,
        security: security(&args.sec_parms),
        connection: compound.connection.id,
    };
    let (session, token) = compound.state().create_session(&compound.state_context(), &wanted)?;
    if let Some(token) = token {
        compound.wait_for_token(token);
    }
    CreateSessionRes::Ok(CreateSessionOk {
        sessionid: SessionId4(session.id.0),
        sequence: args.sequence,
        flags: session.flags,
        fore_chan_attrs: attributes(session.fore),
        back_chan_attrs: attributes(session.back),
    })
    .encode(out);
    Ok(())
}

/// Returns the first credential that can be used for callbacks.
pub(crate) fn security(parms: &SecParms4<'_>) -> CallbackSecurity {
    let usable = parms.iter().find_map(|parms| match parms {
        CallbackSecParms4::None => Some(CallbackSecurity::None),
        CallbackSecParms4::Sys(user) => Some(CallbackSecurity::Sys { uid: user.uid, gid: user.gid }),
        CallbackSecParms4::Gss(_) => None,
    });
    usable.unwrap_or(CallbackSecurity::None)
}

fn channel(attributes: &ChannelAttrs4) -> Channel {
    Channel {
        request_bytes: attributes.maxrequestsize,
        reply_bytes: attributes.maxresponsesize,
        cached_bytes: attributes.maxresponsesize_cached,
        operations: attributes.maxoperations,
        slots: attributes.maxrequests,
    }
}

fn attributes(channel: Channel) -> ChannelAttrs4 {
    ChannelAttrs4 {
        headerpadsize: 0,
        maxrequestsize: channel.request_bytes,
        maxresponsesize: channel.reply_bytes,
        maxresponsesize_cached: channel.cached_bytes,
        maxoperations: channel.operations,
        maxrequests: channel.slots,
        rdma_ird: None,
    }
}
