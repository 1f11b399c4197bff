//! `holdfast token`: tokens with which callers over the network identify themselves.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};
use serde_json::json;
use server::admin;
use server::admin::api::types::{CreatedToken, Done, NewToken, Role, Token as Listed};

use crate::report::{Align, Outcome, as_json, columns, date, print_either};

const EXAMPLES: &str = "Examples:
  holdfast token create /srv/holdfast prometheus          # may read; prints the secret once
  holdfast token create /srv/holdfast ci --role operator
  holdfast token delete /srv/holdfast prometheus";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Token {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Create a token and print its secret, which is not shown again
    Create {
        /// The data directory
        data: PathBuf,
        /// Name of the token
        name: String,
        /// What its bearer may do
        #[arg(long, default_value_t = Role::Viewer, value_parser = roles())]
        role: Role,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// List the tokens, without their secrets
    List {
        /// The data directory
        data: PathBuf,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Delete a token: requests with it are refused from now on
    Delete {
        /// The data directory
        data: PathBuf,
        /// Name of the token
        name: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

/// Reads the name of a role, which completions offer.
fn roles() -> impl TypedValueParser<Value = Role> {
    PossibleValuesParser::new(["viewer", "operator", "admin"]).try_map(|name| name.parse::<Role>())
}

pub(crate) fn run(token: &Token) -> Outcome {
    match &token.command {
        Command::Create { data, name, role, json } => {
            let new = NewToken { name: name.clone(), role: *role };
            let created: CreatedToken = admin::ask(data, "POST", "/v1/tokens", Some(&new))?;
            print_either(*json, &as_json(&created), || format!("{}\n", created.secret));
        }
        Command::List { data, json } => {
            let tokens: Vec<Listed> = admin::get(data, "/v1/tokens")?;
            print_either(*json, &as_json(&tokens), || {
                let line = |token: &Listed| {
                    [token.name.clone(), token.role.to_string(), format!("created {}", date(token.created))]
                };
                columns([Align::Left; 3], &tokens.iter().map(line).collect::<Vec<_>>())
            });
        }
        Command::Delete { data, name, json } => {
            let _: Done =
                admin::ask(data, "DELETE", &format!("/v1/tokens/{}", admin::escaped(name)), None::<&Done>)?;
            print_either(*json, &json!({ "deleted": name }), || format!("deleted the token {name:?}\n"));
        }
    }
    Ok(ExitCode::SUCCESS)
}
