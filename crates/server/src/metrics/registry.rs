//! The registry: every metric there is, with its name, type, help, unit and labels. The texts of a scrape and
//! `docs/metrics.md` come from it.

/// What a metric is to Prometheus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It only grows, until the server restarts.
    Counter,
    /// It goes up and down.
    Gauge,
    /// Values counted by upper bounds, with their sum.
    Histogram,
}

impl Kind {
    /// Returns the name in the text format.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        }
    }
}

/// A metric: all series of one name.
#[derive(Debug)]
pub struct Family {
    /// The full name.
    pub name: &'static str,
    /// Its type.
    pub kind: Kind,
    /// The unit of its values; none if they are numbers of things.
    pub unit: Option<&'static str>,
    /// A sentence that explains it.
    pub help: &'static str,
    /// The names of the labels that each of its series has.
    pub labels: &'static [&'static str],
}

/// Declares families, and the list of all in this order.
macro_rules! families {
    ($($kind:ident $ident:ident $name:literal [$($label:literal),*] $(($unit:literal))? $help:literal;)*) => {
        $(pub(super) static $ident: Family = Family {
            name: $name,
            kind: Kind::$kind,
            unit: families!(@unit $($unit)?),
            help: $help,
            labels: &[$($label),*],
        };)*

        /// All metrics, in the order in which they are shown.
        pub static ALL: &[&Family] = &[$(&$ident),*];
    };
    (@unit) => { None };
    (@unit $unit:literal) => { Some($unit) };
}

