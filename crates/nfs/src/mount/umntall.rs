//! UMNTALL (RFC 1813 section 5.2.4): removes all mounts of the client from the list.

use wire::xdr::Encoder;

use crate::call::{After, Call, Handled};

#[expect(clippy::unnecessary_wraps, reason = "has the form of every operation")]
pub(super) fn run<'a>(call: &Call<'a>, _: &mut Encoder<'_>) -> Handled<'a> {
    call.service.shared.mounts.remove_all(call.client());
    Ok(After::NOW)
}
