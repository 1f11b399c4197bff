//! Arguments and results of RQUOTA.

use wire::rquota::{GetQuotaArgs1, GetQuotaArgs2, Path, QuotaRes, SetQuotaArgs1, SetQuotaArgs2};

use super::{Kind, encoded};

/// The number of types.
const KINDS: u8 = 5;

/// What the quota tools send, and the shortest results. No golden message is of RQUOTA.
pub(super) fn seeds() -> Vec<Vec<u8>> {
    let path = Path(b"main/sub");
    let bodies = [
        encoded(&GetQuotaArgs1 { path, uid: 1000 }),
        encoded(&GetQuotaArgs2 { path, kind: 1, id: 1000 }),
        encoded(&QuotaRes::NoQuota),
        [&[0, 0, 0, 1][..], &[0, 0, 4, 0], &[0; 36]].concat(),
    ];
    (0..KINDS).flat_map(|kind| bodies.iter().map(move |body| [&[kind], body.as_slice()].concat())).collect()
}

/// The first byte selects how the rest is decoded.
pub(super) fn run(bytes: &[u8]) -> Kind {
    let Some((kind, body)) = bytes.split_first() else { return Kind::of(0) };
    match kind % KINDS {
        0 => round_trip!(GetQuotaArgs1<'_>, body),
        1 => round_trip!(GetQuotaArgs2<'_>, body),
        2 => round_trip!(SetQuotaArgs1<'_>, body),
        3 => round_trip!(SetQuotaArgs2<'_>, body),
        _ => round_trip!(QuotaRes, body),
    }
}
