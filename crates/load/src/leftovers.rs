//! The directories of measurements, and their removal after a measurement was killed.

use std::time::Instant;

use crate::client::{BlockingClient, Server, SweepOutcome};
use crate::error::LoadError;
use crate::random::fresh_seed;

/// What the name of a measurement's directory begins with. 16 hexadecimal digits follow.
const PREFIX: &str = "holdfast-bench-";

/// Returns a name for the directory of a measurement.
pub(crate) fn new_name() -> String {
    format!("{PREFIX}{:016x}", fresh_seed())
}

/// Whether a measurement may have made this name.
fn is_ours(name: &[u8]) -> bool {
    let is_digit = |c: &u8| matches!(c, b'0'..=b'9' | b'a'..=b'f');
    name.strip_prefix(PREFIX.as_bytes())
        .is_some_and(|number| number.len() == 16 && number.iter().all(is_digit))
}

/// Returns the names of measurements' directories in the export, also of those that are running.
///
/// # Errors
/// If the server cannot be reached or the export cannot be listed.
pub fn find(server: &Server) -> Result<Vec<String>, LoadError> {
    let (mut client, root) = BlockingClient::open(server)?;
    let names = client.names(&root)?;
    let ours = names.into_iter().filter(|name| is_ours(name));
    Ok(ours.map(|name| String::from_utf8_lossy(&name).into_owned()).collect())
}

/// Removes a directory that [`find`] returned. Returns whether everything was removed before the deadline.
///
/// # Errors
/// If the server cannot be reached or refuses.
pub fn remove(server: &Server, name: &str, until: Instant) -> Result<bool, LoadError> {
    let (mut client, root) = BlockingClient::open(server)?;
    let outcome = client.sweep(&root, name, until)?;
    Ok(outcome == SweepOutcome::All)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::run::tests::fake::{Fake, Fault};

    #[test]
    fn only_directories_of_measurements_are_found_and_removed() {
        let fake = Fake::start(Fault::None);
        let (mut client, root) = BlockingClient::open(&fake.server).unwrap();
        let ours = new_name();
        let directory = client.make_directory(&root, &ours).unwrap();
        client.make_closed_files(&[(directory, "f".to_owned())]).unwrap();
        // More names than fit a reply, and some that only look similar.
        for name in ["holdfast-bench-", "holdfast-bench-123", "holdfast-bench-0123456789ABCDEF", "home"] {
            client.make_directory(&root, name).unwrap();
        }
        let many: Vec<_> = (0..100).map(|number| (root, format!("a{number}"))).collect();
        client.make_closed_files(&many).unwrap();
        assert_eq!(find(&fake.server).unwrap(), std::slice::from_ref(&ours));
        assert!(remove(&fake.server, &ours, Instant::now() + Duration::from_secs(60)).unwrap());
        assert_eq!(fake.objects(), 104);
        assert!(find(&fake.server).unwrap().is_empty());
    }
}
