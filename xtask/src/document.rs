//! Blocks of a document that a chore follows: commands and files that it uses as they stand there, except for what the document
//! asks its readers to replace.

use std::collections::BTreeMap;

/// Precedes the name of a block that is used, in a comment that readers do not see.
const MARK: &str = "<!-- e2e: ";

/// The name of a block, and what is replaced in it.
pub(crate) type Block<'b> = (&'b str, &'b [(&'b str, &'b str)]);

/// Returns the blocks of `document` by name, after the replacements of each and those of all. The document must have exactly the
/// known blocks.
pub(crate) fn blocks<'d>(
    title: &str,
    document: &'d str,
    known: &[Block<'_>],
    in_all: &[(&str, &str)],
) -> Result<BTreeMap<&'d str, String>, String> {
    let mut found = BTreeMap::new();
    for part in document.split(MARK).skip(1) {
        let (name, rest) = part.split_once(" -->\n").ok_or("a mark in the document is not closed")?;
        let block = rest.strip_prefix("```").and_then(|rest| rest.split_once('\n'));
        let block = block.and_then(|(_, rest)| rest.split_once("```\n")).map(|(block, _)| block);
        let block = block.ok_or_else(|| format!("{title}: no block follows the mark {name:?}"))?;
        let (_, own) = known
            .iter()
            .find(|(known, _)| *known == name)
            .ok_or_else(|| format!("{title}: nothing uses the mark {name:?}"))?;
        let replaced =
            in_all.iter().chain(*own).fold(block.to_owned(), |text, (from, to)| text.replace(from, to));
        if found.insert(name, replaced).is_some() {
            return Err(format!("{title}: there are two blocks with the mark {name:?}"));
        }
    }
    match known.iter().find(|(name, _)| !found.contains_key(name)) {
        Some((name, _)) => Err(format!("{title}: no block has the mark {name:?}")),
        None => Ok(found),
    }
}
