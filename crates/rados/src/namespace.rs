//! A namespace of a pool of a Ceph cluster: creates, opens, lists, describes and deletes Holdfast's pools in it.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;

use cluster::{Identity, Name};
use rustix::process::{Signal, getpid, kill_process};
use volume::media::{Media, Tenure};

use crate::candidacy::Candidacy;
use crate::error::{Error, ErrorKind};
use crate::fence::{Fence, OnLost, Owned};
use crate::format::{Format, State};
use crate::index;
use crate::librados::{Cluster, Credentials, Pool};
use crate::local::{Local, Locked};
use crate::location::Location;
use crate::media::{self, Place, RadosMedia};
use crate::names::{OBJECT_BYTES, POOLS, PoolNames};
use crate::objects::{Objects, Step, Traffic, Window};
use crate::segments;
use crate::settings::{Settings, is_setting};
use crate::space::Watch;
use crate::tenancy::{self, NotTaken, Takeover, Tenancy};

/// Bytes of operations under way, which the client library has copies of: of changes of each pool's journal, of changes of its segments,
/// of all other changes, and of all reads.
const IN_FLIGHT_MAX: usize = 16 << 20;

/// Windows of a namespace, and of each of its pools.
const WINDOWS: u64 = 2;
const WINDOWS_OF_POOL: u64 = 2;

/// What the client library takes besides, bytes: measured after the connection was made, with a margin.
const LIBRARY_BYTES: u64 = 64 << 20;

/// Returns the most memory, in bytes, that the client library takes in a process that serves a namespace with `pools` pools.
#[must_use]
pub fn memory_bytes(pools: u64) -> u64 {
    LIBRARY_BYTES + (WINDOWS + WINDOWS_OF_POOL * pools) * IN_FLIGHT_MAX as u64
}

/// How long the connection of a process that lost the namespace is refused, seconds.
pub(crate) const SHUT_OUT_SECONDS: u32 = 3600;

/// Options of the client: give up connecting after so many seconds.
const OPTIONS: [(&str, &str); 1] = [("client_mount_timeout", "30")];

/// The most objects of a ring: 1 TiB.
const JOURNAL_OBJECTS_MAX: u64 = 1 << 18;

/// `EOPNOTSUPP`, which an erasure-coded pool answers to pairs.
const NOT_SUPPORTED: i32 = 95;

/// The parameters of a new pool.
#[derive(Clone, Copy, Debug)]
pub struct NewPool<'a> {
    /// Its name.
    pub name: &'a str,
    /// A random number that identifies it.
    pub id: u64,
    /// Size of its journal in bytes, a multiple of 4 MiB.
    pub journal_bytes: u64,
}

/// Facts about a pool that are known without opening it.
#[derive(Clone, Debug)]
pub struct Description {
    /// Its name.
    pub name: String,
    /// The number that identifies it.
    pub id: u64,
    /// The pool of the cluster that has its segments.
    pub data_pool: String,
    /// Size of its journal in bytes.
    pub journal_bytes: u64,
    /// Size of its index in bytes.
    pub index_bytes: u64,
    /// Number of its segments.
    pub segments: u64,
    /// Size of all its segments in bytes.
    pub segment_bytes: u64,
}

/// A connection to the namespace.
pub(crate) struct Connection {
    pub(crate) location: Location,
    pub(crate) cluster: Arc<Cluster>,
    pub(crate) objects: Arc<Pool>,
    traffic: Arc<Traffic>,
}

impl Connection {
    pub(crate) fn open(location: &Location) -> Result<Connection, Error> {
        let credentials = Credentials { user: location.user.clone(), ..Credentials::default() };
        let cluster = Cluster::connect(&credentials, &OPTIONS);
        let cluster = cluster.map_err(|failed| Error::connect(location, &failed))?;
        let objects = pool_of(location, &cluster, &location.pool)?;
        let (objects, traffic) = (Arc::new(objects), Arc::default());
        Ok(Connection { location: location.clone(), cluster, objects, traffic })
    }

