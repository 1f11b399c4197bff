//! A macro that declares the operations of a program with the unions of their arguments and of their results, so that none
//! of them can omit an operation.

/// Declares the operations of a program: number, name, first minor version, arguments if any, result with its definition
/// unless that is elsewhere.
macro_rules! operations {
    (
        $(#[$num_meta:meta])* enum $num:ident;
        $(#[$arg_meta:meta])* enum $arg:ident<$life:lifetime>;
        $(#[$res_meta:meta])* enum $res:ident $(<$res_life:lifetime>)?;
        $($code:literal $name:literal $minor:literal $variant:ident $(($args:ident: $args_type:ty))?
            -> $op_res:ident $(<$op_life:lifetime>)? $(= $definition:ty)?;)*
    ) => {
        $(operations! { @res $name $op_res [$(<$op_life>)?] $($definition)? })*

        xdr! {
            $(#[$num_meta])*
            pub enum $num {
                $(#[doc = $name] $variant = $code $name,)*
            }
        }

        impl $num {
            /// Returns the minor version that introduced the operation.
            #[must_use]
            #[inline]
            pub const fn since_minor(self) -> u32 {
                match self {
                    $(Self::$variant => $minor,)*
                }
            }
        }

        $(#[$arg_meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $arg<$life> {
            $(#[doc = $name] $variant $(($args_type))?,)*
        }

        impl<$life> $arg<$life> {
            /// Returns the number of the operation.
            #[must_use]
            pub const fn num(&self) -> $num {
                match self {
                    $(Self::$variant { .. } => $num::$variant,)*
                }
            }

            /// Decodes the arguments of an operation, which follow its number.
            ///
            /// # Errors
            /// If the bytes do not decode.
            #[inline]
            pub fn decode_args(num: $num, input: &mut Decoder<$life>) -> Result<Self, DecodeError> {
                Ok(match num {
                    $($num::$variant => Self::$variant $(({ let $args: $args_type = Decode::decode(input)?; $args }))?,)*
                })
            }
        }

        impl Encode for $arg<'_> {
            fn encode(&self, out: &mut Encoder<'_>) {
                self.num().encode(out);
                match self {
                    $(Self::$variant $(($args))? => { $($args.encode(out);)? })*
                }
            }
        }

        impl<$life> Decode<$life> for $arg<$life> {
            fn decode(input: &mut Decoder<$life>) -> Result<Self, DecodeError> {
                let num = $num::decode(input)?;
                Self::decode_args(num, input)
            }
        }

        $(#[$res_meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $res $(<$res_life>)? {
            $(#[doc = $name] $variant($op_res $(<$op_life>)?),)*
        }

        impl $(<$res_life>)? $res $(<$res_life>)? {
            /// Returns the number of the operation.
            #[must_use]
            pub const fn num(&self) -> $num {
                match self {
                    $(Self::$variant(_) => $num::$variant,)*
                }
            }
        }

        impl $(<$res_life>)? Outcome for $res $(<$res_life>)? {
            fn status(&self) -> NfsStat4 {
                match self {
                    $(Self::$variant(res) => res.status(),)*
                }
            }
        }

        impl $(<$res_life>)? Encode for $res $(<$res_life>)? {
            fn encode(&self, out: &mut Encoder<'_>) {
                self.num().encode(out);
                match self {
                    $(Self::$variant(res) => res.encode(out),)*
                }
            }
        }

        impl<$life> Decode<$life> for $res $(<$res_life>)? {
            fn decode(input: &mut Decoder<$life>) -> Result<Self, DecodeError> {
                Ok(match $num::decode(input)? {
                    $($num::$variant => Self::$variant(Decode::decode(input)?),)*
                })
            }
        }

        #[cfg(test)]
        impl<$life> crate::sample::Sample for $arg<$life> {
            fn sample(rng: &mut crate::sample::Rng) -> Self {
                match $num::sample(rng) {
                    $($num::$variant => Self::$variant $(({
                        let $args: $args_type = crate::sample::Sample::sample(rng);
                        $args
                    }))?,)*
                }
            }
        }

        #[cfg(test)]
        impl $(<$res_life>)? crate::sample::Sample for $res $(<$res_life>)? {
            fn sample(rng: &mut crate::sample::Rng) -> Self {
                match $num::sample(rng) {
                    $($num::$variant => Self::$variant(crate::sample::Sample::sample(rng)),)*
                }
            }
        }
    };
    (@res $name:literal $res:ident [$($params:tt)*]) => {};
    (@res $name:literal $res:ident [$($params:tt)*] $definition:ty) => {
        #[doc = concat!("The result of ", $name, ".")]
        pub type $res $($params)* = $definition;
    };
}
