//! Why the state refuses an operation, in terms of no protocol.
//!
//! NFSv4 maps this to its statuses in `v4/status.rs`, NFSv3 in `recall.rs`, NLM in `nlm.rs`, each once.

use volume::request::Error;

/// Why an operation was not done. But for [`StateError::Unfinished`], nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StateError {
    /// One part of a long operation is done. The caller repeats the call for the next part, and serves others in between.
    Unfinished,
    /// A delegation is being recalled, a request is still being executed, or a limit is reached that time relieves.
    TryLater,
    /// A limit is reached; waiting does not help.
    LimitReached,
    /// One file has as many locked ranges as are allowed.
    TooManyRanges,
    /// The client has as many sessions as are allowed.
    TooManySessions,
    /// A share reservation of another owner forbids the open.
    ShareDenied,
    /// A share reservation of another owner forbids the I/O.
    ShareLocked,
    /// The open does not allow this access.
    OpenMode,
    /// A downgrade to modes that were never opened.
    ModeNeverOpened,
    /// The lock owner still has locks.
    LocksHeld,
    /// There is nothing to reclaim.
    NothingToReclaim,
    /// The client has completed its reclaims before.
    AlreadyReclaimed,
    /// The stateid names nothing that is held, or something of another kind.
    BadStateId,
    /// The stateid was superseded by a later one.
    OldStateId,
    /// An unknown instance of the server handed out the stateid.
    StaleStateId,
    /// What the stateid names was revoked.
    Revoked,
    /// The client's lease expired, and its state is gone.
    Expired,
    /// No such client is known.
    UnknownClient,
    /// Another principal uses the client's name.
    ClientInUse,
    /// The client still has sessions, state or copies.
    ClientBusy,
    /// An update names a client that is not confirmed.
    NotConfirmed,
    /// An update comes with another verifier.
    VerifierDiffers,
    /// An update comes from another principal.
    PrincipalDiffers,
    /// The request comes from an address that is not the client's.
    NotBound,
    /// The request manages the client, and comes from another principal.
    WrongPrincipal,
    /// Callbacks do not reach the client.
    CallbackPathDown,
    /// No such session is known.
    UnknownSession,
    /// The session has no such slot.
    BadSlot,
    /// The client claims to use a slot that the session does not have.
    BadHighSlot,
    /// The sequence number is neither the last one nor the next.
    OutOfSequence,
    /// The sequence number is the last one, but the request is another.
    FalseRetry,
    /// A channel is too small for any request.
    ChannelTooSmall,
    /// The journal did not take the change.
    Engine(Error),
}

impl From<Error> for StateError {
    fn from(error: Error) -> StateError {
        StateError::Engine(error)
    }
}