    /// Returns the objects for reading only, by somebody who does not own the namespace.
    fn reader(&self) -> Owned {
        let objects: Arc<dyn Objects> = Arc::<Pool>::clone(&self.objects);
        Owned::new(objects, Fence::new(0, Arc::new(|_| ())), windows(&self.traffic))
    }

    fn window(&self) -> Arc<Window> {
        Window::new(IN_FLIGHT_MAX, &self.traffic)
    }

    /// Returns what describes an error in `action` (an infinitive).
    pub(crate) fn failed(&self, action: &str) -> impl Fn(io::Error) -> Error + use<> {
        let (action, location) = (action.to_owned(), self.location.clone());
        move |error| Error::io(&action, &location, &error)
    }
}

/// Returns windows for changes and for reads.
fn windows(traffic: &Arc<Traffic>) -> (Arc<Window>, Arc<Window>) {
    let window = || Window::new(IN_FLIGHT_MAX, traffic);
    (window(), window())
}

/// Opens a pool of the cluster.
fn pool_of(location: &Location, cluster: &Arc<Cluster>, name: &str) -> Result<Pool, Error> {
    cluster.pool(name, &location.namespace).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => Error::new(
            ErrorKind::NotFound,
            format!("the pool {name} does not exist in the Ceph cluster: create it with `ceph osd pool create {name}`"),
        ),
        _ => Error::io(&format!("open the pool {name}"), location, &error),
    })
}

/// Reads the formats of all pools, incomplete ones included.
fn formats(location: &Location, owned: &Owned) -> Result<BTreeMap<String, Format>, Error> {
    let pairs =
        owned.pairs(POOLS).map_err(|error| Error::io("read the catalogue of pools", location, &error))?;
    let pools = pairs.into_iter().filter(|(name, _)| !is_setting(name));
    let decoded = pools.map(|(name, bytes)| {
        let format = Format::decode(location, &name, &bytes)?;
        Ok((name, format))
    });
    decoded.collect()
}

fn complete_names(formats: &BTreeMap<String, Format>) -> Vec<String> {
    formats
        .iter()
        .filter(|(_, format)| format.state == State::Complete)
        .map(|(name, _)| name.clone())
        .collect()
}

/// A namespace, owned by this process.
pub struct Namespace {
    connection: Connection,
    owned: Owned,
    tenancy: Arc<Tenancy>,
    watch: Watch,
    _local: Local,
}

/// Seals the namespace for the machine that takes leases.
struct Sealer {
    location: Location,
    cluster: Arc<Cluster>,
    objects: Arc<dyn Objects>,
}

impl Takeover for Sealer {
    fn seal(&self, epoch: u64) -> io::Result<()> {
        let fence = Fence::new(epoch, Arc::new(|_| ()));
        // Only until the namespace is taken, when nothing else is under way.
        let owned = Owned::new(Arc::clone(&self.objects), fence, windows(&Arc::default()));
        owned.seal(POOLS.to_owned())?;
        let formats = formats(&self.location, &owned)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.to_string()))?;
        formats
            .values()
            .try_for_each(|format| media::seal(&owned, PoolNames { id: format.id }, format.journal_objects))
    }

    fn shut_out(&self, addresses: &str) {
        let (cluster, addresses) = (Arc::clone(&self.cluster), addresses.to_owned());
        let shut_out = move || {
            if let Err(error) = cluster.blocklist(&addresses, SHUT_OUT_SECONDS) {
                tracing::warn!(%error, addresses, "the earlier owner's connection was not put on the blocklist");
            }
        };
        // It needs a monitor, and nothing depends on it.
        if let Err(error) = std::thread::Builder::new().name("rados blocklist".to_owned()).spawn(shut_out) {
            tracing::warn!(%error, "no thread for the blocklist");
        }
    }
}

