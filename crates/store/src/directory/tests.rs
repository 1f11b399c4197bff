use std::os::unix::fs::PermissionsExt as _;

use volume::media::Tenure;

use super::*;
use crate::scratch::Scratch;

fn new(name: &str) -> NewPool<'_> {
    NewPool { name, id: 0x77, instance: 0x77, journal: None, path: None, journal_bytes: LOG_FILE_BYTES }
}

fn nothing(_: &dyn Media) -> Result<(), String> {
    Ok(())
}

fn write_index(media: &dyn Media) -> Result<(), String> {
    media.index().set_len(4096).map_err(|error| error.to_string())?;
    media.index().sync().map_err(|error| error.to_string())
}

/// Returns a data directory with the pool `main`.
fn with_main() -> (Scratch, Directory) {
    let scratch = Scratch::new();
    let directory = Directory::open_or_create(scratch.path()).unwrap();
    directory.create(&new("main"), nothing).unwrap();
    (scratch, directory)
}

#[test]
fn volumes_are_created_listed_described_opened_and_deleted() {
    let scratch = Scratch::new();
    let root = scratch.path().join("deep/data");
    assert_eq!(Directory::open(&root).unwrap_err().kind(), ErrorKind::NotFound);
    let directory = Directory::open_or_create(&root).unwrap();
    assert!(directory.pools().unwrap().is_empty());
    assert_eq!(fs::metadata(&root).unwrap().permissions().mode() & 0o777, 0o700);
    directory.create(&new("main"), write_index).unwrap();
    directory.create(&new("b"), nothing).unwrap();
    assert_eq!(directory.create(&new("b"), nothing).unwrap_err().kind(), ErrorKind::Exists);
    assert_eq!(directory.create(&new("../b"), nothing).unwrap_err().kind(), ErrorKind::Invalid);
    for journal_bytes in [0, LOG_FILE_BYTES + 1, 65_537 * LOG_FILE_BYTES] {
        let odd = NewPool { journal_bytes, ..new("odd") };
        assert_eq!(directory.create(&odd, nothing).unwrap_err().kind(), ErrorKind::Invalid);
    }
    assert_eq!(list(&root).unwrap(), ["b", "main"]);

    let media = directory.open_pool("main", None).unwrap();
    assert_eq!(media.index().len().unwrap(), 4096);
    assert_eq!(media.tenure(), Tenure::Held);
    let told = describe(&root, "main").unwrap();
    assert_eq!((told.id, told.journal_bytes, told.index_bytes), (0x77, LOG_FILE_BYTES, 4096));
    assert_eq!(told.in_use_by, Some(std::process::id()));
    assert_eq!(describe(&root, "b").unwrap().in_use_by, None);
    assert_eq!(directory.delete("main").unwrap_err().kind(), ErrorKind::InUse);
    drop(media);
    directory.delete("main").unwrap();
    assert_eq!(directory.pools().unwrap(), ["b"]);
    let error = directory.open_pool("main", None).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(error.to_string().contains("the pools b"), "{error}");
}

#[test]
fn entries_without_files_of_a_volume_are_strays() {
    let (scratch, directory) = with_main();
    let pools = scratch.path().join("pools");
    fs::create_dir_all(pools.join("backup/of/main")).unwrap();
    fs::write(pools.join("notes.txt"), b"").unwrap();
    fs::create_dir_all(pools.join("lost+found")).unwrap();
    // The remains of an interrupted restore are a pool, so that opening it says what is missing.
    fs::create_dir_all(pools.join("half/segments")).unwrap();
    assert_eq!(directory.pools().unwrap(), ["half", "main"]);
    assert_eq!(directory.strays().unwrap(), ["backup", "notes.txt"]);
    let error = directory.open_pool("backup", None).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert_eq!(directory.delete("backup").unwrap_err().kind(), ErrorKind::NotFound);
    let error = directory.create(&new("backup"), nothing).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Exists);
    assert!(error.to_string().contains("is not a pool"), "{error}");
    assert!(directory.open_pool("half", None).err().unwrap().to_string().contains("format"));
}

#[test]
fn a_second_process_on_the_directory_is_refused() {
    let scratch = Scratch::new();
    let _directory = Directory::open_or_create(scratch.path()).unwrap();
    let error = Directory::open(scratch.path()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InUse);
}

