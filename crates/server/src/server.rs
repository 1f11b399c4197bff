//! Starts and stops a server.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use mio::net::{TcpListener, UdpSocket};
use nfs::service::{LostRecords, Service};
use store::Claim;
use volume::time::Time;
use volume::{Pool, Volume, count};

use crate::admin::{Admin, Remote, Source};
use crate::background::copies::Copies;
use crate::background::driver::Drivers;
use crate::clock::{self, now};
use crate::config;
use crate::config::audience::{self, MountPoint};
use crate::config::memory;
use crate::config::size::Size;
use crate::config::{Config, Export};
use crate::counters::tally::TallySettings;
use crate::data::{self, Data, Hold};
use crate::error::Error;
use crate::events::Events;
use crate::exports;
use crate::exports::writable;
use crate::group::{Group, Right};
use crate::limits::{CONNECTIONS_MAX, CONNECTIONS_SPARE};
use crate::metrics::{self, Scrape};
use crate::net::callbacks::Callbacks;
use crate::net::datagrams::Datagrams;
use crate::net::interfaces;
use crate::net::listener::{listen_at, take_datagrams_at};
use crate::net::loops;
use crate::net::loops::{Loops, no_thread};
use crate::net::rpcbind;
use crate::pools::{self, FIRST_POOL, MediaUse, OpenPool, milliseconds_since, volumes_of};
use crate::protocol::Protocol;
use crate::protocol::calls::Calls;
use crate::rates::Rates;
use crate::reload::Reloader;
use crate::volumes::{self, FIRST_ROOT_MODE, FIRST_VOLUME, NewVolume, Root};

pub use check::{check, check_certificate, check_exports, unused_targets, volume_names};

/// Ports that the system chooses until one is free for both TCP and UDP.
const PORTS_TRIED_MAX: usize = 8;

/// Settings of a server.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The data directory; created if it does not exist.
    pub data: PathBuf,
    /// Addresses to listen on.
    pub listen: Vec<SocketAddr>,
    /// Directory of journals.
    pub journal: Option<PathBuf>,
    /// Bytes of the journal of a new pool.
    pub journal_bytes: u64,
    /// Limit of memory, bytes.
    pub memory: u64,
    /// Event loops.
    pub threads: usize,
    /// Threads for calls that wait for the disk.
    pub workers: usize,
    /// Whether to register with rpcbind.
    pub rpcbind: bool,
    /// Whether to take datagrams at the ports of the addresses.
    pub udp: bool,
    /// Duration of a lease of NFSv4.
    pub lease: Duration,
    /// Exports; if there are none, every volume is exported.
    pub exports: Vec<Export>,
    /// The configuration file, to read the exports again, and what it says.
    pub config: (Option<PathBuf>, Config),
    /// Minimum duration of a sync of the device, for measurements; normally zero.
    pub sync_delay: Duration,
    /// Clients whose operations and bytes are counted; normally zero.
    pub counted_clients: usize,
    /// The least duration of an operation that is reported as slow.
    pub slow_operation: Duration,
    /// Where the log puts events.
    pub events: Arc<Events>,
    /// What the agent of the machine handed over, if the server serves a group.
    pub group: Option<Group>,
}

impl Settings {
    fn tally(&self) -> TallySettings {
        TallySettings { clients: self.counted_clients, slow: self.slow_operation }
    }
}

/// A server that is running.
pub struct Server {
    claim: Option<Arc<Claim>>,
    data: Data,
    addresses: Vec<SocketAddr>,
    mount_points: Vec<MountPoint>,
    registered: bool,
    datagrams: Option<Datagrams>,
    pools: Vec<OpenPool>,
    drivers: Vec<Drivers>,
    protocol: Arc<Protocol>,
    loops: Loops,
    callbacks: Option<Callbacks>,
    copies: Option<Copies>,
    memory: u64,
    started: Time,
    reloader: Arc<Reloader>,
    events: Arc<Events>,
    admin: Option<Admin>,
}