impl Namespace {
    /// Connects to the cluster and takes the namespace. `local` is a directory of this machine for it. Takes some seconds if another
    /// process had the namespace and did not give it up.
    ///
    /// # Errors
    /// The cluster cannot be used, another process has the namespace, or Holdfast has nothing in it.
    pub fn open(location: &Location, local: &Path) -> Result<Namespace, Error> {
        Namespace::take(Connection::open(location)?, local, Candidacy::default())
    }

    /// The same, but begins to use the namespace if Holdfast has nothing in it.
    ///
    /// # Errors
    /// The cluster cannot be used, or another process has the namespace.
    pub fn open_or_create(location: &Location, local: &Path) -> Result<Namespace, Error> {
        Namespace::stand(location, local, Candidacy::default())
    }

    /// The same as [`Namespace::open_or_create`] for a process that others compete with.
    ///
    /// # Errors
    /// The cluster cannot be used, or another process has the namespace and this one is not patient.
    pub fn stand(location: &Location, local: &Path, candidacy: Candidacy) -> Result<Namespace, Error> {
        let connection = Connection::open(location)?;
        let created = identity(&connection, candidacy.node.as_ref()).and_then(|identity| {
            tenancy::create(&*connection.objects, &identity)
                .map_err(connection.failed("create the objects `lease` and `pools`"))
        });
        created?;
        Namespace::take(connection, local, candidacy)
    }

    fn take(connection: Connection, local: &Path, candidacy: Candidacy) -> Result<Namespace, Error> {
        let location = &connection.location;
        let local_failed = |error: io::Error| {
            let text = format!("cannot use the local directory {} of {location}: {error}", local.display());
            Error::new(ErrorKind::Unusable, text)
        };
        let local_lock = match Local::lock(local).map_err(local_failed)? {
            Locked::Here(lock) => lock,
            Locked::InUse(process) => {
                let text = format!(
                    "{location} is in use by process {process}; stop that process first (kill -TERM)"
                );
                return Err(Error::new(ErrorKind::InUse, text));
            }
        };
        let objects: Arc<dyn Objects> = Arc::<Pool>::clone(&connection.objects);
        let identity = identity(&connection, candidacy.node.as_ref())?;
        if let Some(ended) = local_lock.ended_instance() {
            tenancy::release_for(&*objects, ended)
                .map_err(connection.failed("release the lease of a killed process"))?;
        }
        local_lock.set_instance(identity.instance()).map_err(local_failed)?;
        let failed = |action| connection.failed(action);
        let watch = Watch::start(&connection.cluster).map_err(failed("start a thread"))?;
        if candidacy.is_patient {
            // Where it could not open its pools, it takes the namespace from nobody.
            let room = watch.room(&location.pool).map_err(failed("ask for the free space"))?;
            room.check_own(index::OPENING_BYTES).map_err(failed("stand for the lease"))?;
        }
        let sealer = Sealer {
            location: location.clone(),
            cluster: Arc::clone(&connection.cluster),
            objects: Arc::clone(&objects),
        };
        let on_lost: OnLost = Arc::new(kill);
        let lost = Arc::clone(&on_lost);
        let taken = Tenancy::take(Arc::clone(&objects), Arc::new(sealer), identity, candidacy, lost);
        let tenancy = taken.map_err(|not_taken| refusal(location, not_taken))?;
        let epoch = u64::from(tenancy.epoch().0);
        let owned = Owned::new(objects, Fence::new(epoch, on_lost), windows(&connection.traffic));
        let namespace = Namespace { connection, owned, tenancy, watch, _local: local_lock };
        namespace.sweep()?;
        Ok(namespace)
    }

    fn location(&self) -> &Location {
        &self.connection.location
    }

    fn formats(&self) -> Result<BTreeMap<String, Format>, Error> {
        formats(self.location(), &self.owned)
    }

