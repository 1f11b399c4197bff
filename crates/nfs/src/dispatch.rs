//! The table from program, version and procedure to an operation.

use wire::nfs3;
use wire::rpc::AcceptStat;
use wire::{mount3, nfs4, nlm4, nsm, portmap};

use crate::call::Operation;

/// One version of a program, with its procedures in the order of their numbers.
struct Version {
    program: u32,
    version: u32,
    procedures: &'static [Operation],
}

/// The programs that are served, the busiest first.
static VERSIONS: [Version; 8] = [
    Version { program: nfs3::PROGRAM, version: nfs3::VERSION, procedures: &crate::v3::OPERATIONS },
    Version { program: nfs4::PROGRAM, version: nfs4::VERSION, procedures: &crate::v4::OPERATIONS },
    Version { program: nlm4::PROGRAM, version: nlm4::VERSION, procedures: &crate::nlm::OPERATIONS },
    Version { program: nsm::PROGRAM, version: nsm::VERSION, procedures: &crate::nsm::OPERATIONS },
    Version { program: mount3::PROGRAM, version: mount3::VERSION, procedures: &crate::mount::OPERATIONS },
    Version {
        program: portmap::PROGRAM,
        version: portmap::VERSION_PORTMAP,
        procedures: &crate::portmap::PORTMAP_OPERATIONS,
    },
    Version { program: portmap::PROGRAM, version: 3, procedures: &crate::portmap::RPCBIND_OPERATIONS },
    Version { program: portmap::PROGRAM, version: 4, procedures: &crate::portmap::RPCBIND_OPERATIONS },
];

/// Finds the operation of a procedure.
///
/// # Errors
/// The status to reply if it does not exist (RFC 5531 section 9).
pub(crate) fn find(program: u32, version: u32, procedure: u32) -> Result<&'static Operation, AcceptStat> {
    let known = VERSIONS.iter().find(|known| known.program == program && known.version == version);
    let Some(known) = known else { return Err(unknown_version(program)) };
    usize::try_from(procedure)
        .ok()
        .and_then(|procedure| known.procedures.get(procedure))
        .ok_or(AcceptStat::ProcUnavail)
}

fn unknown_version(program: u32) -> AcceptStat {
    let versions = || VERSIONS.iter().filter(|known| known.program == program).map(|known| known.version);
    match (versions().min(), versions().max()) {
        (Some(low), Some(high)) => AcceptStat::ProgMismatch { low, high },
        _ => AcceptStat::ProgUnavail,
    }
}

/// Returns the programs and versions that are served, for the portmapper.
pub(crate) fn served() -> impl Iterator<Item = (u32, u32)> {
    VERSIONS.iter().map(|known| (known.program, known.version))
}