impl Server {
    /// Takes the data directory, opens its pools, and serves.
    pub fn start(settings: &Settings) -> Result<Server, Error> {
        let start = Instant::now();
        let connections = connections_max(raise_descriptor_limit());
        check(settings)?;
        let (data, sockets) = take(settings)?;
        let claim = settings.group.as_ref().and_then(Group::claim);
        let hold = claim.clone().map(Hold::Claim).or_else(|| data.hold());
        let addresses = local_addresses(&sockets.listeners)?;
        let media_use = MediaUse { sync_delay: settings.sync_delay, claim: claim.clone() };
        let pools = open_pools(&data, settings, &media_use)?;
        let mut volumes = volumes_of(&pools);
        for warning in audience::warnings(&settings.exports, &addresses) {
            tracing::warn!("{warning}");
        }
        exports::note_default(&settings.exports, &addresses);
        let exports = exports::resolve(&settings.exports, &volumes, &addresses, data.root())?;
        writable::warn_if_nobody_can_write(&exports, &volumes, data.root());
        let mount_points = MountPoint::all(&exports);
        let home = volumes::home::open(&pools)?;
        volumes.push(Arc::clone(&home));
        let service = new_service(exports, volumes, settings)?;
        restore_state(&service)?;
        let protocol = Arc::new(Protocol::new(service, engines_of(&pools), hold));
        let calls: Arc<dyn Calls> = Arc::<Protocol>::clone(&protocol);
        let loop_settings = loops::LoopSettings {
            threads: memory::loops(settings.memory, settings.threads),
            workers: settings.workers,
            request_bytes: usize::try_from(memory::shares(settings.memory).requests).unwrap_or(usize::MAX),
            buffer_bytes: memory::socket_buffers(settings.memory),
            connections,
            tally: settings.tally(),
            ends_by_reset: settings.group.is_some(),
        };
        let rates = open_rates(&data, settings, &addresses, &pools)?;
        let reloader = Reloader::new(
            settings.config.clone(),
            (Arc::clone(&protocol), Arc::clone(&rates)),
            data.root().to_owned(),
            (pools.clone(), home),
            addresses.clone(),
        );
        let mut server = Server {
            reloader: Arc::new(reloader),
            loops: Loops::start(loop_settings, sockets.listeners, calls, rates)?,
            drivers: Vec::new(),
            protocol,
            callbacks: None,
            copies: None,
            memory: settings.memory,
            started: now(),
            events: Arc::clone(&settings.events),
            registered: false,
            datagrams: None,
            admin: None,
            claim,
            data,
            addresses,
            mount_points,
            pools,
        };
        match server.start_rest(settings, (sockets.datagrams, sockets.remote)) {
            Ok(()) => {
                tracing::info!(milliseconds = milliseconds_since(start), "serving");
                Ok(server)
            }
            Err(error) => {
                // Stops what was started. The first error is reported.
                let _ = server.stop();
                Err(error)
            }
        }
    }

    /// Starts what needs the whole server: the threads of pools, callbacks, copies, datagrams, the administrator's socket.
    fn start_rest(
        &mut self,
        settings: &Settings,
        (datagrams, remote): (Vec<UdpSocket>, Option<Remote>),
    ) -> Result<(), Error> {
        for (served, commits) in self.pools.iter().zip(&self.protocol.commits) {
            let mailboxes = self.loops.mailboxes.clone();
            served.pool.on_progress(Box::new(move || {
                for mailbox in &mailboxes {
                    mailbox.announce_progress();
                }
            }));
            self.drivers.push(Drivers::start(served, commits).map_err(|error| no_thread(&error))?);
        }
        let callbacks =
            Callbacks::start(Arc::clone(&self.protocol), self.loops.mailboxes.clone(), &self.addresses);
        self.callbacks = Some(callbacks.map_err(|error| no_thread(&error))?);
        let copies = Copies::start(&self.protocol, &self.reloader.rates);
        self.copies = Some(copies.map_err(|error| no_thread(&error))?);
        if !datagrams.is_empty() {
            let datagrams = Datagrams::start(datagrams, Arc::clone(&self.protocol), settings.tally());
            self.datagrams = Some(datagrams.map_err(|error| no_thread(&error))?);
        }
        self.admin = Some(self.start_admin(remote, &settings.config.1.api)?);
        if settings.rpcbind {
            rpcbind::register(&self.addresses, self.datagrams.is_some())?;
            self.registered = true;
        }
        Ok(())
    }

    /// Returns what the metrics are read from.
    fn metrics_source(&self) -> metrics::Source {
        let loops = self.loops.counters.iter().cloned();
        let datagrams = self.datagrams.iter().map(Datagrams::counters);
        metrics::Source {
            pools: self.pools.clone(),
            counters: loops.chain(datagrams).collect(),
            targets: self.addresses.clone(),
            rates: Arc::clone(&self.reloader.rates),
            protocol: Arc::clone(&self.protocol),
            traffic: self.data.traffic(),
            workers: Arc::clone(&self.loops.workers),
            memory: self.memory,
            started: self.started,
        }
    }