    /// Returns the names of its pools, sorted.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn pools(&self) -> Result<Vec<String>, Error> {
        Ok(complete_names(&self.formats()?))
    }

    /// Removes what interrupted creations and deletions left.
    fn sweep(&self) -> Result<(), Error> {
        for (name, format) in self.formats()? {
            if format.state == State::Incomplete {
                self.remove(&name, &format)?;
            }
        }
        Ok(())
    }

    fn remove(&self, name: &str, format: &Format) -> Result<(), Error> {
        let removed =
            self.place(format)?.remove().and_then(|()| self.owned.change(POOLS, Step::RemovePair(name)));
        removed.map_err(self.connection.failed(&format!("remove the pool {name:?}")))
    }

    fn put(&self, name: &str, format: &Format) -> Result<(), Error> {
        let entry = format.encode();
        self.owned.change(POOLS, Step::PutPair(name, entry.as_bytes())).map_err(|error| {
            if error.raw_os_error() == Some(NOT_SUPPORTED) {
                let pool = &self.location().pool;
                let text = format!(
                    "the pool {pool} of the Ceph cluster is erasure-coded, so it can only hold segments: name a replicated pool, and \
                     {pool} as its data_pool"
                );
                return Error::new(ErrorKind::Invalid, text);
            }
            Error::io("write the catalogue of pools", self.location(), &error)
        })
    }

    /// Returns where the parts of a pool are.
    fn place(&self, format: &Format) -> Result<Place, Error> {
        let location = self.location();
        let data = if format.data_pool == location.pool {
            self.owned.with_window(self.connection.window())
        } else {
            let pool = pool_of(location, &self.connection.cluster, &format.data_pool)?;
            let append_only = pool.is_append_only();
            if append_only.map_err(self.connection.failed("examine the data pool"))? {
                let name = &format.data_pool;
                let text = format!(
                    "the pool {name} of the Ceph cluster takes no overwrites: run `ceph osd pool set {name} allow_ec_overwrites true`"
                );
                return Err(Error::new(ErrorKind::Invalid, text));
            }
            self.owned.of_other_pool(Arc::new(pool), self.connection.window())
        };
        let room =
            |pool: &str| self.watch.room(pool).map_err(self.connection.failed("ask for the free space"));
        let tenancy = Arc::clone(&self.tenancy);
        Ok(Place {
            names: PoolNames { id: format.id },
            journal_objects: format.journal_objects,
            owned: self.owned.clone(),
            ring: self.owned.with_window(self.connection.window()),
            data,
            room: room(&location.pool)?,
            data_room: room(&format.data_pool)?,
            tenure: Arc::new(move || tenancy.tenure()),
        })
    }

    /// Creates a pool. `initialize` writes the engine's first state; its error is a sentence. A crash before this returns leaves no pool.
    ///
    /// # Errors
    /// The name is taken, there is no room, or the cluster or the engine fails.
    pub fn create(
        &self,
        new: &NewPool<'_>,
        initialize: impl FnOnce(&dyn Media) -> Result<(), String>,
    ) -> Result<(), Error> {
        let name = new.name;
        check_parameters(new)?;
        let formats = self.formats()?;
        if formats.contains_key(name) {
            let text = format!("there is a pool {name:?} already; choose another name, or delete it first");
            return Err(Error::new(ErrorKind::Exists, text));
        }
        // Its objects would have the same names, and go with what remains of this one after a crash.
        if let Some((other, _)) = formats.iter().find(|(_, format)| format.id == new.id) {
            let text = format!("the pool {other:?} is the same pool; delete it first");
            return Err(Error::new(ErrorKind::Exists, text));
        }
        let format = Format {
            id: new.id,
            journal_objects: new.journal_bytes / OBJECT_BYTES,
            data_pool: self.location().data_pool.as_ref().unwrap_or(&self.location().pool).clone(),
            state: State::Incomplete,
        };
        let place = self.place(&format)?;
        let failed = self.connection.failed(&format!("create the pool {name:?}"));
        place.room.check(new.journal_bytes).map_err(&failed)?;
        self.put(name, &format)?;
        let created =
            place.create().and_then(|()| RadosMedia::open(&place)).map_err(&failed).and_then(|media| {
                initialize(&media).map_err(|sentence| Error::new(ErrorKind::Engine, sentence))?;
                self.put(name, &Format { state: State::Complete, ..format.clone() })
            });
        if created.is_err() {
            // The first error is the one to report. What remains here is removed at the next start.
            let _ = self.remove(name, &format);
        }
        created
    }

    /// Opens a pool's media.
    ///
    /// # Errors
    /// There is no such pool, or it cannot be read.
    pub fn open_pool(&self, name: &str) -> Result<RadosMedia, Error> {
        let place = self.place(&existing(self.location(), &self.formats()?, name)?)?;
        RadosMedia::open(&place).map_err(self.connection.failed(&format!("open the pool {name:?}")))
    }

    /// Deletes a pool with all its data. Nobody may have it open.
    ///
    /// # Errors
    /// There is no such pool, or the cluster fails. What remains is removed at the next start.
    pub fn delete(&self, name: &str) -> Result<(), Error> {
        let format = existing(self.location(), &self.formats()?, name)?;
        let incomplete = Format { state: State::Incomplete, ..format };
        self.put(name, &incomplete)?;
        self.remove(name, &incomplete)
    }

    /// Returns what a server keeps beside the pools.
    pub fn settings(&self) -> Settings {
        Settings::new(self.owned.clone(), self.location().clone())
    }

    /// Returns what is under way between this process and the cluster.
    pub fn traffic(&self) -> Arc<Traffic> {
        Arc::clone(&self.connection.traffic)
    }

    /// Returns whether this process may execute and answer calls.
    pub fn tenure(&self) -> Tenure {
        self.tenancy.tenure()
    }

    /// Returns what [`Namespace::tenure`] is, for threads that outlive it.
    pub fn hold(&self) -> Hold {
        Hold(Arc::clone(&self.tenancy))
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        self.tenancy.give_up();
    }
}

