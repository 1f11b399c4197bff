//! `--owner` and `--mode`: the owner and the permission bits of a volume's root directory.

use clap::Args;
use server::admin::api::types::Root;
use server::error::Error;
use server::volumes::parse_mode;

use crate::commands::accounts::number;

#[derive(Debug, Args)]
pub(super) struct RootArgs {
    /// Owner of the root directory, written as for chown(1): USER, USER:GROUP or :GROUP, by number or by name
    #[arg(long, value_name = "USER:GROUP")]
    owner: Option<String>,
    /// Permission bits of the root directory, in octal, such as 0755 or 1777
    #[arg(long, value_name = "MODE", value_parser = parse_mode)]
    mode: Option<u16>,
}

impl RootArgs {
    /// Whether neither is given.
    pub(super) fn is_empty(&self) -> bool {
        self.owner.is_none() && self.mode.is_none()
    }

    /// Resolves names.
    pub(super) fn root(&self) -> Result<Root, Error> {
        let mut root = Root { mode: self.mode, ..Root::default() };
        if let Some(owner) = &self.owner {
            let (user, group) = owner.split_once(':').unwrap_or((owner, ""));
            if user.is_empty() && group.is_empty() {
                return Err(Error::usage(format!(
                    "--owner {owner:?} names neither a user nor a group: write for example 1000:1000"
                )));
            }
            root.uid = number(user, "user", "passwd")?;
            root.gid = number(group, "group", "group")?;
        }
        // Before a data directory is made for it.
        root.check()?;
        Ok(root)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root(owner: &str) -> Result<(Option<u32>, Option<u32>), Error> {
        let args = RootArgs { owner: Some(owner.to_owned()), mode: None };
        args.root().map(|root| (root.uid, root.gid))
    }

    #[test]
    fn owners_are_numbers_or_names() {
        assert_eq!(root("1000:100").unwrap(), (Some(1000), Some(100)));
        assert_eq!(root("1000").unwrap(), (Some(1000), None));
        assert_eq!(root(":100").unwrap(), (None, Some(100)));
        assert_eq!(root("root:root").unwrap(), (Some(0), Some(0)));
        for wrong in ["", ":", "4294967295", "-1", "no-such-user", "1000:no-such-group"] {
            assert!(root(wrong).is_err(), "{wrong:?} is accepted");
        }
        assert!(root("no-such-user").unwrap_err().sentence.contains("no user \"no-such-user\""));
    }
}