    /// Returns the newest events.
    pub fn events(&self) -> &Arc<Events> {
        &self.events
    }

    /// Reads all metrics.
    pub fn scrape(&self) -> Scrape {
        self.metrics_source().scrape()
    }

    fn start_admin(&self, remote: Option<Remote>, settings: &config::Api) -> Result<Admin, Error> {
        let source = Source {
            measured: self.metrics_source(),
            reloader: Arc::clone(&self.reloader),
            events: Arc::clone(&self.events),
        };
        Admin::start(self.data.root(), self.data.files(), source, remote, settings.clients.clone())
    }

    /// Returns what puts other exports in force.
    pub fn reloader(&self) -> &Arc<Reloader> {
        &self.reloader
    }

    /// Returns the addresses it listens on, with the ports that the system chose.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Returns the addresses by which other machines can reach it, the most likely one first: in place of 0.0.0.0 and
    /// [::] those of this machine. Without any, only this machine can connect.
    pub fn reachable_addresses(&self) -> Vec<SocketAddr> {
        interfaces::reachable(&self.addresses)
    }

    /// Returns the paths that clients may mount.
    pub fn mount_points(&self) -> &[MountPoint] {
        &self.mount_points
    }

    /// Returns the absolute path of the data directory.
    pub fn root(&self) -> &Path {
        self.data.root()
    }

    /// Finishes the calls in flight. Nothing is answered any more.
    fn stop_answering(self) -> Silent {
        if self.registered
            && let Err(error) = rpcbind::unregister(&self.addresses, self.datagrams.is_some())
        {
            tracing::warn!(%error, "cannot remove the registration with rpcbind");
        }
        // While there are threads that make the last one durable.
        if let Some(admin) = &self.admin {
            admin.refuse_changes();
        }
        let Server { copies, callbacks, datagrams, loops, claim, data, pools, drivers, admin, .. } = self;
        if let Some(copies) = copies {
            copies.stop();
        }
        if let Some(callbacks) = callbacks {
            callbacks.stop();
        }
        if let Some(datagrams) = datagrams {
            datagrams.stop();
        }
        loops.stop();
        Silent { claim, data, pools, drivers, admin }
    }

    /// Finishes the calls in flight, and lets another machine have the pools at once, which recovers them as after a crash: closing them
    /// would take longer. Then it calls `end`, which ends the process.
    pub fn abandon(self, end: impl FnOnce()) {
        // Not dropped before the end: that could wait for the cluster.
        let silent = self.stop_answering();
        if let Some(hold) = silent.claim.clone().map(Hold::Claim).or_else(|| silent.data.hold()) {
            hold.release();
        }
        end();
    }

    /// Finishes the calls in flight, writes back, checkpoints, and releases the data directory.
    pub fn stop(self) -> Result<(), Error> {
        let start = Instant::now();
        let Silent { claim, data, pools, drivers, admin } = self.stop_answering();
        for drivers in drivers {
            drivers.stop();
        }
        let mut result = Ok(());
        for OpenPool { name, pool } in pools {
            match pools::span(&name).in_scope(|| pool.close(now())) {
                Ok(()) => tracing::info!(pool = %name, "pool closed"),
                Err(error) => {
                    let sentence = format!("the pool {name:?} was not closed cleanly: {error}");
                    tracing::error!("{sentence}");
                    result = Err(Error::failed(sentence));
                }
            }
        }
        if let Some(admin) = admin {
            admin.stop();
        }
        if let (Some(claim), Ok(())) = (claim, &result) {
            Hold::Claim(claim).release();
        }
        tracing::info!(milliseconds = milliseconds_since(start), "stopped");
        drop(data);
        result
    }
}

/// What is left of a server that answers nothing any more.
struct Silent {
    claim: Option<Arc<Claim>>,
    data: Data,
    pools: Vec<OpenPool>,
    drivers: Vec<Drivers>,
    admin: Option<Admin>,
}

/// Restores what clients held when the volumes were last served.
fn restore_state(service: &Service) -> Result<(), Error> {
    let lost = service.restore_state(clock::read()).map_err(|error| {
        Error::failed(format!(
            "cannot restore the state of clients ({error}); run `holdfast check` on the data directory"
        ))
    })?;
    warn_of_lost_state(&lost);
    Ok(())
}