/// The ownership of a namespace.
#[derive(Clone, Debug)]
pub struct Hold(Arc<Tenancy>);

impl Hold {
    /// Returns when this process may execute and answer calls: at once unless the cluster does not answer, never if another process
    /// has the namespace.
    pub fn wait(&self) {
        self.0.wait();
    }

    /// Lets another process have the namespace at once. This one must answer nothing any more; what it still changes is refused.
    pub fn give_up(&self) {
        self.0.give_up();
    }
}

fn existing(location: &Location, formats: &BTreeMap<String, Format>, name: &str) -> Result<Format, Error> {
    if let Some(format) = formats.get(name).filter(|format| format.state == State::Complete) {
        return Ok(format.clone());
    }
    let others = complete_names(formats).join(", ");
    let others = if others.is_empty() { "no pools".to_owned() } else { format!("the pools {others}") };
    let text = format!(
        "there is no pool {name:?} in {location}, which has {others}; choose one of its pools, or create one"
    );
    Err(Error::new(ErrorKind::NotFound, text))
}

fn check_parameters(new: &NewPool<'_>) -> Result<(), Error> {
    let objects = new.journal_bytes / OBJECT_BYTES;
    if !(1..=JOURNAL_OBJECTS_MAX).contains(&objects) || !new.journal_bytes.is_multiple_of(OBJECT_BYTES) {
        let text = format!(
            "a journal cannot be {} bytes: it consists of objects of 4 MiB; choose a multiple of that up to 1 TiB",
            new.journal_bytes
        );
        return Err(Error::new(ErrorKind::Invalid, text));
    }
    Ok(())
}

/// Returns the names of the pools of a namespace, sorted. Does not take the namespace.
///
/// # Errors
/// The cluster cannot be used, or Holdfast has nothing there.
pub fn list(location: &Location) -> Result<Vec<String>, Error> {
    let connection = Connection::open(location)?;
    let reader = connection.reader();
    if reader.read_whole(crate::names::LEASE).map_err(connection.failed("read the lease"))?.is_none() {
        return Err(unused(location));
    }
    Ok(complete_names(&formats(location, &reader)?))
}

