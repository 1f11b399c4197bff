//! The tests of a starting server, before it locks or creates anything. `holdfast config check` runs the same tests.

use crate::config::values;
use crate::error::Error;
use crate::exports::exported;
use crate::net::listener::check_address;
use crate::server::{FIRST_VOLUME, Settings};
use crate::volumes;

/// Tests whether a server with these settings can start. Does not lock the data directory, bind ports or open volumes, so
/// what only these would show is not tested. Changes nothing, and works while a server runs on the data directory.
///
/// # Errors
/// The settings do not fit each other, this machine, or the volumes.
pub fn check(settings: &Settings) -> Result<(), Error> {
    values::check_addresses(&settings.listen).map_err(|(_, sentence)| Error::usage(sentence))?;
    for address in &settings.listen {
        check_address(*address).map_err(Error::failed)?;
    }
    let (root, journal) = (&settings.data, settings.journal.as_deref());
    let names = store::list_or_none(root)?;
    if names.is_empty() {
        exported(&settings.exports, vec![FIRST_VOLUME.to_owned()], root)?;
        if let Some(journal) = journal {
            values::check_journal(journal).map_err(Error::usage)?;
        }
        return volumes::check_new(root, FIRST_VOLUME, journal, settings.journal_bytes);
    }
    for name in exported(&settings.exports, names, root)? {
        store::check_volume(root, &name, journal)?;
    }
    Ok(())
}