#[test]
fn a_failed_or_interrupted_creation_leaves_no_files() {
    let scratch = Scratch::new();
    let elsewhere = scratch.path().join("fast");
    let root = scratch.path().join("data");
    let directory = Directory::open_or_create(&root).unwrap();
    let new = NewPool { journal: Some(&elsewhere), ..new("main") };
    let error = directory.create(&new, |_| Err("the engine says no".to_owned())).unwrap_err();
    assert_eq!((error.kind(), error.to_string().as_str()), (ErrorKind::Engine, "the engine says no"));
    assert!(!elsewhere.join("main").exists());
    assert!(names_in(&root.join(POOLS)).unwrap().is_empty());

    // An interrupted creation is removed when the directory is next opened.
    directory.create(&new, nothing).unwrap();
    fs::remove_file(root.join("pools/.pool-main")).unwrap();
    fs::rename(root.join("pools/main"), root.join("pools/.new-main")).unwrap();
    drop(directory);
    let directory = Directory::open(&root).unwrap();
    assert!(names_in(&root.join(POOLS)).unwrap().is_empty());
    assert!(!elsewhere.join("main").exists());
    directory.create(&new, nothing).unwrap();
}

/// Makes a directory for pools elsewhere.
fn disk(scratch: &Scratch) -> PathBuf {
    let disk = scratch.path().join("disk");
    fs::create_dir(&disk).unwrap();
    disk
}

/// Returns a new data directory, and the parameters of a pool whose directory is in `disk` beside it.
fn beside<'a>(scratch: &Scratch, data: &str, id: u64, disk: &'a Path) -> (Directory, NewPool<'a>) {
    let directory = Directory::open_or_create(&scratch.path().join(data)).unwrap();
    (directory, NewPool { id, instance: id, path: Some(disk), ..new("fast") })
}

#[test]
fn remains_that_name_the_place_of_another_pool_leave_it_alone() {
    let scratch = Scratch::new();
    let disk = disk(&scratch);
    let (ours, _) = beside(&scratch, "ours", 1, &disk);
    let (theirs, pool) = beside(&scratch, "theirs", 2, &disk);
    // It is a copy of the pool that the remains are of.
    let pool = NewPool { id: 1, ..pool };
    theirs.create(&pool, nothing).unwrap();
    // The names of an earlier release had no id.
    for prefix in
        [".new-fast.0000000000000001", ".deleted-fast.0000000000000001", ".new-fast", ".deleted-fast"]
    {
        let link = ours.root().join(POOLS).join(prefix);
        std::os::unix::fs::symlink(disk.join("fast"), link).unwrap();
    }
    let root = ours.root().to_owned();
    drop(ours);
    drop(Directory::open(&root).unwrap());
    assert!(names_in(&root.join(POOLS)).unwrap().is_empty());
    theirs.open_pool("fast", None).unwrap();
}

#[test]
fn a_copy_that_finds_the_journal_of_the_original_in_its_place_leaves_it_alone() {
    let scratch = Scratch::new();
    let journals = scratch.path().join("journals");
    let original = NewPool { journal: Some(&journals), ..new("main") };
    let first = Directory::open_or_create(&scratch.path().join("first")).unwrap();
    first.create(&original, write_index).unwrap();
    let second = Directory::open_or_create(&scratch.path().join("second")).unwrap();
    let copy = NewPool { instance: 0x78, ..original };
    assert_eq!(second.create(&copy, nothing).unwrap_err().kind(), ErrorKind::Journal);
    assert_eq!(second.pools().unwrap(), Vec::<String>::new());
    first.open_pool("main", None).unwrap();
    // Elsewhere it has a journal of its own.
    let others = scratch.path().join("others");
    second.create(&NewPool { journal: Some(&others), ..copy }, write_index).unwrap();
    second.delete("main").unwrap();
    first.open_pool("main", None).unwrap();
}

#[test]
fn remains_elsewhere_are_removed() {
    let scratch = Scratch::new();
    let disk = disk(&scratch);
    let (directory, pool) = beside(&scratch, "data", 0xab, &disk);
    let root = directory.root().to_owned();
    drop(directory);
    for stopped in [".new-fast.00000000000000ab", ".deleted-fast.00000000000000ab"] {
        for has_files in [true, false] {
            let directory = Directory::open(&root).unwrap();
            directory.create(&pool, nothing).unwrap();
            drop(directory);
            let pools = root.join(POOLS);
            fs::remove_file(pools.join(".pool-fast")).unwrap();
            fs::rename(pools.join("fast"), pools.join(stopped)).unwrap();
            if !has_files {
                fs::remove_dir_all(disk.join("fast")).unwrap();
                fs::create_dir(disk.join("fast")).unwrap();
            }
            drop(Directory::open(&root).unwrap());
            assert!(names_in(&pools).unwrap().is_empty() && names_in(&disk).unwrap().is_empty());
        }
    }
}

