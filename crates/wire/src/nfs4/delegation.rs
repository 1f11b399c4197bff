//! Delegations: what OPEN grants, DELEGPURGE, DELEGRETURN, WANT_DELEGATION, GET_DIR_DELEGATION.

use super::{Bitmap4, ClientId4, Nfsace4, Nfstime4, Res4, Stateid4, Verifier4};
use crate::xdr::{Decode, DecodeError, Decoder, Encode, Encoder};

xdr_enum! {
    /// A kind of delegation (RFC 8881 section 18.16, open_delegation_type4; RFC 9754).
    pub enum OpenDelegationType4 {
        /// None.
        None = 0,
        /// To read.
        Read = 1,
        /// To write.
        Write = 2,
        /// None, with the reason. Not in NFSv4.0.
        NoneExt = 3,
        /// To read, with the time of the last read.
        ReadAttrsDeleg = 4,
        /// To write, with the times.
        WriteAttrsDeleg = 5,
    }
}

xdr_struct! {
    /// A delegation to read (RFC 8881 section 18.16, open_read_delegation4).
    pub struct OpenReadDelegation4<'a> {
        /// The delegation.
        pub stateid: Stateid4,
        /// Whether it is recalled at once, as a reclaimed one may be.
        pub recall: bool,
        /// Who may read without asking with ACCESS.
        pub permissions: Nfsace4<'a>,
    }
}

/// When a client that holds a delegation must write back (RFC 8881 section 18.16, nfs_space_limit4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NfsSpaceLimit4 {
    /// When the file would be larger than this, in bytes.
    Filesize(u64),
    /// When more than so many blocks are changed.
    ModBlocks {
        /// How many blocks.
        num_blocks: u32,
        /// The size of a block.
        bytes_per_block: u32,
    },
}

impl Encode for NfsSpaceLimit4 {
    fn encode(&self, out: &mut Encoder<'_>) {
        match *self {
            Self::Filesize(bytes) => {
                out.u32(1);
                out.u64(bytes);
            }
            Self::ModBlocks { num_blocks, bytes_per_block } => {
                out.u32(2);
                out.u32(num_blocks);
                out.u32(bytes_per_block);
            }
        }
    }
}

impl Decode<'_> for NfsSpaceLimit4 {
    fn decode(input: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        match input.u32()? {
            1 => input.u64().map(Self::Filesize),
            2 => Ok(Self::ModBlocks { num_blocks: input.u32()?, bytes_per_block: input.u32()? }),
            value => Err(DecodeError::BadEnum { name: "NfsSpaceLimit4", value }),
        }
    }
}

xdr_struct! {
    /// A delegation to write (RFC 8881 section 18.16, open_write_delegation4).
    pub struct OpenWriteDelegation4<'a> {
        /// The delegation.
        pub stateid: Stateid4,
        /// Whether it is recalled at once, as a reclaimed one may be.
        pub recall: bool,
        /// When the client must write back.
        pub space_limit: NfsSpaceLimit4,
        /// Who may open without asking with ACCESS.
        pub permissions: Nfsace4<'a>,
    }
}

/// Why there is no delegation (RFC 8881 section 18.16, open_none_delegation4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenNoneDelegation4 {
    /// It was not wanted.
    NotWanted,
    /// Others use the file.
    Contention {
        /// Whether the server will give it later.
        server_will_push_deleg: bool,
    },
    /// The server has no room.
    Resource {
        /// Whether the server will tell when it has.
        server_will_signal_avail: bool,
    },
    /// Not for this type of file.
    NotSuppFtype,
    /// Not to write, for this type of file.
    WriteDelegNotSuppFtype,
    /// Delegations cannot be upgraded.
    NotSuppUpgrade,
    /// Delegations cannot be downgraded.
    NotSuppDowngrade,
    /// The wish was taken back.
    Cancelled,
    /// It is a directory.
    IsDir,
}

impl Encode for OpenNoneDelegation4 {
    fn encode(&self, out: &mut Encoder<'_>) {
        match *self {
            Self::NotWanted => out.u32(0),
            Self::Contention { server_will_push_deleg } => {
                out.u32(1);
                out.bool(server_will_push_deleg);
            }
            Self::Resource { server_will_signal_avail } => {
                out.u32(2);
                out.bool(server_will_signal_avail);
            }
            Self::NotSuppFtype => out.u32(3),
            Self::WriteDelegNotSuppFtype => out.u32(4),
            Self::NotSuppUpgrade => out.u32(5),
            Self::NotSuppDowngrade => out.u32(6),
            Self::Cancelled => out.u32(7),
            Self::IsDir => out.u32(8),
        }
    }
}

