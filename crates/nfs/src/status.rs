//! Maps the engine's errors to the statuses of the protocols.

use volume::request::Error;
use wire::mount3::MountStat3;
use wire::nfs3::NfsStat3;
use wire::nfs4::NfsStat4;

/// Errors that are not sent to clients: the call is run again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Retry {
    /// Media must be read.
    WouldBlock,
    /// A limit is reached that other changes share.
    Busy,
    /// Something is in the way of this call.
    Later,
}

/// Maps an error to a status of NFSv3 (RFC 1813 section 2.6).
///
/// # Errors
/// [`Retry`] for errors that clients do not see.
pub(crate) fn nfs3(error: Error) -> Result<NfsStat3, Retry> {
    Ok(match error {
        Error::NotPermitted => NfsStat3::Perm,
        Error::NoEntry => NfsStat3::NoEnt,
        Error::Io => NfsStat3::Io,
        Error::AccessDenied => NfsStat3::Acces,
        Error::Exists => NfsStat3::Exist,
        Error::NotDirectory => NfsStat3::NotDir,
        Error::IsDirectory => NfsStat3::IsDir,
        Error::Invalid => NfsStat3::Inval,
        Error::FileTooLarge => NfsStat3::Fbig,
        Error::NoSpace | Error::TooManyVolumes | Error::TooManyQuotas => NfsStat3::NoSpc,
        Error::QuotaExceeded => NfsStat3::Dquot,
        Error::ReadOnly => NfsStat3::Rofs,
        Error::TooManyLinks => NfsStat3::Mlink,
        Error::NameTooLong => NfsStat3::NameTooLong,
        Error::NotEmpty => NfsStat3::NotEmpty,
        Error::Stale => NfsStat3::Stale,
        Error::BadHandle => NfsStat3::BadHandle,
        Error::NotSync => NfsStat3::NotSync,
        Error::BadCookie => NfsStat3::BadCookie,
        Error::BadType => NfsStat3::BadType,
        Error::CrossDevice => NfsStat3::Xdev,
        Error::WouldBlock => return Err(Retry::WouldBlock),
        Error::Busy => return Err(Retry::Busy),
        Error::ObjectBusy => return Err(Retry::Later),
    })
}

/// Maps an error to a status of NFSv4 (RFC 8881 section 15.1).
pub(crate) fn nfs4(error: Error) -> NfsStat4 {
    match error {
        Error::NotPermitted => NfsStat4::Perm,
        Error::NoEntry => NfsStat4::NoEnt,
        Error::Io => NfsStat4::Io,
        Error::AccessDenied => NfsStat4::Access,
        Error::Exists => NfsStat4::Exist,
        Error::NotDirectory => NfsStat4::NotDir,
        Error::IsDirectory => NfsStat4::IsDir,
        // No operation of NFSv4 has a ctime guard.
        Error::Invalid | Error::NotSync => NfsStat4::Inval,
        Error::FileTooLarge => NfsStat4::Fbig,
        Error::NoSpace | Error::TooManyVolumes | Error::TooManyQuotas => NfsStat4::NoSpc,
        Error::QuotaExceeded => NfsStat4::Dquot,
        Error::ReadOnly => NfsStat4::Rofs,
        Error::TooManyLinks => NfsStat4::Mlink,
        Error::NameTooLong => NfsStat4::NameTooLong,
        Error::NotEmpty => NfsStat4::NotEmpty,
        Error::Stale => NfsStat4::Stale,
        Error::BadHandle => NfsStat4::BadHandle,
        Error::BadCookie => NfsStat4::BadCookie,
        Error::BadType => NfsStat4::BadType,
        Error::CrossDevice => NfsStat4::Xdev,
        Error::WouldBlock | Error::Busy | Error::ObjectBusy => NfsStat4::Delay,
    }
}

/// Maps a status of NFSv3 to one of MNT (RFC 1813 section 5.1.5), which has the same numbers but fewer of them.
pub(crate) fn mount3(status: NfsStat3) -> MountStat3 {
    match MountStat3::from_code(status.code()) {
        None | Some(MountStat3::Ok) => MountStat3::ServerFault,
        Some(known) => known,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_has_its_own_status() {
        let errors = [
            (Error::NotPermitted, 1),
            (Error::NoEntry, 2),
            (Error::Io, 5),
            (Error::AccessDenied, 13),
            (Error::Exists, 17),
            (Error::CrossDevice, 18),
            (Error::NotDirectory, 20),
            (Error::IsDirectory, 21),
            (Error::Invalid, 22),
            (Error::FileTooLarge, 27),
            (Error::NoSpace, 28),
            (Error::ReadOnly, 30),
            (Error::TooManyLinks, 31),
            (Error::NameTooLong, 63),
            (Error::NotEmpty, 66),
            (Error::QuotaExceeded, 69),
            (Error::Stale, 70),
            (Error::BadHandle, 10_001),
            (Error::NotSync, 10_002),
            (Error::BadCookie, 10_003),
            (Error::BadType, 10_007),
        ];
        for (error, code) in errors {
            assert_eq!(nfs3(error).map(NfsStat3::code), Ok(code), "{error:?}");
        }
        assert_eq!(nfs3(Error::WouldBlock), Err(Retry::WouldBlock));
        assert_eq!(nfs3(Error::Busy), Err(Retry::Busy));
        assert_eq!(nfs3(Error::ObjectBusy), Err(Retry::Later));
    }

    #[test]
    fn mount_statuses_have_the_numbers_of_nfs() {
        assert_eq!(mount3(NfsStat3::NoEnt), MountStat3::NoEnt);
        assert_eq!(mount3(NfsStat3::NotDir), MountStat3::NotDir);
        assert_eq!(mount3(NfsStat3::Stale), MountStat3::ServerFault);
        assert_eq!(mount3(NfsStat3::Ok), MountStat3::ServerFault);
    }
}
