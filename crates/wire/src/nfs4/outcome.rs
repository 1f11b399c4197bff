//! The results of operations: a status and a body that depends on it.

use super::NfsStat4;
use crate::xdr::{Decode, DecodeError, Decoder, Encode, Encoder};

/// The result of an operation: the body that follows NFS4_OK, or a failure.
///
/// Most failures are a bare [`NfsStat4`]; those with a body have a type that implements [`Failure`].
pub type Res4<O, F = NfsStat4> = Result<O, F>;

/// A failure of an operation: a status other than [`NfsStat4::Ok`], and the body that follows it.
pub trait Failure<'a>: Sized {
    /// Returns the status; encoding [`NfsStat4::Ok`] panics.
    fn status(&self) -> NfsStat4;

    /// Appends the body.
    fn encode_body(&self, out: &mut Encoder<'_>);

    /// Decodes the body that follows `status`.
    ///
    /// # Errors
    /// If the bytes do not decode.
    fn decode_body(status: NfsStat4, input: &mut Decoder<'a>) -> Result<Self, DecodeError>;
}

impl<'a> Failure<'a> for NfsStat4 {
    #[inline]
    fn status(&self) -> NfsStat4 {
        *self
    }

    fn encode_body(&self, _: &mut Encoder<'_>) {}

    fn decode_body(status: NfsStat4, _: &mut Decoder<'a>) -> Result<Self, DecodeError> {
        Ok(status)
    }
}

/// Something that begins with a status.
pub trait Outcome {
    /// The status.
    fn status(&self) -> NfsStat4;
}

impl<'a, O, F: Failure<'a>> Outcome for Res4<O, F> {
    #[inline]
    fn status(&self) -> NfsStat4 {
        match self {
            Ok(_) => NfsStat4::Ok,
            Err(failure) => failure.status(),
        }
    }
}

impl<'a, O: Encode, F: Failure<'a>> Encode for Res4<O, F> {
    #[inline]
    fn encode(&self, out: &mut Encoder<'_>) {
        match self {
            Ok(body) => {
                NfsStat4::Ok.encode(out);
                body.encode(out);
            }
            Err(failure) => {
                assert_ne!(failure.status(), NfsStat4::Ok, "a failure has a status that says so");
                failure.status().encode(out);
                failure.encode_body(out);
            }
        }
    }
}

impl<'a, O: Decode<'a>, F: Failure<'a>> Decode<'a> for Res4<O, F> {
    #[inline]
    fn decode(input: &mut Decoder<'a>) -> Result<Self, DecodeError> {
        match NfsStat4::decode(input)? {
            NfsStat4::Ok => O::decode(input).map(Ok),
            status => F::decode_body(status, input).map(Err),
        }
    }
}

/// Declares a failure of which one status has a body.
macro_rules! xdr_failure {
    ($(#[$meta:meta])* pub enum $name:ident $(<$life:lifetime>)? {
        $(#[$variant_meta:meta])* $variant:ident($body:ty) = $status:ident
    }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name $(<$life>)? {
            $(#[$variant_meta])*
            $variant($body),
            /// Any other failure.
            Status(NfsStat4),
        }

        impl $(<$life>)? From<NfsStat4> for $name $(<$life>)? {
            fn from(status: NfsStat4) -> Self {
                Self::Status(status)
            }
        }

        xdr_failure!(@impl [$($life)?] $name [$(<$life>)?] $variant $body, $status);
    };
    (@impl [] $name:ident [] $variant:ident $body:ty, $status:ident) => {
        xdr_failure!(@impl ['input] $name [] $variant $body, $status);
    };
    (@impl [$life:lifetime] $name:ident [$($params:tt)*] $variant:ident $body:ty, $status:ident) => {
        impl<$life> $crate::nfs4::Failure<$life> for $name $($params)* {
            fn status(&self) -> NfsStat4 {
                match self {
                    Self::$variant(_) => NfsStat4::$status,
                    Self::Status(status) => *status,
                }
            }

            fn encode_body(&self, out: &mut $crate::xdr::Encoder<'_>) {
                match self {
                    Self::$variant(body) => $crate::xdr::Encode::encode(body, out),
                    Self::Status(status) => {
                        assert_ne!(*status, NfsStat4::$status, "a status with a body has its own variant");
                    }
                }
            }

            fn decode_body(
                status: NfsStat4,
                input: &mut $crate::xdr::Decoder<$life>,
            ) -> Result<Self, $crate::xdr::DecodeError> {
                match status {
                    NfsStat4::$status => $crate::xdr::Decode::decode(input).map(Self::$variant),
                    status => Ok(Self::Status(status)),
                }
            }
        }

        #[cfg(test)]
        impl $($params)* $crate::nfs4::outcome::SampleFailure for $name $($params)* {
            fn sample_failure(rng: &mut $crate::sample::Rng) -> Self {
                match NfsStat4::sample_failure(rng) {
                    status if status != NfsStat4::$status && rng.below(2) == 0 => Self::Status(status),
                    _ => Self::$variant($crate::sample::Sample::sample(rng)),
                }
            }
        }
    };
}

/// A [`Failure`] with random values.
#[cfg(test)]
pub(super) trait SampleFailure {
    fn sample_failure(rng: &mut crate::sample::Rng) -> Self;
}

#[cfg(test)]
mod samples {
    use super::{NfsStat4, SampleFailure};
    use crate::sample::{Rng, Sample};

    impl SampleFailure for NfsStat4 {
        fn sample_failure(rng: &mut Rng) -> Self {
            Self::ALL[1 + rng.below(Self::ALL.len() - 1)]
        }
    }

    impl<O: Sample, F: SampleFailure> Sample for Result<O, F> {
        fn sample(rng: &mut Rng) -> Self {
            if rng.below(3) == 0 { Err(F::sample_failure(rng)) } else { Ok(O::sample(rng)) }
        }
    }
}