impl Decode<'_> for OpenNoneDelegation4 {
    fn decode(input: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        Ok(match input.u32()? {
            0 => Self::NotWanted,
            1 => Self::Contention { server_will_push_deleg: input.bool()? },
            2 => Self::Resource { server_will_signal_avail: input.bool()? },
            3 => Self::NotSuppFtype,
            4 => Self::WriteDelegNotSuppFtype,
            5 => Self::NotSuppUpgrade,
            6 => Self::NotSuppDowngrade,
            7 => Self::Cancelled,
            8 => Self::IsDir,
            value => return Err(DecodeError::BadEnum { name: "OpenNoneDelegation4", value }),
        })
    }
}

/// A delegation, or why there is none (RFC 8881 section 18.16, open_delegation4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenDelegation4<'a> {
    /// None.
    None,
    /// To read.
    Read(OpenReadDelegation4<'a>),
    /// To write.
    Write(OpenWriteDelegation4<'a>),
    /// None, and why. Not in NFSv4.0.
    NoneExt(OpenNoneDelegation4),
    /// To read, with the time of the last read (RFC 9754).
    ReadAttrs(OpenReadDelegation4<'a>),
    /// To write, with the times (RFC 9754).
    WriteAttrs(OpenWriteDelegation4<'a>),
}

impl OpenDelegation4<'_> {
    /// The kind.
    #[must_use]
    pub const fn delegation_type(&self) -> OpenDelegationType4 {
        match self {
            Self::None => OpenDelegationType4::None,
            Self::Read(_) => OpenDelegationType4::Read,
            Self::Write(_) => OpenDelegationType4::Write,
            Self::NoneExt(_) => OpenDelegationType4::NoneExt,
            Self::ReadAttrs(_) => OpenDelegationType4::ReadAttrsDeleg,
            Self::WriteAttrs(_) => OpenDelegationType4::WriteAttrsDeleg,
        }
    }
}

impl Encode for OpenDelegation4<'_> {
    fn encode(&self, out: &mut Encoder<'_>) {
        self.delegation_type().encode(out);
        match self {
            Self::None => {}
            Self::Read(delegation) | Self::ReadAttrs(delegation) => delegation.encode(out),
            Self::Write(delegation) | Self::WriteAttrs(delegation) => delegation.encode(out),
            Self::NoneExt(why) => why.encode(out),
        }
    }
}

impl<'a> Decode<'a> for OpenDelegation4<'a> {
    fn decode(input: &mut Decoder<'a>) -> Result<Self, DecodeError> {
        Ok(match OpenDelegationType4::decode(input)? {
            OpenDelegationType4::None => Self::None,
            OpenDelegationType4::Read => Self::Read(Decode::decode(input)?),
            OpenDelegationType4::Write => Self::Write(Decode::decode(input)?),
            OpenDelegationType4::NoneExt => Self::NoneExt(Decode::decode(input)?),
            OpenDelegationType4::ReadAttrsDeleg => Self::ReadAttrs(Decode::decode(input)?),
            OpenDelegationType4::WriteAttrsDeleg => Self::WriteAttrs(Decode::decode(input)?),
        })
    }
}

xdr_struct! {
    /// The arguments of DELEGPURGE (RFC 8881 section 18.5).
    pub struct DelegpurgeArgs {
        /// Whose delegations of before its restart are to be forgotten.
        pub clientid: ClientId4,
    }
}

/// The result of DELEGPURGE.
pub type DelegpurgeRes = Res4<()>;

xdr_struct! {
    /// The arguments of DELEGRETURN (RFC 8881 section 18.6).
    pub struct DelegreturnArgs {
        /// The delegation.
        pub deleg_stateid: Stateid4,
    }
}

/// The result of DELEGRETURN.
pub type DelegreturnRes = Res4<()>;

/// By which right WANT_DELEGATION asks (RFC 8881 section 18.49, deleg_claim4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DelegClaim4 {
    /// The current file, which was delegated so before the server restarted.
    Previous(OpenDelegationType4),
    /// The current file.
    Fh,
    /// The current file, which was delegated before the client restarted.
    DelegPrevFh,
}

impl Encode for DelegClaim4 {
    fn encode(&self, out: &mut Encoder<'_>) {
        match self {
            Self::Previous(delegate_type) => {
                out.u32(1);
                delegate_type.encode(out);
            }
            Self::Fh => out.u32(4),
            Self::DelegPrevFh => out.u32(6),
        }
    }
}

impl Decode<'_> for DelegClaim4 {
    fn decode(input: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        match input.u32()? {
            1 => OpenDelegationType4::decode(input).map(Self::Previous),
            4 => Ok(Self::Fh),
            6 => Ok(Self::DelegPrevFh),
            value => Err(DecodeError::BadEnum { name: "DelegClaim4", value }),
        }
    }
}

xdr_struct! {
    /// The arguments of WANT_DELEGATION (RFC 8881 section 18.49).
    pub struct WantDelegationArgs {
        /// Wishes of [`share_access`](super::share_access).
        pub want: u32,
        /// By which right.
        pub claim: DelegClaim4,
    }
}