#[test]
fn of_two_pools_that_are_created_at_one_place_one_is_made() {
    let scratch = Scratch::new();
    let disk = disk(&scratch);
    let (first, one) = beside(&scratch, "first", 1, &disk);
    let (second, other) = beside(&scratch, "second", 2, &disk);
    for _ in 0..20 {
        let made = std::thread::scope(|scope| {
            let first = scope.spawn(|| first.create(&one, nothing));
            [second.create(&other, nothing), first.join().unwrap()]
        });
        assert_eq!(made.iter().filter(|made| made.is_ok()).count(), 1, "{made:?}");
        let refused = made.iter().find_map(|made| made.as_ref().err()).unwrap();
        assert_eq!(refused.kind(), ErrorKind::Exists, "{refused}");
        let winner = if made[0].is_ok() { &second } else { &first };
        drop(winner.open_pool("fast", None).unwrap());
        winner.delete("fast").unwrap();
        assert!(names_in(&disk).unwrap().is_empty());
    }
}

#[test]
fn a_pool_that_is_gone_for_good_can_be_replaced() {
    let scratch = Scratch::new();
    let disk = disk(&scratch);
    let (directory, pool) = beside(&scratch, "data", 1, &disk);
    directory.create(&pool, nothing).unwrap();
    assert!(!directory.is_missing("fast"));
    assert_eq!(directory.delete_missing("fast").unwrap_err().kind(), ErrorKind::Exists);
    fs::remove_dir_all(disk.join("fast")).unwrap();
    let error = directory.create(&pool, nothing).unwrap_err().to_string();
    let link = directory.root().join("pools/fast");
    let place = format!("{}, a link to {}, has none", link.display(), disk.join("fast").display());
    assert!(error.contains(&place), "{error}");
    let command = format!("`holdfast pool delete {} fast --with-volumes`", directory.root().display());
    assert!(error.ends_with(&command), "{error}");
    assert!(directory.is_missing("fast"));
    directory.delete_missing("fast").unwrap();
    assert!(names_in(&directory.root().join(POOLS)).unwrap().is_empty());
    directory.create(&new("fast"), nothing).unwrap();
    drop(directory.open_pool("fast", None).unwrap());
    directory.delete("fast").unwrap();
}

#[test]
fn the_files_of_a_pool_that_is_deleted_while_missing_stay() {
    let scratch = Scratch::new();
    let disk = disk(&scratch);
    let (directory, pool) = beside(&scratch, "data", 1, &disk);
    directory.create(&pool, nothing).unwrap();
    // A file system that is not mounted.
    let away = scratch.path().join("away");
    fs::rename(&disk, &away).unwrap();
    directory.delete_missing("fast").unwrap();
    assert_eq!(directory.delete_missing("fast").unwrap_err().kind(), ErrorKind::NotFound);
    fs::rename(&away, &disk).unwrap();
    assert!(directory.pools().unwrap().is_empty() && !directory.is_missing("fast"));
    assert!(disk.join("fast/format").exists());
    assert_eq!(directory.create(&pool, nothing).unwrap_err().kind(), ErrorKind::Exists);
}

#[test]
fn an_interrupted_deletion_of_a_missing_pool_leaves_it_missing() {
    let scratch = Scratch::new();
    let disk = disk(&scratch);
    let (directory, pool) = beside(&scratch, "data", 1, &disk);
    directory.create(&pool, nothing).unwrap();
    fs::remove_dir_all(&disk).unwrap();
    fs::remove_file(directory.root().join("pools/fast")).unwrap();
    let root = directory.root().to_owned();
    drop(directory);
    let directory = Directory::open(&root).unwrap();
    assert!(directory.is_missing("fast"));
    directory.delete_missing("fast").unwrap();
    assert!(names_in(&root.join(POOLS)).unwrap().is_empty());
}