/// Returns the names of the pools of a namespace, sorted: none if Holdfast has nothing there. Does not take the namespace.
///
/// # Errors
/// The cluster cannot be used.
pub fn list_or_none(location: &Location) -> Result<Vec<String>, Error> {
    let connection = Connection::open(location)?;
    Ok(complete_names(&formats(location, &connection.reader())?))
}

/// Checks whether a namespace can have a new pool. Changes nothing.
///
/// # Errors
/// It cannot.
pub fn check_new(location: &Location, new: &NewPool<'_>) -> Result<(), Error> {
    check_parameters(new)?;
    let connection = Connection::open(location)?;
    if let Some(data_pool) = &location.data_pool {
        pool_of(location, &connection.cluster, data_pool)?;
    }
    if formats(location, &connection.reader())?
        .get(new.name)
        .is_some_and(|format| format.state == State::Complete)
    {
        let text = format!("there is a pool {:?} already; choose another name, or delete it first", new.name);
        return Err(Error::new(ErrorKind::Exists, text));
    }
    Ok(())
}

/// Describes a pool. Does not take the namespace.
///
/// # Errors
/// There is no such pool, or it cannot be read.
pub fn describe(location: &Location, name: &str) -> Result<Description, Error> {
    let connection = Connection::open(location)?;
    let reader = connection.reader();
    let format = existing(location, &formats(location, &reader)?, name)?;
    let names = PoolNames { id: format.id };
    let failed = connection.failed(&format!("examine the pool {name:?}"));
    let (segments, segment_bytes) = segments::count(&reader, names).map_err(&failed)?;
    Ok(Description {
        name: name.to_owned(),
        id: format.id,
        data_pool: format.data_pool,
        journal_bytes: format.journal_objects * OBJECT_BYTES,
        index_bytes: index::length(&reader, names).map_err(&failed)?,
        segments,
        segment_bytes,
    })
}

fn unused(location: &Location) -> Error {
    let text = format!(
        "there is nothing of holdfast in {location}: check the name, or run `holdfast serve {location}` to begin"
    );
    Error::new(ErrorKind::NotFound, text)
}

fn refusal(location: &Location, not_taken: NotTaken) -> Error {
    match not_taken {
        NotTaken::Missing => unused(location),
        NotTaken::InUse(node) => Error::new(
            ErrorKind::InUse,
            format!(
                "{location} is in use by the machine {node}, which renews its lease: stop holdfast there first"
            ),
        ),
        NotTaken::Ended(end) => Error::new(
            ErrorKind::InUse,
            format!("cannot take {location}: {end}; try again when nobody else does"),
        ),
        NotTaken::Failed(error) => Error::io("take the lease", location, &error),
    }
}

/// Returns what this process is called in the lease: it runs on `node`, or else on a machine of this host name.
fn identity(connection: &Connection, node: Option<&Name>) -> Result<Identity, Error> {
    let node = node.cloned().unwrap_or_else(host_name);
    let addresses = connection.cluster.address().map_err(connection.failed("ask for the own address"))?;
    Identity::new(node, connection.cluster.instance(), &addresses).map_err(|error| {
        Error::new(ErrorKind::Unusable, format!("cannot use {}: {error}", connection.location))
    })
}

fn host_name() -> Name {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let plain = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-') { c } else { '-' };
    let host: String = host.trim_end().chars().map(plain).take(cluster::NAME_BYTES_MAX).collect();
    Name::new(&host).or_else(|_| Name::new("unnamed")).expect("a plain name")
}

/// Ends the process without running anything more of it: the library's own cleaning up may wait for the cluster.
fn kill(why: &str) {
    tracing::error!("stopping at once, since another process may have the namespace: {why}");
    // Nothing can keep a process from killing itself.
    let _ = kill_process(getpid(), Signal::KILL);
}
