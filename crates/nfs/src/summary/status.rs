//! Statuses of operations, of all protocols and of RPC itself.

use wire::mount3::MountStat3;
use wire::nfs3::NfsStat3;
use wire::nfs4::NfsStat4;
use wire::rquota;

use super::Protocol;

/// The status of an operation: a status of its protocol, or of RPC if the reply has no result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Status(u32);

/// Statuses of RPC, above those of all protocols.
const RPC: u32 = 1 << 16;

/// Names of the statuses of NLM (XNFS section 10.2, nlm4_stats), by number.
const NLM_NAMES: [&str; 10] = [
    "GRANTED",
    "DENIED",
    "DENIED_NOLOCKS",
    "BLOCKED",
    "DENIED_GRACE_PERIOD",
    "DEADLCK",
    "ROFS",
    "STALE_FH",
    "FBIG",
    "FAILED",
];

/// The status by which NLM reports a failure of the server.
const NLM_FAILED: u32 = 9;

impl Status {
    /// It succeeded, in every protocol.
    pub const OK: Status = Status(0);
    /// The arguments could not be decoded.
    pub(crate) const GARBAGE_ARGS: Status = Status(RPC);
    /// There is no such program, version or procedure.
    pub(crate) const UNAVAILABLE: Status = Status(RPC + 1);
    /// It failed, and its result has no status.
    pub(crate) const SYSTEM_ERROR: Status = Status(RPC + 2);
    /// The credential was not accepted.
    pub(crate) const AUTH_ERROR: Status = Status(RPC + 3);

    /// NFS3ERR_IO, NFS4ERR_IO: what is reported in place of a result that can never become durable.
    pub const IO: Status = Status(NfsStat3::Io.code());

    /// The status of this number in its protocol.
    #[inline]
    pub(crate) const fn of_code(code: u32) -> Status {
        Status(code)
    }

    /// The status that a result begins with. No result says that the procedure is one without a status.
    #[inline]
    pub(crate) fn of_result(result: &[u8]) -> Status {
        result.first_chunk().map_or(Status::OK, |word| Status(u32::from_be_bytes(*word)))
    }

    /// The status of a result of NLM, which follows a cookie.
    pub(crate) fn of_nlm(result: &[u8]) -> Status {
        let length = Status::of_result(result).0;
        let padded = usize::try_from(length).unwrap_or(0).saturating_add(3) & !3;
        Status::of_result(result.get(padded.saturating_add(4)..).unwrap_or_default())
    }

    /// The status of a result of RQUOTA, where success has a number.
    pub(crate) fn of_rquota(result: &[u8]) -> Status {
        match Status::of_result(result) {
            Status(rquota::STATUS_OK) => Status::OK,
            other => other,
        }
    }

    /// Returns the name in the protocol's RFC, without the prefix that all have: `NOENT`.
    #[must_use]
    pub fn name(self, protocol: Protocol) -> &'static str {
        match self {
            Status::OK => return "OK",
            Status::GARBAGE_ARGS => return "GARBAGE_ARGS",
            Status::UNAVAILABLE => return "UNAVAILABLE",
            Status::SYSTEM_ERROR => return "SYSTEM_ERR",
            Status::AUTH_ERROR => return "AUTH_ERROR",
            Status(_) => {}
        }
        let name = match protocol {
            Protocol::Nfs3 => NfsStat3::from_code(self.0).map(NfsStat3::name),
            Protocol::Nfs4 => NfsStat4::from_code(self.0).map(NfsStat4::name),
            Protocol::Mount => MountStat3::from_code(self.0).map(MountStat3::name),
            Protocol::Nlm => usize::try_from(self.0).ok().and_then(|number| NLM_NAMES.get(number)).copied(),
            Protocol::Rquota => match self.0 {
                rquota::STATUS_NO_QUOTA => Some("NOQUOTA"),
                rquota::STATUS_PERM => Some("EPERM"),
                _ => None,
            },
            Protocol::Nsm | Protocol::Portmap | Protocol::Rpc => None,
        };
        let name = name.unwrap_or("OTHER");
        ["NFS3ERR_", "NFS4ERR_", "MNT3ERR_"]
            .iter()
            .find_map(|prefix| name.strip_prefix(prefix))
            .unwrap_or(name)
    }

    /// Whether the server could not do what it should have done: a device failed, or the server itself.
    #[must_use]
    pub fn is_fault(self, protocol: Protocol) -> bool {
        let is_failure = |code| code == NfsStat3::Io.code() || code == NfsStat3::ServerFault.code();
        match protocol {
            Protocol::Nlm => self == Status::SYSTEM_ERROR || self.0 == NLM_FAILED,
            _ => self == Status::SYSTEM_ERROR || is_failure(self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_protocol() {
        let names = [
            (NfsStat3::NoEnt.code(), Protocol::Nfs3, "NOENT"),
            (NfsStat4::BadStateId.code(), Protocol::Nfs4, "BAD_STATEID"),
            (1, Protocol::Nlm, "DENIED"),
            (MountStat3::Acces.code(), Protocol::Mount, "ACCES"),
            (rquota::STATUS_PERM, Protocol::Rquota, "EPERM"),
            (12_345, Protocol::Nfs3, "OTHER"),
            (0, Protocol::Portmap, "OK"),
        ];
        for (code, protocol, name) in names {
            assert_eq!(Status::of_code(code).name(protocol), name);
        }
        assert_eq!(Status::GARBAGE_ARGS.name(Protocol::Nfs4), "GARBAGE_ARGS");
    }

    #[test]
    fn faults_are_the_server_s_own() {
        assert!(Status::IO.is_fault(Protocol::Nfs4) && Status::SYSTEM_ERROR.is_fault(Protocol::Nfs3));
        assert!(!Status::from(NfsStat4::NoEnt).is_fault(Protocol::Nfs4));
        assert!(!Status::of_code(5).is_fault(Protocol::Nlm), "that is a deadlock");
    }
}