/// What may be in place of a pool's `format`, and cannot be read.
fn damage_format(pool: &Path, how: &str) {
    let format = pool.join(names::FORMAT);
    fs::remove_file(&format).unwrap();
    match how {
        "nonsense" => fs::write(&format, b"nonsense").unwrap(),
        "directory" => fs::create_dir(&format).unwrap(),
        _ => {}
    }
}

#[test]
fn a_pool_whose_format_cannot_be_read_is_deleted_and_files_elsewhere_stay() {
    for how in ["nonsense", "directory", "missing"] {
        let scratch = Scratch::new();
        let (disk, journals) = (disk(&scratch), scratch.path().join("journals"));
        let (directory, pool) = beside(&scratch, "data", 1, &disk);
        directory.create(&pool, nothing).unwrap();
        let logged = NewPool { journal: Some(&journals), ..new("logged") };
        directory.create(&logged, nothing).unwrap();
        let pools = directory.root().join(POOLS);
        damage_format(&disk.join("fast"), how);
        damage_format(&pools.join("logged"), how);
        assert!(directory.open_pool("fast", None).is_err() && !directory.is_missing("fast"));
        directory.delete("fast").unwrap();
        directory.delete("logged").unwrap();
        assert!(names_in(&pools).unwrap().is_empty(), "{how}");
        assert!(disk.join("fast/index").exists() && journals.join("logged/owner").exists(), "{how}");
        directory.create(&new("fast"), nothing).unwrap();
    }
    let (scratch, directory) = with_main();
    fs::write(scratch.path().join("pools/main/format"), "holdfast pool format 9\n").unwrap();
    assert_eq!(directory.delete("main").unwrap_err().kind(), ErrorKind::WrongFormat);
}

#[test]
fn a_directory_that_is_in_the_way_of_a_journal_stays() {
    let scratch = Scratch::new();
    let elsewhere = scratch.path().join("fast");
    fs::create_dir_all(elsewhere.join("main")).unwrap();
    let directory = Directory::open_or_create(&scratch.path().join("data")).unwrap();
    let new = NewPool { journal: Some(&elsewhere), ..new("main") };
    assert_eq!(directory.create(&new, nothing).unwrap_err().kind(), ErrorKind::Journal);
    assert!(elsewhere.join("main").exists());
    assert!(names_in(&directory.root().join(POOLS)).unwrap().is_empty());
}

#[test]
fn an_external_journal_is_recorded_and_can_be_moved() {
    let scratch = Scratch::new();
    let (fast, moved) = (scratch.path().join("fast"), scratch.path().join("moved"));
    let root = scratch.path().join("data");
    let directory = Directory::open_or_create(&root).unwrap();
    directory.create(&NewPool { journal: Some(&fast), ..new("main") }, nothing).unwrap();
    assert!(fast.join("main/0000").exists() && !root.join("pools/main/journal").exists());
    let open = |journal| directory.open_pool("main", journal);
    assert_eq!(open(None).unwrap().journal(), fs::canonicalize(fast.join("main")).unwrap());
    assert!(open(Some(&fast)).is_ok());

    fs::rename(&fast, &moved).unwrap();
    let error = open(None).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Journal);
    assert!(error.to_string().contains("missing"), "{error}");
    check_pool(&root, "main", Some(&moved)).unwrap();
    assert!(check_pool(&root, "main", None).is_err(), "a check records nothing");
    assert!(open(Some(&moved)).is_ok());
    assert!(open(None).is_ok(), "the new place is remembered");

    fs::write(moved.join("main/owner"), "journal of pool 0000000000000001\n").unwrap();
    let error = open(None).err().unwrap();
    assert!(error.to_string().contains("belongs to another pool"), "{error}");
    directory.delete("main").unwrap();
    assert!(moved.join("main").exists(), "another pool's journal stays");
}

#[test]
fn a_directory_for_an_internal_journal_is_refused() {
    let (scratch, directory) = with_main();
    let error = directory.open_pool("main", Some(scratch.path())).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Journal);
    let error = check_pool(scratch.path(), "main", Some(scratch.path())).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Journal);
    check_pool(scratch.path(), "main", None).unwrap();
}

#[test]
fn another_format_version_is_refused() {
    let (scratch, directory) = with_main();
    let format = scratch.path().join("pools/main/format");
    fs::write(format, "holdfast pool format 9\n").unwrap();
    let error = directory.open_pool("main", None).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::WrongFormat);
    assert!(error.to_string().contains("format version 9"), "{error}");
}

