//! UMNT (RFC 1813 section 5.2.3): removes a mount of the client from the list. Its handles stay valid.

use wire::mount3::DirPath;
use wire::xdr::Encoder;

use crate::call::{After, Call, Handled};

pub(super) fn run<'a>(call: &Call<'a>, _: &mut Encoder<'_>) -> Handled<'a> {
    let path: DirPath<'_> = call.arguments()?;
    call.service.shared.mounts.remove(call.client(), path.0);
    Ok(After::NOW)
}