families! {
    Gauge BUILD_INFO "holdfast_build_info" ["version"] "One, with the version of the server.";
    Gauge UP_VOLUMES "holdfast_up_volumes" [] "Volumes that are served and accept changes.";
    Gauge SERIES_OMITTED "holdfast_series_omitted" []
        "Series that this scrape left out, because there may be 20,000 at most.";

    Gauge VOLUME_UP "holdfast_volume_up" ["volume"]
        "Whether the volume accepts changes: 1, or 0 if its journal or index failed.";
    Gauge VOLUME_SIZE "holdfast_volume_size_bytes" ["volume"] ("bytes")
        "Space of the volume, used and free.";
    Gauge VOLUME_USED "holdfast_volume_used_bytes" ["volume"] ("bytes")
        "Space that the volume's files use. Shared data counts for each file.";
    Gauge VOLUME_FREE "holdfast_volume_free_bytes" ["volume"] ("bytes")
        "Space that is free for new data, or will be after a checkpoint.";
    Gauge VOLUME_INODES "holdfast_volume_inodes" ["volume", "state"]
        "Inodes and further hard links that are `used`, and those for which there is room (`free`).";

    Gauge VOLUME_MAPPINGS "holdfast_volume_mappings" ["volume"]
        "Runs of bytes into which the data of the volume's files is divided, as of the last checkpoint.";

    Gauge QUOTA_VIOLATIONS "holdfast_quota_violations" ["volume", "kind", "limit"]
        "Owners whose `soft` limit is exceeded, by the kind of quota: `volume`, `tree`, `user` or `group`. A hard one never is.";
    Counter QUOTA_REFUSED "holdfast_quota_refused_total" ["volume", "kind", "limit"]
        "Operations that a quota refused (DQUOT), by its kind and the limit: `soft` after the grace period, or `hard`.";

    Counter TARGET_OPERATIONS "holdfast_target_operations_total" ["target"]
        "Operations by the listen address that they came by.";
    Counter TARGET_BYTES "holdfast_target_bytes_total" ["target"] ("bytes")
        "Bytes of calls and replies by listen address.";
    Counter TARGET_ERRORS "holdfast_target_errors_total" ["target"]
        "Operations that failed because of the server or a device (IO, SERVERFAULT), and connections \
         that were closed because of what they sent.";
    Gauge TARGET_CONNECTIONS "holdfast_target_connections" ["target"] "Open connections by listen address.";

    Counter OPERATIONS "holdfast_operations_total" ["volume", "proto", "op"]
        "Operations that were replied to. Those of a COMPOUND count one by one, for the volume of its \
         filehandle. The volume is empty if none is known.";
    Counter OPERATION_ERRORS "holdfast_operation_errors_total" ["volume", "proto", "op", "status"]
        "Operations that failed, by the status in the reply.";
    Histogram OPERATION_DURATION "holdfast_operation_duration_seconds" ["volume", "class"] ("seconds")
        "Time from the arrival of a call until its reply was given to the socket, by the class of its \
         operation; for a COMPOUND, of the operation that it was made for.";
    Counter OPERATION_PHASE "holdfast_operation_phase_seconds_total" ["volume", "phase"] ("seconds")
        "What that time was spent on: `queue` (a turn, or memory), `qos` (rate limits), `line` (a worker, a limit of the \
         pool, or something in the way), `engine` (execution), `durability`, `send`.";
    Histogram IO_SIZE "holdfast_io_size_bytes" ["volume", "direction"] ("bytes")
        "File data that one call read or wrote.";
    Counter TRANSFERRED "holdfast_transferred_bytes_total" ["volume", "direction"] ("bytes")
        "File data that was read or written.";
    Counter SLOW_OPERATIONS "holdfast_slow_operations_total" []
        "Calls that took longer than `metrics.slow_operation`.";

    Gauge QOS_LIMIT "holdfast_qos_limit" ["kind", "id", "dimension"]
        "Rate limits of targets, pools and volumes, whose name is the `id`, in bytes or operations a second. Of clients, that of \
         each one without limits of its own (`*`).";
    Counter QOS_THROTTLED_SECONDS "holdfast_qos_throttled_seconds_total" ["kind", "id", "dimension"] ("seconds")
        "Time during which at least one call waited for the limit. Of clients without limits of their own, the sum of those of all.";
    Gauge QOS_THROTTLED "holdfast_qos_throttled" ["kind", "id", "dimension"] "Calls, and parts of copies that continue after their reply, that wait for the limit now.";
    Gauge CALLS_HELD "holdfast_calls_held" [] "Calls that rate limits hold.";

    Counter CLIENT_OPERATIONS "holdfast_client_operations_total" ["client"]
        "Operations of the clients that are counted.";
    Counter CLIENT_BYTES "holdfast_client_bytes_total" ["client"] ("bytes")
        "Bytes of their calls and replies.";
    Gauge CLIENT_INFO "holdfast_client_info" ["client", "protocols"]
        "One for each client that is counted, with the protocols that it has used.";

    Gauge JOURNAL_USED "holdfast_journal_used_bytes" ["pool"] ("bytes")
        "Space of the journal that the next checkpoint frees.";
    Gauge JOURNAL_CAPACITY "holdfast_journal_capacity_bytes" ["pool"] ("bytes") "Size of the journal.";
    Histogram JOURNAL_SYNC "holdfast_journal_sync_seconds" ["pool"] ("seconds")
        "Time to write a batch of the journal and to sync it.";
    Histogram CHECKPOINT "holdfast_checkpoint_seconds" ["pool"] ("seconds") "Time of a checkpoint.";
    Gauge SEGMENT_LIVE_RATIO "holdfast_segment_live_ratio" ["pool"] ("ratio")
        "Part of the data in segments that files still need. The cleaner moves it out of segments that \
         have little.";
    Gauge SEGMENTS "holdfast_segments" ["pool"] "Segments that hold file data.";
    Gauge SEGMENTS_SPARE "holdfast_segments_spare" ["pool"]
        "Files of deleted segments that are kept for new ones.";
    Counter SEGMENTS_CLEANED "holdfast_segments_cleaned_total" ["pool"]
        "Segments that the cleaner emptied.";
    Gauge DURABLE_SEQ "holdfast_journal_durable_seq" ["pool"]
        "Number of the last journal entry that is durable.";
    Gauge QUEUED_SEQ "holdfast_journal_queued_seq" ["pool"]
        "Number of the last journal entry that was queued.";
    Gauge MEMTABLE "holdfast_memtable_bytes" ["pool"] ("bytes")
        "Records that were changed since the last checkpoint.";
    Gauge MEMTABLE_FROZEN "holdfast_memtable_frozen_bytes" ["pool"] ("bytes")
        "Records that a checkpoint is moving to the index.";
    Gauge UNSTABLE "holdfast_unstable_bytes" ["pool"] ("bytes") "File data that waits for write-back.";
    Counter WRITE_BACKS "holdfast_write_backs_total" ["pool"] "Flushes of unstable data.";
    Counter CHECKPOINTS "holdfast_checkpoints_total" ["pool"] "Checkpoints since the server started.";
    Gauge INODES_IN_MEMORY "holdfast_inodes_in_memory" ["pool"] "Inodes in memory.";
    Gauge MAP_WINDOW "holdfast_map_window_bytes" ["pool"] ("bytes") "Extent mappings of files in memory.";
    Gauge INODE_NOTES "holdfast_inode_note_bytes" ["pool"] ("bytes")
        "What was noted of inodes, so that long work on them need not begin anew.";
    Gauge BLOCK_CACHE "holdfast_block_cache_bytes" ["pool"] ("bytes") "File data in the block cache.";
    Gauge RECORD_CACHE "holdfast_record_cache_bytes" ["pool"] ("bytes")
        "Records in the cache of the index.";
    Gauge NAMES_KNOWN "holdfast_names_known" ["pool"] "Names whose absence need not be looked up.";
    Gauge NAMES_CACHED "holdfast_names_cached" ["pool"] "Names in memory.";
    Gauge REPLIES_REMEMBERED "holdfast_replies_remembered" ["pool"]
        "Replies that are kept for retransmitted calls.";
    Counter INDEX_COLD_READS "holdfast_index_cold_reads_total" ["pool"]
        "Look-ups that had to read the index from media.";
    Counter INDEX_FILE_READS "holdfast_index_file_reads_total" ["pool"]
        "Blocks of the index that were read from media.";
    Gauge ORPHANS "holdfast_orphans" ["pool"] "Files without a name that are not removed yet.";
    Gauge SPACE_RESERVED "holdfast_space_reserved_bytes" ["pool"] ("bytes")
        "Space that is reserved for data in memory.";
    Gauge UNREADABLE_OBJECTS "holdfast_unreadable_objects" ["pool"]
        "Objects whose stored data could not be read since the server started; at most 1024 are counted.";
    Counter VERIFIER_CHANGES "holdfast_verifier_changes_total" ["pool"]
        "Times that unstable data was lost and clients were told to write it again.";

    Gauge CONNECTIONS "holdfast_connections" [] "Open connections.";
    Counter CONNECTIONS_REFUSED "holdfast_connections_refused_total" []
        "Connections that were closed on arrival, because no export admits their address.";
    Counter CONNECTIONS_MALFORMED "holdfast_connections_malformed_total" []
        "Connections that were closed because of what they sent.";
    Counter CONNECTIONS_EVICTED "holdfast_connections_evicted_total" []
        "Connections that were closed to make room for others.";
    Counter DATAGRAMS_DROPPED "holdfast_datagrams_dropped_total" ["reason"]
        "Datagrams that were not answered: no export admits their sender (`stranger`), there were too many \
         (`rate`), they are not calls (`malformed`), or the reply would be longer than the call \
         (`no_reply`).";
    Gauge REPLIES_PARKED "holdfast_replies_parked" [] "Replies that wait for durability or for their time.";
    Gauge CALLS_IN_LINE "holdfast_calls_in_line" []
        "Calls that wait for a limit of a pool, or for something that is in their way.";
    Gauge CALLS_QUEUED_FOR_WORKERS "holdfast_calls_queued_for_workers" [] "Calls that wait for a worker.";
    Counter CALLS_CUT_SHORT "holdfast_calls_cut_short_total" []
        "COMPOUNDs that took long or waited, and were ended with NFS4ERR_DELAY to make room for others.";
    Counter CALLS_BLOCKED "holdfast_calls_blocked_total" [] "Calls that were handed to workers.";
    Counter CALLS_BUSY "holdfast_calls_busy_total" [] "Times that a call found no room in the engine.";
    Counter CALLS_WAITED_FOR_MEMORY "holdfast_calls_waited_for_memory_total" []
        "Calls that waited for memory for their replies.";
    Counter REPLIES_WAITED "holdfast_replies_waited_total" []
        "Replies that waited for durability or for their time.";
    Counter RECEIVED "holdfast_received_bytes_total" [] ("bytes") "Bytes that were read from sockets.";
    Gauge REQUEST_BYTES "holdfast_request_bytes" [] ("bytes") "Memory that requests and replies hold.";
    Gauge REQUEST_BYTES_HIGHEST "holdfast_request_bytes_highest" [] ("bytes")
        "The most that they have held, summed over the event loops.";
    Gauge REQUEST_BYTES_MAX "holdfast_request_bytes_max" [] ("bytes") "The most that they may hold.";
    Gauge STATE "holdfast_state" ["kind"]
        "What clients of NFSv4 and NLM hold, and what was done about it since the server started: the \
         names are those of `holdfast status`.";
    Gauge MEMORY_MAX "holdfast_memory_max_bytes" [] ("bytes") "The setting `memory`.";
    Gauge CEPH_TRAFFIC "holdfast_ceph_traffic_bytes" [] ("bytes")
        "Data of operations that a Ceph cluster has not completed yet, which counts in `memory`. No series for a data directory.";
    Gauge CEPH_TRAFFIC_MAX "holdfast_ceph_traffic_max_bytes" [] ("bytes")
        "The most of it that there may be, but for an operation that is larger than its part.";

    Gauge PROCESS_RESIDENT "process_resident_memory_bytes" [] ("bytes") "Resident memory of the process.";
    Gauge PROCESS_RESIDENT_HIGHEST "process_resident_memory_highest_bytes" [] ("bytes")
        "The most resident memory that the process has had.";
    Counter PROCESS_CPU "process_cpu_seconds_total" [] ("seconds")
        "Processor time that the process has used.";
    Gauge PROCESS_START "process_start_time_seconds" [] ("seconds")
        "When the server started, in seconds since 1970.";
    Gauge PROCESS_OPEN_FDS "process_open_fds" [] "Open file descriptors.";
    Gauge PROCESS_MAX_FDS "process_max_fds" [] "The most file descriptors that may be open.";
}
