//! Credentials and verifiers (RFC 5531 sections 8.2 and 10, appendix A).

use crate::limits::{AUTH_BODY_BYTES_MAX, AUTH_FLAVORS_MAX, GROUPS_MAX, MACHINE_NAME_BYTES_MAX};
use crate::xdr::{Decode, DecodeError, Decoder, Encode, Encoder, length_u32};

/// The flavor of [`Credential::None`] (RFC 5531 section 10.1).
pub const AUTH_NONE: u32 = 0;
/// The flavor of [`AuthSys`] (RFC 5531 appendix A).
pub const AUTH_SYS: u32 = 1;

/// At most `N` integers, stored inline.
#[derive(Clone, Copy)]
pub struct Integers<const N: usize> {
    count: usize,
    values: [u32; N],
}

/// The supplementary groups of AUTH_SYS.
pub type Groups = Integers<GROUPS_MAX>;
/// The authentication flavors that a server accepts, in the result of MNT.
pub type AuthFlavors = Integers<AUTH_FLAVORS_MAX>;

impl<const N: usize> Integers<N> {
    /// Returns a copy of `values`, or `None` if there are more than `N`.
    #[must_use]
    pub fn new(values: &[u32]) -> Option<Self> {
        let mut kept = Self { count: values.len(), values: [0; N] };
        kept.values.get_mut(..values.len())?.copy_from_slice(values);
        Some(kept)
    }

    /// Returns the integers.
    #[must_use]
    pub fn as_slice(&self) -> &[u32] {
        self.values.get(..self.count).unwrap_or(&self.values)
    }
}

impl<const N: usize> Default for Integers<N> {
    fn default() -> Self {
        Self { count: 0, values: [0; N] }
    }
}

impl<const N: usize> PartialEq for Integers<N> {
    fn eq(&self, other: &Self) -> bool {
        self.as_slice() == other.as_slice()
    }
}

impl<const N: usize> Eq for Integers<N> {}

impl<const N: usize> std::fmt::Debug for Integers<N> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.as_slice().fmt(f)
    }
}

impl<const N: usize> Encode for Integers<N> {
    fn encode(&self, out: &mut Encoder<'_>) {
        out.u32(length_u32(self.count));
        for value in self.as_slice() {
            out.u32(*value);
        }
    }
}

impl<const N: usize> Decode<'_> for Integers<N> {
    fn decode(input: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        let mut kept = Self { count: input.length(N)?, values: [0; N] };
        for value in kept.values.iter_mut().take(kept.count) {
            *value = input.u32()?;
        }
        Ok(kept)
    }
}

xdr! {
    /// A credential or verifier in its encoded form (RFC 5531 section 8.2).
    pub struct OpaqueAuth<'a> {
        /// The format of `body`, for example [`AUTH_SYS`].
        pub flavor: u32,
        opaque body max AUTH_BODY_BYTES_MAX,
    }
}

impl OpaqueAuth<'_> {
    /// AUTH_NONE with an empty body.
    pub const NONE: Self = Self { flavor: AUTH_NONE, body: &[] };
}

xdr! {
    /// The identity that a client claims for its user (RFC 5531 appendix A). `machine_name` is the client's name for itself,
    /// not proof of anything.
    pub struct AuthSys<'a> {
        /// An arbitrary number chosen by the client.
        pub stamp: u32,
        opaque machine_name max MACHINE_NAME_BYTES_MAX,
        /// The effective user.
        pub uid: u32,
        /// The effective group.
        pub gid: u32,
        /// The supplementary groups.
        pub groups: Groups,
    }
}

/// The identity of the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Credential<'a> {
    /// AUTH_NONE. The body should be empty and is ignored.
    None,
    /// AUTH_SYS.
    Sys(AuthSys<'a>),
    /// Any other flavor, not decoded.
    Other(OpaqueAuth<'a>),
}

impl Credential<'_> {
    /// Returns the number of the flavor.
    #[must_use]
    pub fn flavor(&self) -> u32 {
        match self {
            Self::None => AUTH_NONE,
            Self::Sys(_) => AUTH_SYS,
            Self::Other(auth) => auth.flavor,
        }
    }
}

impl Encode for Credential<'_> {
    fn encode(&self, out: &mut Encoder<'_>) {
        match self {
            Self::None => OpaqueAuth::NONE.encode(out),
            Self::Other(auth) => auth.encode(out),
            Self::Sys(sys) => {
                out.u32(AUTH_SYS);
                let length_at = out.position();
                out.u32(0);
                sys.encode(out);
                let length = length_u32(out.position() - length_at - 4);
                out.patch(length_at, &length.to_be_bytes());
            }
        }
    }
}

#[cfg(test)]
mod samples {
    use super::{AUTH_SYS, Credential, Integers, OpaqueAuth};
    use crate::sample::{Rng, Sample};

    impl<const N: usize> Sample for Integers<N> {
        fn sample(rng: &mut Rng) -> Self {
            let values: Vec<u32> = (0..rng.below(N + 1)).map(|_| u32::sample(rng)).collect();
            Self::new(&values).expect("at most N")
        }
    }

    impl Sample for Credential<'_> {
        fn sample(rng: &mut Rng) -> Self {
            match rng.below(3) {
                0 => Self::None,
                1 => Self::Sys(Sample::sample(rng)),
                _ => Self::Other(OpaqueAuth { flavor: AUTH_SYS + 1, body: rng.bytes(60) }),
            }
        }
    }
}