#[test]
fn a_volume_whose_directory_is_empty_or_gone_is_missed() {
    let scratch = Scratch::new();
    let elsewhere = scratch.path().join("elsewhere");
    let root = scratch.path().join("data");
    let directory = Directory::open_or_create(&root).unwrap();
    directory.create(&new("main"), nothing).unwrap();
    directory.create(&new("data"), nothing).unwrap();
    let pool = root.join("pools/data");
    let is_missed = || {
        assert_eq!(list(&root).unwrap(), ["data", "main"]);
        assert!(directory.strays().unwrap().is_empty());
        let error = directory.open_pool("data", None).err().unwrap();
        assert!(error.to_string().contains("\"data\" is missing"), "{error}");
        assert!(directory.create(&new("data"), nothing).is_err());
    };
    fs::rename(&pool, &elsewhere).unwrap();
    is_missed();
    fs::create_dir(&pool).unwrap();
    is_missed();
    fs::remove_dir(&pool).unwrap();
    std::os::unix::fs::symlink("missing", &pool).unwrap();
    is_missed();
    fs::remove_file(&pool).unwrap();
    fs::rename(&elsewhere, &pool).unwrap();
    assert!(directory.open_pool("data", None).is_ok());

    fs::remove_dir_all(&pool).unwrap();
    assert_eq!(directory.delete("data").unwrap_err().kind(), ErrorKind::NotFound);
    directory.delete_missing("data").unwrap();
    assert_eq!(list(&root).unwrap(), ["main"]);
    directory.create(&new("data"), nothing).unwrap();
    directory.delete("data").unwrap();
    assert_eq!(list(&root).unwrap(), ["main"]);
}

#[test]
fn a_volume_without_a_marker_gets_one_when_the_data_directory_is_opened() {
    let (scratch, directory) = with_main();
    drop(directory);
    let marker = scratch.path().join("pools/.pool-main");
    fs::remove_file(&marker).unwrap();
    drop(Directory::open(scratch.path()).unwrap());
    assert!(marker.exists());
}

#[test]
fn a_directory_with_other_files_is_refused_and_left_alone() {
    for other in ["notes.txt", ".profile", "pools"] {
        let scratch = Scratch::new();
        let root = scratch.path();
        // Other software, Docker for instance, has folders named `pools` too.
        fs::create_dir_all(root.join(other).join("theirs")).unwrap();
        let errors = [
            Directory::open_or_create(root).unwrap_err(),
            Directory::open(root).unwrap_err(),
            list(root).unwrap_err(),
            list_or_none(root).unwrap_err(),
            describe(root, "main").unwrap_err(),
        ];
        for error in errors {
            assert_eq!(error.kind(), ErrorKind::Foreign, "{other}: {error}");
            let said = error.to_string();
            assert!(said.contains("has other files") && !said.contains("holdfast serve"), "{said}");
        }
        assert_eq!(names_in(root).unwrap(), [other]);
        assert_eq!(names_in(&root.join(other)).unwrap(), ["theirs"]);
    }
    let scratch = Scratch::new();
    let file = scratch.path().join("file");
    fs::write(&file, b"").unwrap();
    let error = Directory::open_or_create(&file).unwrap_err();
    assert!(error.to_string().contains("is not a directory"), "{error}");
}

#[test]
fn an_empty_file_system_becomes_a_data_directory() {
    let scratch = Scratch::new();
    let root = scratch.path();
    assert!(list_or_none(root).unwrap().is_empty());
    fs::create_dir(root.join("lost+found")).unwrap();
    assert!(list_or_none(root).unwrap().is_empty());
    assert_eq!(Directory::open(root).unwrap_err().kind(), ErrorKind::NotFound);
    drop(Directory::open_or_create(root).unwrap());
    assert!(list(root).unwrap().is_empty());
}

#[test]
fn a_data_directory_is_known_by_its_volumes_without_its_lock() {
    let scratch = Scratch::new();
    let root = scratch.path();
    // As a crash during creation leaves it.
    fs::create_dir(root.join("pools")).unwrap();
    let directory = Directory::open_or_create(root).unwrap();
    directory.create(&new("main"), nothing).unwrap();
    drop(directory);
    // As a backup that leaves out lock files restores it, beside other files.
    fs::remove_file(root.join("lock")).unwrap();
    fs::write(root.join("notes.txt"), b"").unwrap();
    assert_eq!(list(root).unwrap(), ["main"]);
    assert!(Directory::open_or_create(root).is_ok());
}

