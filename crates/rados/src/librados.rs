//! Calls `librados.so.2`, the C library of Ceph. It is loaded when the first cluster is connected to, so that nobody
//! needs it who has no Ceph.
//!
//! This is the only file with unsafe code. What it offers is safe:
//! - A [`Cluster`] is connected from [`Cluster::connect`] until it is dropped; a [`Pool`] keeps its cluster.
//! - The library copies the bytes of a change while [`Pool::change`] runs.
//! - What a watch calls lives for as long as the process.
//! - The library writes to the buffers of a read until the read is complete, and [`Pool::read`] returns after that.
//! - Handles of clusters and pools may be used by any thread at any time, as `librados.h` says.

#![expect(unsafe_code, reason = "the only file that calls the C library")]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::io::{self, IoSlice};
use std::ptr;
use std::slice;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use libloading::Library;

use crate::objects::{Done, Piece, Step};

/// The file name of the library: the version of its interface belongs to it.
const FILE: &str = "librados.so.2";

/// The attribute that guards compare.
const EPOCH: &CStr = c"epoch";

/// `LIBRADOS_CMPXATTR_OP_EQ` and `_GTE`. The library compares *the given value* OP *the stored value*.
const EQUAL: u8 = 1;
const GREATER_OR_EQUAL: u8 = 4;

/// `LIBRADOS_CREATE_EXCLUSIVE`.
const EXCLUSIVE: c_int = 1;

/// Pairs of an omap that are read at once.
const PAIRS_MAX: u64 = 1024;

/// Pieces of an object that are read by one operation.
const READS_PER_OPERATION: usize = 64;

/// How long watchers may take to answer a notification.
const NOTIFY_MILLISECONDS: u64 = 1000;

/// How long the cluster keeps a watch whose process is silent.
const WATCH_SECONDS: u32 = 10;

/// An opaque pointer of the library: `rados_t`, `rados_ioctx_t`, operations, completions, iterators.
type Raw = *mut c_void;

/// What the library calls for a notification: argument, notification, watch, notifier, data and its length.
type OnNotify = unsafe extern "C" fn(Raw, u64, u64, u64, Raw, usize);

/// What the library calls if a watch is lost: argument, watch, error.
type OnWatchLost = unsafe extern "C" fn(Raw, u64, c_int);

type OnComplete = unsafe extern "C" fn(completion: Raw, argument: Raw);

