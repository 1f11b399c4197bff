//! EXPORT (RFC 1813 section 5.2.5): the exports and the networks that may mount them.

use wire::list::List;
use wire::mount3::{DirPath, ExportNode, Exports, Name};
use wire::xdr::{Encode, Encoder};

use crate::call::{After, Call, Handled};

#[expect(clippy::unnecessary_wraps, reason = "has the form of every operation")]
pub(super) fn run<'a>(call: &Call<'a>, out: &mut Encoder<'_>) -> Handled<'a> {
    let networks: Vec<Vec<String>> = call
        .service
        .exports
        .iter()
        .map(|export| export.clients.iter().map(ToString::to_string).collect())
        .collect();
    let groups: Vec<Vec<Name<'_>>> = networks
        .iter()
        .map(|networks| networks.iter().map(|network| Name(network.as_bytes())).collect())
        .collect();
    let nodes: Vec<ExportNode<'_>> = call
        .service
        .exports
        .iter()
        .zip(&groups)
        .map(|(export, groups)| ExportNode {
            dir: DirPath(export.path.as_bytes()),
            groups: List::new(groups),
        })
        .collect();
    Exports::new(&nodes).encode(out);
    Ok(After::NOW)
}