/// The result of WANT_DELEGATION.
pub type WantDelegationRes<'a> = Res4<OpenDelegation4<'a>>;

xdr_struct! {
    /// The arguments of GET_DIR_DELEGATION (RFC 8881 section 18.39).
    pub struct GetDirDelegationArgs {
        /// Whether the client wants to be told when a delegation could be had.
        pub signal_deleg_avail: bool,
        /// Of what the client wants to be notified.
        pub notification_types: Bitmap4,
        /// By how much notifications about entries may be late.
        pub child_attr_delay: Nfstime4,
        /// By how much notifications about the directory may be late.
        pub dir_attr_delay: Nfstime4,
        /// The attributes of entries that are notified.
        pub child_attributes: Bitmap4,
        /// The attributes of the directory that are notified.
        pub dir_attributes: Bitmap4,
    }
}

xdr_struct! {
    /// There is a delegation of a directory.
    pub struct GetDirDelegationOk {
        /// The verifier of cookies.
        pub cookieverf: Verifier4,
        /// The delegation.
        pub stateid: Stateid4,
        /// Of what the client will be notified.
        pub notification: Bitmap4,
        /// The attributes of entries that are notified.
        pub child_attributes: Bitmap4,
        /// The attributes of the directory that are notified.
        pub dir_attributes: Bitmap4,
    }
}

/// Whether there is a delegation (RFC 8881 section 18.39, GET_DIR_DELEGATION4res_non_fatal).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GetDirDelegationNonFatal {
    /// There is.
    Ok(GetDirDelegationOk),
    /// There is none.
    Unavail {
        /// Whether the server will tell when one could be had.
        will_signal_deleg_avail: bool,
    },
}

impl Encode for GetDirDelegationNonFatal {
    fn encode(&self, out: &mut Encoder<'_>) {
        match self {
            Self::Ok(delegation) => {
                out.u32(0);
                delegation.encode(out);
            }
            Self::Unavail { will_signal_deleg_avail } => {
                out.u32(1);
                out.bool(*will_signal_deleg_avail);
            }
        }
    }
}

impl Decode<'_> for GetDirDelegationNonFatal {
    fn decode(input: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        match input.u32()? {
            0 => GetDirDelegationOk::decode(input).map(Self::Ok),
            1 => Ok(Self::Unavail { will_signal_deleg_avail: input.bool()? }),
            value => Err(DecodeError::BadEnum { name: "GetDirDelegationNonFatal", value }),
        }
    }
}

/// The result of GET_DIR_DELEGATION.
pub type GetDirDelegationRes = Res4<GetDirDelegationNonFatal>;

#[cfg(test)]
mod samples {
    use super::*;
    use crate::sample::{Rng, Sample};

    impl Sample for NfsSpaceLimit4 {
        fn sample(rng: &mut Rng) -> Self {
            match rng.below(2) {
                0 => Self::Filesize(Sample::sample(rng)),
                _ => {
                    let (num_blocks, bytes_per_block) = (Sample::sample(rng), Sample::sample(rng));
                    Self::ModBlocks { num_blocks, bytes_per_block }
                }
            }
        }
    }

    impl Sample for OpenNoneDelegation4 {
        fn sample(rng: &mut Rng) -> Self {
            match rng.below(9) {
                0 => Self::NotWanted,
                1 => Self::Contention { server_will_push_deleg: Sample::sample(rng) },
                2 => Self::Resource { server_will_signal_avail: Sample::sample(rng) },
                3 => Self::NotSuppFtype,
                4 => Self::WriteDelegNotSuppFtype,
                5 => Self::NotSuppUpgrade,
                6 => Self::NotSuppDowngrade,
                7 => Self::Cancelled,
                _ => Self::IsDir,
            }
        }
    }

    impl Sample for OpenDelegation4<'_> {
        fn sample(rng: &mut Rng) -> Self {
            match rng.below(6) {
                0 => Self::None,
                1 => Self::Read(Sample::sample(rng)),
                2 => Self::Write(Sample::sample(rng)),
                3 => Self::NoneExt(Sample::sample(rng)),
                4 => Self::ReadAttrs(Sample::sample(rng)),
                _ => Self::WriteAttrs(Sample::sample(rng)),
            }
        }
    }

    impl Sample for DelegClaim4 {
        fn sample(rng: &mut Rng) -> Self {
            match rng.below(3) {
                0 => Self::Previous(Sample::sample(rng)),
                1 => Self::Fh,
                _ => Self::DelegPrevFh,
            }
        }
    }

    impl Sample for GetDirDelegationNonFatal {
        fn sample(rng: &mut Rng) -> Self {
            match rng.below(2) {
                0 => Self::Ok(Sample::sample(rng)),
                _ => Self::Unavail { will_signal_deleg_avail: Sample::sample(rng) },
            }
        }
    }
}