fn engines_of(pools: &[OpenPool]) -> Vec<Arc<Pool>> {
    pools.iter().map(|open| Arc::clone(&open.pool)).collect()
}

/// Makes the service, without the state of clients.
fn new_service(
    exports: Vec<nfs::exports::Export>,
    volumes: Vec<Arc<Volume>>,
    settings: &Settings,
) -> Result<Service, Error> {
    let service = Service::new(exports, volumes).map_err(|error| Error::usage(error.to_string()))?;
    let state_bytes = memory::shares(settings.memory).state;
    let service = service.with_lease(settings.lease).with_state_bytes(state_bytes);
    Ok(if settings.udp { service.with_datagrams() } else { service })
}

/// The sockets of a server, bound.
struct Sockets {
    listeners: Vec<TcpListener>,
    /// At the same ports; none if datagrams are not taken.
    datagrams: Vec<UdpSocket>,
    remote: Option<Remote>,
}

impl Sockets {
    fn bind(settings: &Settings) -> Result<Sockets, Error> {
        let remote = Remote::bind(&settings.config.1.api)?;
        if let Some(group) = &settings.group {
            let (listeners, datagrams) = group.sockets().map_err(|error| {
                Error::failed(format!("cannot use the sockets of the agent: {error}; restart the agent"))
            })?;
            return Ok(Sockets { listeners, datagrams, remote });
        }
        let (mut listeners, mut datagrams) = (Vec::new(), Vec::new());
        for address in &settings.listen {
            let (listener, socket) = bind(*address, settings.udp).map_err(Error::failed)?;
            listeners.push(listener);
            datagrams.extend(socket);
        }
        Ok(Sockets { listeners, datagrams, remote })
    }
}

/// Takes the data directory and the addresses. A new directory is created last, so that nothing is for a server that cannot
/// listen; a lock held by another process is reported before a port in use, since that is usually the same server.
fn take(settings: &Settings) -> Result<(Data, Sockets), Error> {
    if let Some(Right::Lease(candidacy)) = settings.group.as_ref().map(|group| &group.right) {
        let sockets = Sockets::bind(settings)?;
        return Ok((Data::stand(&settings.data, candidacy)?, sockets));
    }
    if data::list_or_none(&settings.data)?.is_empty() {
        let sockets = Sockets::bind(settings)?;
        return Ok((Data::open_or_create(&settings.data)?, sockets));
    }
    let data = Data::open_or_create(&settings.data)?;
    Ok((data, Sockets::bind(settings)?))
}

/// Listens on an address, and takes datagrams there if they are wanted.
fn bind(address: SocketAddr, udp: bool) -> Result<(TcpListener, Option<UdpSocket>), String> {
    for tries in 1.. {
        let listener = listen_at(address)?;
        if !udp {
            return Ok((listener, None));
        }
        let port = listener.local_addr().map_or(address.port(), |local| local.port());
        match take_datagrams_at(SocketAddr::new(address.ip(), port)) {
            Ok(socket) => return Ok((listener, Some(socket))),
            // The port that the system chose is free for TCP only: it chooses another.
            Err(_) if address.port() == 0 && tries < PORTS_TRIED_MAX => {}
            Err(sentence) => return Err(sentence),
        }
    }
    unreachable!("the last try returns")
}

fn local_addresses(listeners: &[TcpListener]) -> Result<Vec<SocketAddr>, Error> {
    let local = |listener: &TcpListener| {
        listener.local_addr().map_err(|error| {
            Error::failed(format!(
                "cannot read the address of a listening socket: {error}; choose another with --listen"
            ))
        })
    };
    listeners.iter().map(local).collect()
}

/// Reads the rate limits that the data directory has.
fn open_rates(
    data: &Data,
    settings: &Settings,
    addresses: &[SocketAddr],
    pools: &[OpenPool],
) -> Result<Arc<Rates>, Error> {
    let config = &settings.config.1;
    for warning in unused_names(&config.targets, addresses) {
        tracing::warn!("{warning}");
    }
    let targets = target_names(&config.targets, addresses);
    let pools = pools.iter().map(|open| open.name.to_string()).collect();
    Ok(Arc::new(Rates::open(data.files(), config.tiers.clone(), targets, pools)?))
}