/// Declares the functions that are looked up in the library.
macro_rules! functions {
    ($($name:ident($($argument:ty),*) $(-> $result:ty)?;)*) => {
        /// The functions of the library, by their names there.
        struct Functions {
            /// Keeps the library loaded.
            _library: Library,
            $($name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
        }

        impl Functions {
            /// Looks all functions up.
            fn of(library: Library) -> Result<Functions, libloading::Error> {
                $(
                    // SAFETY: the type is that of the declaration in librados.h.
                    let $name = unsafe { *library.get(concat!(stringify!($name), "\0").as_bytes())? };
                )*
                Ok(Functions { $($name,)* _library: library })
            }
        }
    };
}

functions! {
    rados_create(*mut Raw, *const c_char) -> c_int;
    rados_conf_read_file(Raw, *const c_char) -> c_int;
    rados_conf_parse_env(Raw, *const c_char) -> c_int;
    rados_conf_set(Raw, *const c_char, *const c_char) -> c_int;
    rados_connect(Raw) -> c_int;
    rados_shutdown(Raw);
    rados_get_instance_id(Raw) -> u64;
    rados_getaddrs(Raw, *mut *mut c_char) -> c_int;
    rados_blocklist_add(Raw, *mut c_char, u32) -> c_int;
    rados_mon_command(
        Raw, *const *const c_char, usize, *const c_char, usize, *mut *mut c_char, *mut usize, *mut *mut c_char, *mut usize
    ) -> c_int;
    rados_buffer_free(*mut c_char);
    rados_ioctx_create(Raw, *const c_char, *mut Raw) -> c_int;
    rados_ioctx_destroy(Raw);
    rados_ioctx_set_namespace(Raw, *const c_char);
    rados_set_pool_full_try(Raw);
    rados_ioctx_pool_requires_alignment2(Raw, *mut c_int) -> c_int;
    rados_create_write_op() -> Raw;
    rados_release_write_op(Raw);
    rados_write_op_assert_version(Raw, u64);
    rados_write_op_cmpxattr(Raw, *const c_char, u8, *const c_char, usize);
    rados_write_op_setxattr(Raw, *const c_char, *const c_char, usize);
    rados_write_op_create(Raw, c_int, *const c_char);
    rados_write_op_write(Raw, *const c_char, usize, u64);
    rados_write_op_write_full(Raw, *const c_char, usize);
    rados_write_op_truncate(Raw, u64);
    rados_write_op_remove(Raw);
    rados_write_op_omap_set2(Raw, *const *const c_char, *const *const c_char, *const usize, *const usize, usize);
    rados_write_op_omap_rm_keys2(Raw, *const *const c_char, *const usize, usize);
    rados_aio_write_op_operate(Raw, Raw, Raw, *const c_char, *mut i64, c_int) -> c_int;
    rados_aio_create_completion2(Raw, Option<OnComplete>, *mut Raw) -> c_int;
    rados_aio_wait_for_complete(Raw) -> c_int;
    rados_aio_get_return_value(Raw) -> c_int;
    rados_aio_get_version(Raw) -> u64;
    rados_aio_release(Raw);
    rados_stat(Raw, *const c_char, *mut u64, *mut i64) -> c_int;
    rados_create_read_op() -> Raw;
    rados_release_read_op(Raw);
    rados_read_op_omap_get_vals2(Raw, *const c_char, *const c_char, u64, *mut Raw, *mut u8, *mut c_int);
    rados_read_op_read(Raw, u64, usize, *mut c_char, *mut usize, *mut c_int);
    rados_read_op_operate(Raw, Raw, *const c_char, c_int) -> c_int;
    rados_aio_read_op_operate(Raw, Raw, Raw, *const c_char, c_int) -> c_int;
    rados_omap_get_next2(Raw, *mut *mut c_char, *mut *mut c_char, *mut usize, *mut usize) -> c_int;
    rados_omap_get_end(Raw);
    rados_watch3(
        Raw, *const c_char, *mut u64, Option<OnNotify>, Option<OnWatchLost>, u32, Raw
    ) -> c_int;
    rados_notify_ack(Raw, *const c_char, u64, u64, *const c_char, c_int) -> c_int;
    rados_notify2(
        Raw, *const c_char, *const c_char, c_int, u64, *mut *mut c_char, *mut usize
    ) -> c_int;
}

static LOADED: Mutex<Option<&'static Functions>> = Mutex::new(None);

/// Returns the functions of the library, which is loaded if it is not yet. It stays loaded.
fn functions() -> Result<&'static Functions, libloading::Error> {
    let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(functions) = *loaded {
        return Ok(functions);
    }
    // SAFETY: the library's initialization only sets up its own state.
    let library = unsafe { Library::new(FILE)? };
    let functions = Box::leak(Box::new(Functions::of(library)?));
    *loaded = Some(functions);
    Ok(functions)
}

/// Returns the error that a negative result stands for.
fn check(result: c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::from_raw_os_error(-result)) } else { Ok(()) }
}

/// Returns a string of C; no name of ours has a zero byte.
fn c_string(text: &str) -> io::Result<CString> {
    CString::new(text).map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "the text has a zero byte"))
}

/// At which step connecting to a cluster failed.
#[derive(Debug)]
pub enum Failed {
    /// The library could not be loaded.
    Load(String),
    /// The configuration file of Ceph could not be read.
    Configuration(io::Error),
    /// An option was refused.
    Option(&'static str, io::Error),
    /// The monitors could not be reached, or refused the user.
    Connect(io::Error),
}

/// What connecting to a cluster needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Credentials {
    /// The user's name without `client.`.
    pub user: String,
    /// Ceph's configuration file; none for the usual places.
    pub configuration: Option<String>,
    /// The file with the user's key; none for the usual places.
    pub keyring: Option<String>,
}

