//! `holdfast bench agent`: one of several client hosts.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::Ordering;

use clap::Args;
use load::client::Server;
use load::hosts::{Agent, Allowed, Token, resolve};
use server::error::Error;

use super::failed;
use super::watch::signals;
use crate::report::{Outcome, print};

const EXAMPLES: &str = "Examples:
  (umask 077; openssl rand -hex 32 > token)      # once, then copied to all hosts
  holdfast bench agent --listen 10.0.0.11:7411 --token-file token --allow 10.0.0.5:/export
  holdfast bench run 10.0.0.5:/export random --threads 64 --agents 10.0.0.11:7411,10.0.0.12:7411 --token-file token

TCP is measured between client hosts and an agent on the server's host, which needs no --allow:
  holdfast bench agent --listen 10.0.0.5:7411 --token-file token
  holdfast bench agent --listen 10.0.0.11:7411 --token-file token --allow 10.0.0.5:/export --line-rate-peer 10.0.0.5:7411
  holdfast bench run 10.0.0.5:/export sequential-read --block 1MiB --agents 10.0.0.11:7411 --token-file token \\
      --line-rate-peer 10.0.0.5:7411

An agent measures for any coordinator that knows the token, but only the servers given with --allow and TCP to \
--line-rate-peer. Holders of the token can also have it send or receive filler bytes on connections that they open, for a \
minute or so. The token is sent unencrypted: use a trusted network. Ctrl-C ends a measurement, removes its \
files, and ends the agent.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct AgentCommand {
    /// Address and port to listen on, such as 10.0.0.11:7411
    #[arg(long, value_name = "ADDR:PORT")]
    listen: SocketAddr,
    /// File with the secret that coordinators must know; other users must not be able to read it
    #[arg(long, value_name = "FILE")]
    token_file: PathBuf,
    /// Server and export that may be measured; may be repeated
    #[arg(long, value_name = "HOST[:PORT]:/EXPORT", num_args = 1..)]
    allow: Vec<String>,
    /// Agent on the server's host, to which TCP may be measured
    #[arg(long, value_name = "HOST:PORT")]
    line_rate_peer: Option<String>,
    /// Port of the servers' MOUNT service [default: the NFS port, else the port that rpcbind names]
    #[arg(long, value_name = "PORT")]
    mount_port: Option<u16>,
    /// Use local ports below 1024, which some servers require; needs root
    #[arg(long)]
    reserved_ports: bool,
}

pub(crate) fn run(command: &AgentCommand) -> Outcome {
    let allowed = command.allow.iter().map(|target| {
        let server = Server::parse(target).map_err(|error| Error::usage(error.to_string()))?;
        Ok(Server { mount_port: command.mount_port, reserved_ports: command.reserved_ports, ..server })
    });
    let peer = command.line_rate_peer.as_deref().map(resolve).transpose().map_err(failed)?;
    let allowed = Allowed::new(allowed.collect::<Result<_, Error>>()?, peer);
    let token = Token::read(&command.token_file).map_err(failed)?;
    let agent = Agent::bind(command.listen, token, allowed).map_err(failed)?;
    let interrupted = signals()?;
    print(&format!("Waiting for a coordinator at {}\n", agent.address().map_err(failed)?));
    agent.serve(&|| interrupted.load(Ordering::Relaxed), &|words| eprintln!("holdfast: {words}"));
    Ok(ExitCode::SUCCESS)
}
