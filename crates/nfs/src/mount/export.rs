//! EXPORT (RFC 1813 section 5.2.5): the paths of exports and the networks that may mount them.

use wire::list::List;
use wire::mount3::{DirPath, ExportNode, Exports, Name};
use wire::xdr::{Encode, Encoder};

use crate::call::{After, Call, Handled};
use crate::exports::networks_by_path;

#[expect(clippy::unnecessary_wraps, reason = "has the form of every operation")]
pub(super) fn run<'a>(call: &Call<'a>, out: &mut Encoder<'_>) -> Handled<'a> {
    let paths = networks_by_path(call.service.exports.iter());
    let paths: Vec<(&str, Vec<String>)> = paths
        .into_iter()
        .map(|(path, networks)| (path, networks.iter().map(ToString::to_string).collect()))
        .collect();
    let groups: Vec<Vec<Name<'_>>> = paths
        .iter()
        .map(|(_, networks)| networks.iter().map(|network| Name(network.as_bytes())).collect())
        .collect();
    let nodes: Vec<ExportNode<'_>> = paths
        .iter()
        .zip(&groups)
        .map(|((path, _), groups)| ExportNode { dir: DirPath(path.as_bytes()), groups: List::new(groups) })
        .collect();
    Exports::new(&nodes).encode(out);
    Ok(After::NOW)
}