/// A connection to a cluster.
pub struct Cluster {
    raw: Raw,
    functions: &'static Functions,
}

// SAFETY: the library synchronizes all use of its handles.
unsafe impl Send for Cluster {}
// SAFETY: as above.
unsafe impl Sync for Cluster {}

impl Cluster {
    /// Connects to the cluster that Ceph's configuration file names.
    pub fn connect(
        credentials: &Credentials,
        options: &[(&'static str, &str)],
    ) -> Result<Arc<Cluster>, Failed> {
        let functions = functions().map_err(|error| Failed::Load(error.to_string()))?;
        let user = c_string(&credentials.user).map_err(|error| Failed::Option("id", error))?;
        let mut raw = ptr::null_mut();
        // SAFETY: both pointers are valid.
        check(unsafe { (functions.rados_create)(&raw mut raw, user.as_ptr()) }).map_err(Failed::Connect)?;
        let cluster = Cluster { raw, functions };
        let file = credentials.configuration.as_deref().map(c_string).transpose();
        let file = file.map_err(Failed::Configuration)?;
        let path = file.as_ref().map_or(ptr::null(), |file| file.as_ptr());
        // SAFETY: the path is a string of C, or null for the usual places.
        check(unsafe { (functions.rados_conf_read_file)(raw, path) }).map_err(Failed::Configuration)?;
        // SAFETY: null names the usual variable, CEPH_ARGS.
        check(unsafe { (functions.rados_conf_parse_env)(raw, ptr::null()) })
            .map_err(|error| Failed::Option("CEPH_ARGS", error))?;
        let keyring = credentials.keyring.as_deref().map(|path| ("keyring", path));
        for (option, value) in options.iter().copied().chain(keyring) {
            cluster.set(option, value).map_err(|error| Failed::Option(option, error))?;
        }
        // SAFETY: the handle is configured, and not connected yet.
        check(unsafe { (functions.rados_connect)(raw) }).map_err(Failed::Connect)?;
        Ok(Arc::new(cluster))
    }

    fn set(&self, option: &str, value: &str) -> io::Result<()> {
        let (option, value) = (c_string(option)?, c_string(value)?);
        // SAFETY: both are strings of C.
        check(unsafe { (self.functions.rados_conf_set)(self.raw, option.as_ptr(), value.as_ptr()) })
    }

    /// Returns the number that distinguishes this connection from all others of the cluster.
    pub fn instance(&self) -> u64 {
        // SAFETY: the handle is connected.
        unsafe { (self.functions.rados_get_instance_id)(self.raw) }
    }

    /// Returns the address of this connection, as blocklists name it.
    pub fn address(&self) -> io::Result<String> {
        let mut text = ptr::null_mut();
        // SAFETY: the handle is connected; the library allocates the string.
        check(unsafe { (self.functions.rados_getaddrs)(self.raw, &raw mut text) })?;
        // SAFETY: the library returned a string of C.
        let address = unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned();
        // SAFETY: the string came from the library and is not used any more.
        unsafe { (self.functions.rados_buffer_free)(text) };
        Ok(address)
    }

    /// Keeps the connection with this address from the cluster for `seconds`.
    pub fn blocklist(&self, address: &str, seconds: u32) -> io::Result<()> {
        let address = c_string(address)?.into_raw();
        // SAFETY: the handle is connected; the library does not keep the string.
        let result = unsafe { (self.functions.rados_blocklist_add)(self.raw, address, seconds) };
        // SAFETY: the pointer came from `into_raw`, and the length is unchanged.
        drop(unsafe { CString::from_raw(address) });
        check(result)
    }

    /// Has the monitors execute a command, and returns what it prints.
    pub fn ask_monitors(&self, command: &str) -> io::Result<Vec<u8>> {
        let command = c_string(command)?;
        let commands = [command.as_ptr()];
        let (mut output, mut output_bytes) = (ptr::null_mut(), 0);
        let (mut message, mut message_bytes) = (ptr::null_mut(), 0);
        // SAFETY: one command is passed, no input, and places for two buffers that the library allocates.
        let result = unsafe {
            (self.functions.rados_mon_command)(
                self.raw,
                commands.as_ptr(),
                commands.len(),
                ptr::null(),
                0,
                &raw mut output,
                &raw mut output_bytes,
                &raw mut message,
                &raw mut message_bytes,
            )
        };
        let printed = self.take_buffer(output, output_bytes);
        self.take_buffer(message, message_bytes);
        check(result).map(|()| printed)
    }

    /// Copies a buffer that the library allocated, and frees it.
    fn take_buffer(&self, buffer: *mut c_char, bytes: usize) -> Vec<u8> {
        if buffer.is_null() {
            return Vec::new();
        }
        // SAFETY: the library returned a buffer of this length.
        let copy = unsafe { slice::from_raw_parts(buffer.cast::<u8>(), bytes) }.to_vec();
        // SAFETY: the buffer came from the library and is not used any more.
        unsafe { (self.functions.rados_buffer_free)(buffer) };
        copy
    }

    /// Opens a namespace of a pool.
    pub fn pool(self: &Arc<Cluster>, name: &str, namespace: &str) -> io::Result<Pool> {
        let (name, namespace) = (c_string(name)?, c_string(namespace)?);
        let mut raw = ptr::null_mut();
        // SAFETY: the handle is connected, and the name is a string of C.
        check(unsafe { (self.functions.rados_ioctx_create)(self.raw, name.as_ptr(), &raw mut raw) })?;
        // SAFETY: the pool was opened just above; the library copies the name.
        unsafe { (self.functions.rados_ioctx_set_namespace)(raw, namespace.as_ptr()) };
        // A full pool then refuses what needs space, and does the rest. By default it keeps even removals waiting.
        // SAFETY: the pool was opened just above.
        unsafe { (self.functions.rados_set_pool_full_try)(raw) };
        Ok(Pool { raw, cluster: Arc::clone(self) })
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // SAFETY: pools keep their cluster, so there are none any more.
        unsafe { (self.functions.rados_shutdown)(self.raw) };
    }
}

/// A namespace of a pool.
pub struct Pool {
    raw: Raw,
    cluster: Arc<Cluster>,
}

// SAFETY: the library synchronizes all use of its handles.
unsafe impl Send for Pool {}
// SAFETY: as above.
unsafe impl Sync for Pool {}

impl Drop for Pool {
    fn drop(&mut self) {
        // SAFETY: the pool is open. Changes under way keep what they need of it.
        unsafe { (self.functions().rados_ioctx_destroy)(self.raw) };
    }
}

impl Pool {
    fn functions(&self) -> &'static Functions {
        self.cluster.functions
    }

    /// Whether objects can only be appended to in whole units, as in an erasure-coded pool without overwrites.
    pub fn is_append_only(&self) -> io::Result<bool> {
        let mut required = 0;
        // SAFETY: the pool is open.
        check(unsafe {
            (self.functions().rados_ioctx_pool_requires_alignment2)(self.raw, &raw mut required)
        })?;
        Ok(required != 0)
    }

    /// Begins to change an object: all steps or none. `done` is called with the object's new version, from a thread of the
    /// library or this one, and may not wait.
    pub fn change(&self, object: &str, steps: &[Step<'_>], done: Done) {
        match self.start(object, steps, done) {
            Ok(()) => {}
            Err((error, done)) => done(Err(error)),
        }
    }

    fn start(&self, object: &str, steps: &[Step<'_>], done: Done) -> Result<(), (io::Error, Done)> {
        let functions = self.functions();
        let Ok(name) = c_string(object) else { return Err((io::ErrorKind::InvalidInput.into(), done)) };
        let operation = WriteOperation::new(functions);
        for step in steps {
            operation.add(step);
        }
        let callback = Box::into_raw(Box::new(Callback { done, functions }));
        let mut completion = ptr::null_mut();
        // SAFETY: the callback is called once, with the box, if the operation starts; otherwise it is freed below.
        let made = unsafe {
            (functions.rados_aio_create_completion2)(callback.cast(), Some(completed), &raw mut completion)
        };
        let started = check(made).and_then(|()| {
            // SAFETY: all handles are valid, and the name is a string of C, which the library copies.
            let result = unsafe {
                (functions.rados_aio_write_op_operate)(
                    operation.raw,
                    self.raw,
                    completion,
                    name.as_ptr(),
                    ptr::null_mut(),
                    0,
                )
            };
            // SAFETY: this thread needs the completion no more; the library keeps its own reference.
            unsafe { (functions.rados_aio_release)(completion) };
            check(result)
        });
        started.map_err(|error| {
            // SAFETY: the operation did not start, so the callback is never called, and the box is ours.
            (error, unsafe { Box::from_raw(callback) }.done)
        })
    }

    /// Reads all pieces at once, and returns when each has its result. Consecutive pieces of the same object are read by one operation,
    /// up to [`READS_PER_OPERATION`] of them, which costs the cluster much less than one for each.
    pub fn read(&self, pieces: &mut [Piece<'_>]) {
        let of_objects = pieces.chunk_by_mut(|one, next| one.object == next.object);
        let together = of_objects.flat_map(|pieces| pieces.chunks_mut(READS_PER_OPERATION));
        let started: Vec<Reading<'_, '_>> = together.map(|pieces| self.start_reading(pieces)).collect();
        drop(started);
    }

    /// Starts to read pieces of one object. What is returned must be dropped, which waits for the end, before the borrow of the buffers
    /// ends.
    fn start_reading<'r, 'b>(&self, pieces: &'r mut [Piece<'b>]) -> Reading<'r, 'b> {
        let functions = self.functions();
        let mut outcomes: Vec<Outcome> = pieces.iter().map(|_| Outcome::default()).collect();
        let mut completion = ptr::null_mut();
        // SAFETY: there is no callback.
        let made =
            unsafe { (functions.rados_aio_create_completion2)(ptr::null_mut(), None, &raw mut completion) };
        let name = pieces.first().map_or("", |piece| &piece.object);
        let begun = check(made).and_then(|()| c_string(name)).and_then(|name| {
            // SAFETY: the buffers and the outcomes outlive the operation, as dropping the `Reading` waits for its end. The operation
            // may be released once it has begun.
            check(unsafe {
                let operation = (functions.rados_create_read_op)();
                for (piece, outcome) in pieces.iter_mut().zip(&mut outcomes) {
                    (functions.rados_read_op_read)(
                        operation,
                        piece.offset,
                        piece.buffer.len(),
                        piece.buffer.as_mut_ptr().cast(),
                        &raw mut outcome.count,
                        &raw mut outcome.result,
                    );
                }
                let begun =
                    (functions.rados_aio_read_op_operate)(operation, self.raw, completion, name.as_ptr(), 0);
                (functions.rados_release_read_op)(operation);
                begun
            })
        });
        Reading { pieces, outcomes, completion, begun, functions }
    }

    /// Returns the length of an object.
    pub fn length(&self, object: &str) -> io::Result<u64> {
        let (name, mut bytes, mut time) = (c_string(object)?, 0, 0);
        // SAFETY: the pool is open, and the name is a string of C.
        check(unsafe {
            (self.functions().rados_stat)(self.raw, name.as_ptr(), &raw mut bytes, &raw mut time)
        })?;
        Ok(bytes)
    }

    /// Returns the pairs of an object's omap, in order.
    pub fn pairs(&self, object: &str) -> io::Result<Vec<(String, Vec<u8>)>> {
        let name = c_string(object)?;
        let mut pairs: Vec<(String, Vec<u8>)> = Vec::new();
        loop {
            let after = c_string(pairs.last().map_or("", |(key, _)| key))?;
            if !self.more_pairs(&name, &after, &mut pairs)? {
                return Ok(pairs);
            }
        }
    }

    /// Adds the next pairs after the key `after`. Returns whether there are more.
    fn more_pairs(&self, name: &CStr, after: &CStr, pairs: &mut Vec<(String, Vec<u8>)>) -> io::Result<bool> {
        let functions = self.functions();
        let (mut iterator, mut more, mut result) = (ptr::null_mut(), 0, 0);
        // SAFETY: the operation gets places that live until it is complete, and is released after that.
        let operated = unsafe {
            let operation = (functions.rados_create_read_op)();
            (functions.rados_read_op_omap_get_vals2)(
                operation,
                after.as_ptr(),
                c"".as_ptr(),
                PAIRS_MAX,
                &raw mut iterator,
                &raw mut more,
                &raw mut result,
            );
            let operated = (functions.rados_read_op_operate)(operation, self.raw, name.as_ptr(), 0);
            (functions.rados_release_read_op)(operation);
            operated
        };
        let mut read = || loop {
            let (mut key, mut value, mut key_bytes, mut value_bytes) =
                (ptr::null_mut(), ptr::null_mut(), 0, 0);
            // SAFETY: the operation made the iterator.
            check(unsafe {
                (functions.rados_omap_get_next2)(
                    iterator,
                    &raw mut key,
                    &raw mut value,
                    &raw mut key_bytes,
                    &raw mut value_bytes,
                )
            })?;
            if key.is_null() {
                return Ok(());
            }
            // SAFETY: the iterator keeps the bytes until it ends.
            let (key, value) =
                unsafe { (slice::from_raw_parts(key.cast::<u8>(), key_bytes), bytes_of(value, value_bytes)) };
            let key = String::from_utf8(key.to_vec()).map_err(io::Error::other)?;
            pairs.push((key, value.to_vec()));
        };
        let done = check(operated).and_then(|()| check(result)).and_then(|()| read());
        if !iterator.is_null() {
            // SAFETY: the iterator is not used any more.
            unsafe { (functions.rados_omap_get_end)(iterator) };
        }
        done.map(|()| more != 0)
    }
}

impl Pool {
    /// Calls `notified`, from a thread of the library, whenever somebody notifies the watchers of an object. It may not wait. The
    /// watch, and with it the connection, lasts as long as the process.
    pub fn watch(self: &Arc<Pool>, object: &str, notified: Notified) -> io::Result<&'static Watch> {
        let object = c_string(object)?;
        let watch = Watch { pool: Arc::clone(self), object, notified, is_lost: AtomicBool::new(true) };
        let watch: &'static Watch = Box::leak(Box::new(watch));
        watch.begin()?;
        Ok(watch)
    }

    /// Notifies the watchers of an object, and waits for them for a moment.
    pub fn notify(&self, object: &str) -> io::Result<()> {
        let name = c_string(object)?;
        let (mut reply, mut reply_bytes) = (ptr::null_mut(), 0);
        // SAFETY: the pool is open, the name is a string of C, there is no message, and the library allocates the reply.
        let result = unsafe {
            (self.functions().rados_notify2)(
                self.raw,
                name.as_ptr(),
                ptr::null(),
                0,
                NOTIFY_MILLISECONDS,
                &raw mut reply,
                &raw mut reply_bytes,
            )
        };
        self.cluster.take_buffer(reply, reply_bytes);
        check(result)
    }
}

/// Called for a notification.
pub type Notified = Box<dyn Fn() + Send + Sync>;

/// A watch of an object.
pub struct Watch {
    pool: Arc<Pool>,
    object: CString,
    notified: Notified,
    is_lost: AtomicBool,
}

impl Watch {
    /// Begins to watch, or begins anew if the library has lost the watch.
    pub fn begin(&'static self) -> io::Result<()> {
        if !self.is_lost.swap(false, Ordering::AcqRel) {
            return Ok(());
        }
        let mut cookie = 0;
        // SAFETY: the pool is open for as long as the watch, which is never freed; the functions below take it as their argument.
        let result = check(unsafe {
            (self.pool.functions().rados_watch3)(
                self.pool.raw,
                self.object.as_ptr(),
                &raw mut cookie,
                Some(on_notify),
                Some(on_watch_lost),
                WATCH_SECONDS,
                ptr::from_ref(self).cast_mut().cast(),
            )
        });
        if result.is_err() {
            self.is_lost.store(true, Ordering::Release);
        }
        result
    }
}

/// Called by the library for each notification. A panic ends the process.
unsafe extern "C" fn on_notify(argument: Raw, id: u64, cookie: u64, _: u64, _: Raw, _: usize) {
    // SAFETY: the argument is a watch, which is never freed.
    let watch: &'static Watch = unsafe { &*argument.cast::<Watch>() };
    (watch.notified)();
    // Who notifies waits for this; if it fails, that waits a moment in vain.
    // SAFETY: the pool is open, the name is a string of C, and there is no answer.
    let _ = unsafe {
        (watch.pool.functions().rados_notify_ack)(
            watch.pool.raw,
            watch.object.as_ptr(),
            id,
            cookie,
            ptr::null(),
            0,
        )
    };
}

/// Called by the library when it has lost a watch. A panic ends the process.
unsafe extern "C" fn on_watch_lost(argument: Raw, _: u64, _: c_int) {
    // SAFETY: the argument is a watch, which is never freed.
    let watch: &'static Watch = unsafe { &*argument.cast::<Watch>() };
    watch.is_lost.store(true, Ordering::Release);
}

/// Returns the bytes at a pointer of the library, which may be null if there are none.
///
/// # Safety
/// There must be so many bytes for as long as they are used.
unsafe fn bytes_of<'a>(start: *mut c_char, bytes: usize) -> &'a [u8] {
    if start.is_null() {
        return &[];
    }
    // SAFETY: the caller promises it.
    unsafe { slice::from_raw_parts(start.cast::<u8>(), bytes) }
}

/// What runs when a change is complete.
struct Callback {
    done: Done,
    functions: &'static Functions,
}

/// Called by the library once for each change. A panic ends the process.
unsafe extern "C" fn completed(completion: Raw, argument: Raw) {
    // SAFETY: the argument is the box that `start` made for this call.
    let callback = unsafe { Box::from_raw(argument.cast::<Callback>()) };
    let functions = callback.functions;
    // SAFETY: the completion is complete.
    let (result, version) = unsafe {
        ((functions.rados_aio_get_return_value)(completion), (functions.rados_aio_get_version)(completion))
    };
    (callback.done)(check(result).map(|()| version));
}

/// What the library says of a piece that was read.
#[derive(Default)]
struct Outcome {
    /// Bytes that were read.
    count: usize,
    /// Negative if that failed.
    result: c_int,
}

/// A read of pieces of one object. The library writes to their buffers and to the outcomes until it is complete.
struct Reading<'r, 'b> {
    pieces: &'r mut [Piece<'b>],
    outcomes: Vec<Outcome>,
    completion: Raw,
    /// Whether it was started.
    begun: io::Result<()>,
    functions: &'static Functions,
}

impl Drop for Reading<'_, '_> {
    /// Waits for the end, and notes the results.
    fn drop(&mut self) {
        let mut version = 0;
        let done = self.begun.as_ref().map_err(again).and_then(|()| {
            // SAFETY: the completion belongs to a read that was started, and that is complete after the first call.
            check(unsafe {
                (self.functions.rados_aio_wait_for_complete)(self.completion);
                version = (self.functions.rados_aio_get_version)(self.completion);
                (self.functions.rados_aio_get_return_value)(self.completion)
            })
        });
        if !self.completion.is_null() {
            // SAFETY: the completion is not used any more.
            unsafe { (self.functions.rados_aio_release)(self.completion) };
        }
        for (piece, outcome) in self.pieces.iter_mut().zip(&self.outcomes) {
            let done = done.as_ref().map_err(again).copied();
            piece.result = done.and_then(|()| check(outcome.result)).map(|()| outcome.count);
            piece.version = version;
        }
    }
}

/// Returns the same error once more.
fn again(error: &io::Error) -> io::Error {
    error.raw_os_error().map_or_else(|| error.kind().into(), io::Error::from_raw_os_error)
}

/// The steps of a change, as the library collects them.
struct WriteOperation {
    raw: Raw,
    functions: &'static Functions,
}

impl Drop for WriteOperation {
    fn drop(&mut self) {
        // SAFETY: the library copied what it needs when the operation was started.
        unsafe { (self.functions.rados_release_write_op)(self.raw) };
    }
}

impl WriteOperation {
    fn new(functions: &'static Functions) -> WriteOperation {
        // SAFETY: has no conditions.
        WriteOperation { raw: unsafe { (functions.rados_create_write_op)() }, functions }
    }

