//! Macros that declare XDR types with their codec. Both directions follow the order of the declaration, so they cannot
//! differ.

/// Declares types in the manner of an XDR specification (RFC 4506 section 6):
///
/// - `pub type`: another name of a type.
/// - `pub enum`: an enumeration with its numbers, and the names in the RFC if it has any.
/// - `pub struct`: a structure. One field may be `opaque name max LIMIT`.
/// - `pub struct Name(Type);`: a distinct type for a number or an array that is an identifier.
/// - `pub union`: a discriminated union.
/// - `pub opaque Name max LIMIT;`: bytes whose contents the server judges.
/// - `pub handle Name max LIMIT;`: a file handle, printed in hexadecimal.
macro_rules! xdr {
    () => {};
    ($(#[$meta:meta])* pub type $name:ident $(<$life:lifetime>)? = $type:ty; $($rest:tt)*) => {
        $(#[$meta])* pub type $name $(<$life>)? = $type;
        xdr! { $($rest)* }
    };
    ($(#[$meta:meta])* pub enum $name:ident { $($body:tt)* } $($rest:tt)*) => {
        xdr_enum! { $(#[$meta])* pub enum $name { $($body)* } }
        xdr! { $($rest)* }
    };
    ($(#[$meta:meta])* pub struct $name:ident<$life:lifetime> { $($body:tt)* } $($rest:tt)*) => {
        xdr_struct! { [$(#[$meta])*] $name [<$life>] [$life] { $($body)* } }
        xdr! { $($rest)* }
    };
    ($(#[$meta:meta])* pub struct $name:ident { $($body:tt)* } $($rest:tt)*) => {
        xdr_struct! { [$(#[$meta])*] $name [] ['input] { $($body)* } }
        xdr! { $($rest)* }
    };
    ($(#[$meta:meta])* pub struct $name:ident($inner:ty); $($rest:tt)*) => {
        xdr_newtype! { $(#[$meta])* pub struct $name($inner) }
        xdr! { $($rest)* }
    };
    ($(#[$meta:meta])* pub union $name:ident<$life:lifetime> { $($body:tt)* } $($rest:tt)*) => {
        xdr_union! { [$(#[$meta])*] $name [<$life>] [$life] { $($body)* } }
        xdr! { $($rest)* }
    };
    ($(#[$meta:meta])* pub union $name:ident { $($body:tt)* } $($rest:tt)*) => {
        xdr_union! { [$(#[$meta])*] $name [] ['input] { $($body)* } }
        xdr! { $($rest)* }
    };
    ($(#[$meta:meta])* pub opaque $name:ident max $limit:expr; $($rest:tt)*) => {
        xdr_bytes! { $(#[$meta])* pub struct $name max $limit }
        xdr! { $($rest)* }
    };
    ($(#[$meta:meta])* pub handle $name:ident max $limit:expr; $($rest:tt)*) => {
        xdr_handle! { $(#[$meta])* pub struct $name max $limit }
        xdr! { $($rest)* }
    };
}

/// Declares an enumeration with its numbers on the wire. Unknown numbers are decoding errors.
macro_rules! xdr_enum {
    ($(#[$meta:meta])* pub enum $name:ident {
        $($(#[$variant_meta:meta])* $variant:ident = $code:literal $($label:literal)?),* $(,)?
    }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u32)]
        pub enum $name {
            $($(#[$variant_meta])* $variant = $code),*
        }

        impl $name {
            /// All values.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// Returns the number on the wire.
            #[must_use]
            pub const fn code(self) -> u32 {
                self as u32
            }

            xdr_enum! { @name $($($variant $label)?)* }

            /// Returns the value with this number, if any.
            #[must_use]
            #[inline]
            pub const fn from_code(code: u32) -> Option<Self> {
                match code {
                    $($code => Some(Self::$variant),)*
                    _ => None,
                }
            }
        }

        xdr_enum! { @display $name $($($label)?)* }

        impl $crate::xdr::Encode for $name {
            #[inline]
            fn encode(&self, out: &mut $crate::xdr::Encoder<'_>) {
                out.u32(self.code());
            }
        }

        impl $crate::xdr::Decode<'_> for $name {
            #[inline]
            fn decode(input: &mut $crate::xdr::Decoder<'_>) -> Result<Self, $crate::xdr::DecodeError> {
                let value = input.u32()?;
                Self::from_code(value)
                    .ok_or($crate::xdr::DecodeError::BadEnum { name: stringify!($name), value })
            }
        }

        #[cfg(test)]
        impl $crate::sample::Sample for $name {
            fn sample(rng: &mut $crate::sample::Rng) -> Self {
                Self::ALL[rng.below(Self::ALL.len())]
            }
        }
    };
    (@name) => {};
    (@display $name:ident) => {};
    (@display $name:ident $($label:literal)+) => {
        impl ::std::fmt::Display for $name {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.write_str(self.name())
            }
        }
    };
    (@name $($variant:ident $label:literal)+) => {
        /// Returns the name in the RFC.
        #[must_use]
        pub const fn name(self) -> &'static str {
            match self {
                $(Self::$variant => $label,)+
            }
        }
    };
}

/// Declares a structure whose fields are on the wire in the order of the declaration.
macro_rules! xdr_struct {
    ([$($meta:tt)*] $name:ident [$($params:tt)*] [$life:lifetime] {
        $($(#[$field_meta:meta])* pub $field:ident: $type:ty,)*
        $(
            opaque $opaque:ident max $limit:expr,
            $($(#[$tail_meta:meta])* pub $tail:ident: $tail_type:ty,)*
        )?
    }) => {
        $($meta)*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $name $($params)* {
            $($(#[$field_meta])* pub $field: $type,)*
            $(
                #[doc = concat!("At most `", stringify!($limit), "` bytes.")]
                pub $opaque: &$life [u8],
                $($(#[$tail_meta])* pub $tail: $tail_type,)*
            )?
        }

        impl $($params)* $crate::xdr::Encode for $name $($params)* {
            #[inline]
            fn encode(&self, out: &mut $crate::xdr::Encoder<'_>) {
                $($crate::xdr::Encode::encode(&self.$field, out);)*
                $(
                    out.opaque(self.$opaque);
                    $($crate::xdr::Encode::encode(&self.$tail, out);)*
                )?
            }
        }

        impl<$life> $crate::xdr::Decode<$life> for $name $($params)* {
            #[inline]
            fn decode(input: &mut $crate::xdr::Decoder<$life>) -> Result<Self, $crate::xdr::DecodeError> {
                Ok(Self {
                    $($field: $crate::xdr::Decode::decode(input)?,)*
                    $($opaque: input.opaque($limit)?, $($tail: $crate::xdr::Decode::decode(input)?,)*)?
                })
            }
        }

        #[cfg(test)]
        impl $($params)* $crate::sample::Sample for $name $($params)* {
            fn sample(rng: &mut $crate::sample::Rng) -> Self {
                Self {
                    $($field: $crate::sample::Sample::sample(rng),)*
                    $($opaque: rng.bytes(200), $($tail: $crate::sample::Sample::sample(rng),)*)?
                }
            }
        }
    };
}

/// Declares a union: a discriminant, then the body of its arm, which is empty, one named value, or fields in the order of
/// the declaration. Unknown discriminants are decoding errors, unless `; default Arm(u32)` receives
/// them.
macro_rules! xdr_union {
    ([$($meta:tt)*] $name:ident [$($params:tt)*] [$life:lifetime] {
        $(
            $(#[$arm_meta:meta])* $arm:ident
            $(($value:ident: $type:ty))?
            $({ $($(#[$field_meta:meta])* $field:ident: $field_type:ty),* $(,)? })?
            = $code:tt
        ),* $(,)?
        $(; $(#[$default_meta:meta])* default $default:ident(u32))?
    }) => {
        $($meta)*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name $($params)* {
            $($(#[$arm_meta])* $arm $(($type))? $({ $($(#[$field_meta])* $field: $field_type),* })?,)*
            $($(#[$default_meta])* $default(u32))?
        }

        impl $($params)* $crate::xdr::Encode for $name $($params)* {
            fn encode(&self, out: &mut $crate::xdr::Encoder<'_>) {
                match self {
                    $(Self::$arm $(($value))? $({ $($field),* })? => {
                        out.u32($code);
                        $($crate::xdr::Encode::encode($value, out);)?
                        $($($crate::xdr::Encode::encode($field, out);)*)?
                    })*
                    $(Self::$default(code) => out.u32(*code),)?
                }
            }
        }

        impl<$life> $crate::xdr::Decode<$life> for $name $($params)* {
            fn decode(input: &mut $crate::xdr::Decoder<$life>) -> Result<Self, $crate::xdr::DecodeError> {
                Ok(match input.u32()? {
                    $($code => Self::$arm
                        $((<$type as $crate::xdr::Decode>::decode(input)?))?
                        $({ $($field: $crate::xdr::Decode::decode(input)?),* })?,)*
                    value => xdr_union!(@unknown value $name $($default)?),
                })
            }
        }

        #[cfg(test)]
        impl $($params)* $crate::sample::Sample for $name $($params)* {
            fn sample(rng: &mut $crate::sample::Rng) -> Self {
                const KNOWN: &[u32] = &[$($code),*];
                let _ = KNOWN;
                let arms: &[fn(&mut $crate::sample::Rng) -> Self] = &[
                    $(|rng| {
                        let _ = &rng;
                        Self::$arm
                            $((<$type as $crate::sample::Sample>::sample(rng)))?
                            $({ $($field: $crate::sample::Sample::sample(rng)),* })?
                    },)*
                    $(|rng| loop {
                        let code: u32 = $crate::sample::Sample::sample(rng);
                        if !KNOWN.contains(&code) {
                            return Self::$default(code);
                        }
                    },)?
                ];
                arms[rng.below(arms.len())](rng)
            }
        }
    };
    (@unknown $value:ident $name:ident) => {
        return Err($crate::xdr::DecodeError::BadEnum { name: stringify!($name), value: $value })
    };
    (@unknown $value:ident $name:ident $default:ident) => { Self::$default($value) };
}

/// Implements the codec of a tuple struct of opaque bytes with a limit.
macro_rules! xdr_opaque {
    ($name:ident max $limit:expr) => {
        impl $crate::xdr::Encode for $name<'_> {
            #[inline]
            fn encode(&self, out: &mut $crate::xdr::Encoder<'_>) {
                out.opaque(self.0);
            }
        }

        impl<'a> $crate::xdr::Decode<'a> for $name<'a> {
            #[inline]
            fn decode(input: &mut $crate::xdr::Decoder<'a>) -> Result<Self, $crate::xdr::DecodeError> {
                input.opaque($limit).map(Self)
            }
        }
    };
}

/// Declares a type of opaque bytes with a limit. The server judges their contents.
macro_rules! xdr_bytes {
    ($(#[$meta:meta])* pub struct $name:ident max $limit:expr) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name<'a>(pub &'a [u8]);

        impl<'a> $name<'a> {
            /// The most bytes that decoding accepts.
            pub const BYTES_MAX: usize = $limit;

            /// Returns the bytes.
            #[must_use]
            pub const fn as_bytes(&self) -> &'a [u8] {
                self.0
            }
        }

        impl std::fmt::Debug for $name<'_> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, "\"{}\"", self.0.escape_ascii())
            }
        }

        xdr_opaque!($name max $limit);

        #[cfg(test)]
        impl $crate::sample::Sample for $name<'_> {
            fn sample(rng: &mut $crate::sample::Rng) -> Self {
                Self(rng.bytes(40))
            }
        }
    };
}

/// Declares a type of file handles: opaque bytes with a limit, printed in hexadecimal.
macro_rules! xdr_handle {
    ($(#[$meta:meta])* pub struct $name:ident max $limit:expr) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name<'a>(&'a [u8]);

        impl<'a> $name<'a> {
            /// Returns the handle of these bytes, or `None` if they exceed the limit.
            #[must_use]
            pub const fn new(bytes: &'a [u8]) -> Option<Self> {
                if bytes.len() <= $limit { Some(Self(bytes)) } else { None }
            }

            /// Returns the bytes.
            #[must_use]
            pub const fn as_bytes(&self) -> &'a [u8] {
                self.0
            }
        }

        impl std::fmt::Debug for $name<'_> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
        }

        xdr_opaque!($name max $limit);

        #[cfg(test)]
        impl $crate::sample::Sample for $name<'_> {
            fn sample(rng: &mut $crate::sample::Rng) -> Self {
                Self(rng.bytes($limit))
            }
        }
    };
}

/// Declares a distinct type for a number or an array that is an identifier.
macro_rules! xdr_newtype {
    ($(#[$meta:meta])* pub struct $name:ident($inner:ty)) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub $inner);

        impl $crate::xdr::Encode for $name {
            #[inline]
            fn encode(&self, out: &mut $crate::xdr::Encoder<'_>) {
                self.0.encode(out);
            }
        }

        impl $crate::xdr::Decode<'_> for $name {
            #[inline]
            fn decode(input: &mut $crate::xdr::Decoder<'_>) -> Result<Self, $crate::xdr::DecodeError> {
                $crate::xdr::Decode::decode(input).map(Self)
            }
        }

        #[cfg(test)]
        impl $crate::sample::Sample for $name {
            fn sample(rng: &mut $crate::sample::Rng) -> Self {
                Self($crate::sample::Sample::sample(rng))
            }
        }
    };
}