#[test]
fn a_volume_that_its_device_cannot_hold_is_refused_before_anything_is_written() {
    let scratch = Scratch::new();
    let directory = Directory::open_or_create(scratch.path()).unwrap();
    let status = rustix::fs::statvfs(scratch.path()).unwrap();
    let files = status.f_bavail * status.f_frsize / LOG_FILE_BYTES;
    if !JOURNAL_FILES.contains(&files) {
        // A journal that fills this device would be refused for its size.
        return;
    }
    let large = NewPool { journal_bytes: files * LOG_FILE_BYTES, ..new("main") };
    assert_eq!(directory.create(&large, nothing).unwrap_err().kind(), ErrorKind::Full);
    let elsewhere = scratch.path().join("fast");
    let large = NewPool { journal: Some(&elsewhere), ..large };
    assert_eq!(directory.create(&large, nothing).unwrap_err().kind(), ErrorKind::Full);
    let later = scratch.path().join("later/data");
    assert_eq!(check_new(&later, &large).unwrap_err().kind(), ErrorKind::Full);
    check_new(&later, &new("main")).unwrap();
    fs::create_dir_all(later.join("pools/.new-main")).unwrap();
    check_new(&later, &large).expect("what is deleted first may make room");
    fs::remove_dir_all(scratch.path().join("later")).unwrap();
    assert!(!elsewhere.exists() && !later.exists());
    assert!(names_in(&scratch.path().join(POOLS)).unwrap().is_empty());
}

/// Returns the paths below `directory` to which others have rights.
fn reachable(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if fs::symlink_metadata(&path).unwrap().permissions().mode() & 0o077 != 0 {
            found.push(path.clone());
        }
        if path.is_dir() {
            found.extend(reachable(&path));
        }
    }
    found
}

#[test]
fn only_their_owner_reaches_the_files_of_volumes() {
    let scratch = Scratch::new();
    let (root, journals) = (scratch.path().join("data"), scratch.path().join("journals"));
    // As mkdir(1) creates it.
    fs::create_dir(&root).unwrap();
    fs::set_permissions(&root, fs::Permissions::from_mode(0o755)).unwrap();
    let directory = Directory::open_or_create(&root).unwrap();
    directory.create(&new("main"), write_index).unwrap();
    directory.create(&NewPool { journal: Some(&journals), ..new("fast") }, write_index).unwrap();
    let media = directory.open_pool("main", None).unwrap();
    media.create_blob(volume::ids::SegmentId(1), 1 << 20).unwrap();
    assert_eq!(fs::metadata(&root).unwrap().permissions().mode() & 0o7777, 0o700);
    assert_eq!(reachable(&root), Vec::<PathBuf>::new());
    assert_eq!(reachable(&journals), Vec::<PathBuf>::new());
    drop((media, directory));
    // Older releases, or a careless chmod -R, left wider modes.
    let journal = journals.join("fast");
    for path in [&root, &root.join("pools/main"), &root.join("pools/main/index"), &journal] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o777)).unwrap();
    }
    let stray = root.join("pools/stray");
    fs::write(&stray, b"of somebody else").unwrap();
    fs::set_permissions(&stray, fs::Permissions::from_mode(0o644)).unwrap();
    let directory = Directory::open(&root).unwrap();
    drop(directory.open_pool("fast", None).unwrap());
    assert_eq!(fs::metadata(&root).unwrap().permissions().mode() & 0o7777, 0o700);
    assert_eq!(reachable(&root), [stray]);
    assert_eq!(reachable(&journals), Vec::<PathBuf>::new());
}

#[test]
fn a_data_directory_of_another_user_is_refused() {
    // Only root can give a directory away.
    if !rustix::process::geteuid().is_root() {
        println!("not run as root: nothing was tested");
        return;
    }
    let scratch = Scratch::new();
    let root = scratch.path().join("data");
    drop(Directory::open_or_create(&root).unwrap());
    std::os::unix::fs::chown(&root, Some(4711), None).unwrap();
    let error = Directory::open(&root).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Owner);
    assert!(error.to_string().contains("sudo -u '#4711'"), "{error}");
}
