//! The table from program, version and procedure to an operation.

use wire::nfs3;
use wire::rpc::AcceptStat;
use wire::{mount3, nfs4, nlm4, nsm, portmap, rquota};

use crate::call::Operation;
use crate::connection::Transport;
use crate::summary::{MOUNT, NFS3, NFS4, NLM, NSM, OperationId, PORTMAP, RQUOTA};

/// One version of a program, with its procedures in the order of their numbers.
struct Version {
    program: u32,
    version: u32,
    procedures: &'static [Operation],
    /// The number of its first procedure among those of all protocols.
    first: u8,
    /// Whether its calls may come as datagrams, too: they change nothing, and those that matter have short replies.
    in_datagrams: bool,
}

impl Version {
    fn is_served_over(&self, transport: Transport) -> bool {
        transport == Transport::Tcp || self.in_datagrams
    }
}

/// The programs that are served, the busiest first.
static VERSIONS: [Version; 10] = [
    Version {
        program: nfs3::PROGRAM,
        version: nfs3::VERSION,
        procedures: &crate::v3::OPERATIONS,
        first: NFS3,
        in_datagrams: false,
    },
    Version {
        program: nfs4::PROGRAM,
        version: nfs4::VERSION,
        procedures: &crate::v4::OPERATIONS,
        first: NFS4,
        in_datagrams: false,
    },
    Version {
        program: nlm4::PROGRAM,
        version: nlm4::VERSION,
        procedures: &crate::nlm::OPERATIONS,
        first: NLM,
        in_datagrams: false,
    },
    Version {
        program: nsm::PROGRAM,
        version: nsm::VERSION,
        procedures: &crate::nsm::OPERATIONS,
        first: NSM,
        in_datagrams: false,
    },
    Version {
        program: mount3::PROGRAM,
        version: mount3::VERSION,
        procedures: &crate::mount::OPERATIONS,
        first: MOUNT,
        in_datagrams: false,
    },
    Version {
        program: rquota::PROGRAM,
        version: rquota::VERSION_USERS,
        procedures: &crate::rquota::OPERATIONS,
        first: RQUOTA,
        in_datagrams: true,
    },
    Version {
        program: rquota::PROGRAM,
        version: rquota::VERSION_KINDS,
        procedures: &crate::rquota::OPERATIONS,
        first: RQUOTA,
        in_datagrams: true,
    },
    Version {
        program: portmap::PROGRAM,
        version: portmap::VERSION_PORTMAP,
        procedures: &crate::portmap::PORTMAP_OPERATIONS,
        first: PORTMAP,
        in_datagrams: true,
    },
    Version {
        program: portmap::PROGRAM,
        version: 3,
        procedures: &crate::portmap::RPCBIND_OPERATIONS,
        first: PORTMAP,
        in_datagrams: true,
    },
    Version {
        program: portmap::PROGRAM,
        version: 4,
        procedures: &crate::portmap::RPCBIND_OPERATIONS,
        first: PORTMAP,
        in_datagrams: true,
    },
];

/// Finds the operation of a procedure, and its number among those of all protocols.
///
/// # Errors
/// The status to reply if it does not exist (RFC 5531 section 9).
pub(crate) fn find(
    transport: Transport,
    program: u32,
    version: u32,
    procedure: u32,
) -> Result<(&'static Operation, OperationId), AcceptStat> {
    let known = VERSIONS.iter().find(|known| known.program == program && known.version == version);
    let known = known.filter(|known| known.is_served_over(transport));
    let Some(known) = known else { return Err(unknown_version(transport, program)) };
    let number = u8::try_from(procedure).map_err(|_| AcceptStat::ProcUnavail)?;
    let operation = known.procedures.get(usize::from(number)).ok_or(AcceptStat::ProcUnavail)?;
    Ok((operation, OperationId::of_procedure(known.first, number)))
}

fn unknown_version(transport: Transport, program: u32) -> AcceptStat {
    let versions = || served(transport).filter(|known| known.0 == program).map(|known| known.1);
    match (versions().min(), versions().max()) {
        (Some(low), Some(high)) => AcceptStat::ProgMismatch { low, high },
        _ => AcceptStat::ProgUnavail,
    }
}

/// Returns the programs and versions that are served over a transport.
pub(crate) fn served(transport: Transport) -> impl Iterator<Item = (u32, u32)> {
    let served = VERSIONS.iter().filter(move |known| known.is_served_over(transport));
    served.map(|known| (known.program, known.version))
}