/// Returns the names of the addresses listened on: those of the configuration, or else the addresses.
fn target_names(named: &[(String, SocketAddr)], addresses: &[SocketAddr]) -> Vec<String> {
    let name_of = |address: &SocketAddr| {
        named
            .iter()
            .find(|(_, known)| known == address)
            .map_or_else(|| address.to_string(), |(name, _)| name.clone())
    };
    addresses.iter().map(name_of).collect()
}

/// Returns sentences about names of other addresses than those listened on.
fn unused_names(named: &[(String, SocketAddr)], addresses: &[SocketAddr]) -> impl Iterator<Item = String> {
    let unused = named.iter().filter(|(_, address)| !addresses.contains(address));
    unused.map(|(name, address)| {
        format!("the target {name:?} is not used: the server does not listen on {address}")
    })
}

/// Opens the pools; creates the first one, with a volume, in a new data directory.
fn open_pools(data: &Data, settings: &Settings, media_use: &MediaUse) -> Result<Vec<OpenPool>, Error> {
    let mut names = data.pools()?;
    for name in data.strays()? {
        tracing::warn!(name, "ignoring an entry among the pools that is not a pool; consider moving it");
    }
    let journal = settings.journal.as_deref();
    if names.is_empty() {
        let bytes = settings.journal_bytes;
        tracing::info!("{}", pools::creation_notice(data, FIRST_POOL, (None, journal), bytes));
        let root = Root { mode: Some(FIRST_ROOT_MODE), ..Root::default() };
        let first = NewVolume { name: FIRST_VOLUME.to_owned(), root, ..NewVolume::default() };
        pools::create(data, FIRST_POOL, (None, journal), bytes, volumes::options(&first)?)?;
        names.push(FIRST_POOL.to_owned());
    }
    let share = memory::shares(settings.memory).of_pool(names.len(), data.memory_bytes(names.len()));
    let share = share.map_err(|least| {
        let (least, pools) = (Size(least), count(names.len() as u64, "pool"));
        Error::usage(format!(
            "memory = {} is too little for {pools} in a Ceph cluster, whose client library has its part of it: set at least {least}",
            Size(settings.memory)
        ))
    })?;
    tracing::info!(
        data = %data.root().display(),
        memory = %Size(settings.memory),
        pools = names.len(),
        "starting"
    );
    let open = |name: &String| pools::open(data, name, journal, share, media_use);
    let pools: Vec<OpenPool> = names.iter().map(open).collect::<Result<_, _>>()?;
    check_names(&pools)?;
    Ok(pools)
}

/// Refuses pools that have volumes of the same name. Only moving directories of pools makes them.
fn check_names(pools: &[OpenPool]) -> Result<(), Error> {
    let mut names: Vec<Arc<str>> = volumes_of(pools).iter().map(|volume| volume.name()).collect();
    names.sort();
    let mut pairs = names.iter().zip(names.iter().skip(1));
    let Some((name, _)) = pairs.find(|(one, next)| one == next) else { return Ok(()) };
    Err(Error::usage(format!(
        "two pools have a volume {name:?}: move the directory of one of them away, and rename the volume there"
    )))
}

/// Raises the limit of descriptors, and returns it; none if there is no limit. Each connection takes one, and most systems
/// allow 1024 by default.
fn raise_descriptor_limit() -> Option<u64> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, ..limit };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        tracing::warn!(%error, "cannot raise the limit of open files");
        return limit.current;
    }
    raised.current
}

/// Returns how many connections there may be with this limit of descriptors: half of them, so that volumes and calls to
/// clients have the others.
fn connections_max(descriptors: Option<u64>) -> usize {
    let half = descriptors.map_or(usize::MAX, |limit| usize::try_from(limit / 2).unwrap_or(usize::MAX));
    half.clamp(2 * CONNECTIONS_SPARE, CONNECTIONS_MAX)
}

/// Says in the log which clients lose their opens and locks.
fn warn_of_lost_state(lost: &LostRecords) {
    for volume in &lost.unreadable {
        tracing::error!(
            volume_id = %volume,
            "some records of opens and locks cannot be read: no client keeps what it held; run `holdfast check`"
        );
    }
    if !lost.is_nothing() {
        tracing::warn!(
            damaged = lost.damaged,
            clients = lost.clients,
            "records of opens and locks are lost: their clients lose all that they held, and learn of it with their next \
             request"
        );
    }
}

mod check;
