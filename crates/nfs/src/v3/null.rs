//! NULL (RFC 1813 section 3.3.0): does nothing, for every program and every caller.

use wire::xdr::Encoder;

use crate::call::Operation;
use crate::call::{After, Call, Handled};

/// NULL of any program.
pub(crate) const OPERATION: Operation = Operation { run, failed: None, changes: false };

#[expect(clippy::unnecessary_wraps, reason = "has the form of every operation")]
fn run<'a>(_: &Call<'a>, _: &mut Encoder<'_>) -> Handled<'a> {
    Ok(After::NOW)
}