    fn compare_epoch(&self, operator: u8, epoch: u64) {
        let text = epoch_text(epoch);
        // SAFETY: the library copies the value.
        unsafe {
            (self.functions.rados_write_op_cmpxattr)(
                self.raw,
                EPOCH.as_ptr(),
                operator,
                text.as_ptr().cast(),
                text.len(),
            );
        }
    }

    /// Adds a step. The library copies all bytes.
    fn add(&self, step: &Step<'_>) {
        let (raw, functions) = (self.raw, self.functions);
        match step {
            Step::EpochIs(epoch) => self.compare_epoch(EQUAL, *epoch),
            Step::EpochNotAbove(epoch) => self.compare_epoch(GREATER_OR_EQUAL, *epoch),
            Step::SetEpoch(epoch) => {
                let text = epoch_text(*epoch);
                // SAFETY: the library copies the value.
                unsafe {
                    (functions.rados_write_op_setxattr)(
                        raw,
                        EPOCH.as_ptr(),
                        text.as_ptr().cast(),
                        text.len(),
                    );
                }
            }
            // SAFETY: the operation is valid.
            Step::VersionIs(version) => unsafe { (functions.rados_write_op_assert_version)(raw, *version) },
            // SAFETY: the operation is valid; there is no category.
            Step::Create => unsafe { (functions.rados_write_op_create)(raw, EXCLUSIVE, ptr::null()) },
            Step::Write(offset, parts) => self.write(*offset, parts),
            // SAFETY: the operation is valid.
            Step::SetLength(bytes) => unsafe { (functions.rados_write_op_truncate)(raw, *bytes) },
            // SAFETY: the library copies the bytes.
            Step::Replace(bytes) => unsafe {
                (functions.rados_write_op_write_full)(raw, bytes.as_ptr().cast(), bytes.len());
            },
            Step::PutPair(key, value) => {
                let (keys, key_lengths) = ([key.as_ptr().cast()], [key.len()]);
                let (values, value_lengths) = ([value.as_ptr().cast()], [value.len()]);
                // SAFETY: one pair, with its lengths; the library copies both.
                unsafe {
                    (functions.rados_write_op_omap_set2)(
                        raw,
                        keys.as_ptr(),
                        values.as_ptr(),
                        key_lengths.as_ptr(),
                        value_lengths.as_ptr(),
                        1,
                    );
                }
            }
            Step::RemovePair(key) => {
                let (keys, lengths) = ([key.as_ptr().cast()], [key.len()]);
                // SAFETY: one key, with its length; the library copies it.
                unsafe { (functions.rados_write_op_omap_rm_keys2)(raw, keys.as_ptr(), lengths.as_ptr(), 1) };
            }
            // SAFETY: the operation is valid.
            Step::Remove => unsafe { (functions.rados_write_op_remove)(raw) },
        }
    }

    fn write(&self, offset: u64, parts: &[IoSlice<'_>]) {
        let mut at = offset;
        for part in parts {
            // SAFETY: the library copies the bytes.
            unsafe {
                (self.functions.rados_write_op_write)(self.raw, part.as_ptr().cast(), part.len(), at);
            }
            at += u64::try_from(part.len()).expect("a length fits 64 bits");
        }
    }
}

/// Returns an epoch as objects hold it. Digits of the same number compare as the numbers do.
fn epoch_text(epoch: u64) -> String {
    format!("{epoch:016x}")
}
