//! The errors of the shared state as statuses of NFSv4; the one place that maps them.

use wire::nfs4::NfsStat4;

use crate::state::StateError;
use crate::status;
use crate::v4::context::OpStop;

impl From<StateError> for NfsStat4 {
    fn from(error: StateError) -> NfsStat4 {
        match error {
            StateError::TryLater | StateError::Unfinished => NfsStat4::Delay,
            StateError::LimitReached => NfsStat4::Resource,
            StateError::TooManyRanges => NfsStat4::ServerFault,
            StateError::TooManySessions => NfsStat4::NoSpc,
            StateError::ShareDenied => NfsStat4::ShareDenied,
            StateError::ShareLocked => NfsStat4::Locked,
            StateError::OpenMode => NfsStat4::OpenMode,
            StateError::ModeNeverOpened => NfsStat4::Inval,
            StateError::LocksHeld => NfsStat4::LocksHeld,
            StateError::NothingToReclaim => NfsStat4::NoGrace,
            StateError::AlreadyReclaimed => NfsStat4::CompleteAlready,
            StateError::BadStateId => NfsStat4::BadStateId,
            StateError::OldStateId => NfsStat4::OldStateId,
            StateError::StaleStateId => NfsStat4::StaleStateId,
            StateError::Revoked => NfsStat4::DelegRevoked,
            StateError::Expired => NfsStat4::Expired,
            StateError::UnknownClient => NfsStat4::StaleClientId,
            StateError::ClientInUse => NfsStat4::ClidInUse,
            StateError::ClientBusy => NfsStat4::ClientIdBusy,
            StateError::NotConfirmed => NfsStat4::NoEnt,
            StateError::VerifierDiffers => NfsStat4::NotSame,
            StateError::PrincipalDiffers => NfsStat4::Perm,
            StateError::NotBound => NfsStat4::ConnNotBoundToSession,
            StateError::WrongPrincipal => NfsStat4::WrongCred,
            StateError::CallbackPathDown => NfsStat4::CbPathDown,
            StateError::UnknownSession => NfsStat4::BadSession,
            StateError::BadSlot => NfsStat4::BadSlot,
            StateError::BadHighSlot => NfsStat4::BadHighSlot,
            StateError::OutOfSequence => NfsStat4::SeqMisordered,
            StateError::FalseRetry => NfsStat4::SeqFalseRetry,
            StateError::ChannelTooSmall => NfsStat4::TooSmall,
            StateError::Engine(error) => status::nfs4(error),
        }
    }
}

impl From<StateError> for OpStop {
    fn from(error: StateError) -> OpStop {
        match error {
            StateError::Engine(error) => error.into(),
            // The next run of the COMPOUND does the next part.
            StateError::Unfinished => OpStop::WouldBlock,
            error => OpStop::Status(error.into()),
        }
    }
}
