//! UMNT (RFC 1813 section 5.2.3): the client does not use a mount any more. Its handles stay good.

use wire::mount3::DirPath;
use wire::xdr::Encoder;

use crate::call::{After, Call, Handled};

pub(super) fn run<'a>(call: &Call<'a>, _: &mut Encoder<'_>) -> Handled<'a> {
    let path: DirPath<'_> = call.arguments()?;
    call.service.shared.mounts.remove(call.client(), path.0);
    Ok(After::NOW)
}
