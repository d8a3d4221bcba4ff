//! Opening: what is created, what is refused and in which words, what old and new builds do to one file.

use super::*;
use nix::unistd::{Gid, Uid};
use std::{fs, os::unix::fs::PermissionsExt, path::Path};

async fn refusal(options: SqliteOptions) -> StoreError {
    match SqliteStore::open(options).await {
        Ok(store) => panic!("{} was opened", store.describe()),
        Err(error) => error,
    }
}

fn assert_names(error: &StoreError, path: &Path, words: &str) {
    let text = error.to_string();
    assert!(matches!(error, StoreError::Unusable { .. }), "{error:?}");
    assert!(path.is_absolute() && text.contains(&*path.to_string_lossy()), "{text} names {}", path.display());
    assert!(text.contains(words), "{text}");
}

fn files_in(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(dir).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
    names.sort_unstable();
    names
}

#[tokio::test]
async fn what_cannot_be_opened_is_named_with_its_full_path_and_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path().canonicalize().unwrap();
    let missing = home.join("no/such/app.db");
    assert_names(&refusal(SqliteOptions::new(&missing)).await, &missing, "directory does not exist");
    assert_names(&refusal(SqliteOptions::new(&home)).await, &home, "is a directory");
    let absent = home.join("absent.db");
    assert_names(&refusal(SqliteOptions::new(&absent).create(false)).await, &absent, "no such file");
    let text = home.join("notes.txt");
    fs::write(&text, "Dear diary, this is a text of more than a hundred bytes. ".repeat(20)).unwrap();
    assert_names(&refusal(SqliteOptions::new(&text)).await, &text, "not a SQLite database");
    assert_eq!(files_in(&home), ["notes.txt"], "nothing was created on the way");
    assert!(fs::read_to_string(&text).unwrap().starts_with("Dear diary"));

    // A relative path is named in full too.
    let relative = Path::new("no-such-folder-here/app.db");
    let full = std::env::current_dir().unwrap().join(relative);
    assert_names(&refusal(SqliteOptions::new(relative)).await, &full, "create that first");
}

#[test]
fn databases_in_memory_and_urls_of_others_are_refused_in_words() {
    let cases = [
        (":memory:", "MemoryStore"),
        ("sqlite::memory:", "MemoryStore"),
        ("sqlite://:memory:", "MemoryStore"),
        ("sqlite://app.db?mode=memory", "MemoryStore"),
        ("file:app.db", "plain file"),
        ("", "name the database file"),
        ("sqlite:", "name the database file"),
        ("sqlite://app.db?mode=sideways", "mode"),
        ("postgres://localhost/app", "sqlite://"),
        ("mysql://localhost/app", "sqlite://"),
    ];
    for (text, words) in cases {
        let error =
            SqliteOptions::from_url_or_path(text).err().unwrap_or_else(|| panic!("{text:?} was taken"));
        let error = error.to_string();
        assert!(error.starts_with(&format!("{text:?}: ")) && error.contains(words), "{text:?}: {error}");
    }
}

#[tokio::test]
async fn paths_and_urls_of_one_file_open_the_same_database() {
    let site = Site::new().await;
    let path = site.path.display();
    let link = site.dir.path().join("link.db");
    std::os::unix::fs::symlink(&site.path, &link).unwrap();
    for text in [
        format!("{path}"),
        format!("sqlite://{path}"),
        format!("sqlite:{path}?mode=rwc"),
        link.display().to_string(),
    ] {
        let store = SqliteStore::open(SqliteOptions::from_url_or_path(&text).unwrap()).await.unwrap();
        assert_eq!(store.path(), site.path, "{text}");
        assert_eq!(all(&store).await, std::slice::from_ref(&site.bystander), "{text}");
    }
    // A link to a file that is still to be created leads there too.
    let (new, new_link) = (site.path.with_file_name("new.db"), site.path.with_file_name("new-link.db"));
    std::os::unix::fs::symlink(&new, &new_link).unwrap();
    let store = SqliteStore::open(SqliteOptions::new(&new_link)).await.unwrap();
    assert_eq!(store.path(), new);
    assert_eq!(files_in(site.dir.path()).iter().filter(|name| name.ends_with("-jobq")).count(), 2);
    site.is_well().await;
}

/// Runs `test` on a thread that root's powers do not reach: file permissions count there as for anyone.
fn without_powers(test: impl Future<Output = ()> + Send + 'static) {
    let run = move || {
        if Uid::effective().is_root() {
            nix::unistd::setfsgid(Gid::from_raw(65534));
            nix::unistd::setfsuid(Uid::from_raw(65534));
        }
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(test);
    };
    std::thread::spawn(run).join().unwrap();
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_read_only_directory_or_file_is_named_with_the_cure() {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path().canonicalize().unwrap();
    let path = home.join("app.db");
    set_mode(&home, 0o555);
    let new = path.clone();
    without_powers(async move {
        assert_names(&refusal(SqliteOptions::new(&new)).await, &new, "its directory");
    });
    assert_eq!(files_in(&home), [""; 0]);

    // A database of somebody else in it: readable, not writable.
    set_mode(&home, 0o755);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let lines = "PRAGMA journal_mode = WAL; CREATE TABLE users (id INTEGER PRIMARY KEY)";
    rusqlite::Connection::open(&path).unwrap().execute_batch(lines).unwrap();
    set_mode(&path, 0o444);
    set_mode(&home, 0o555);
    let old = path.clone();
    without_powers(async move {
        let error = refusal(SqliteOptions::new(&old)).await;
        assert_names(&error, &old, "directory");
    });
    set_mode(&home, 0o777);
    let old = path.clone();
    without_powers(async move {
        assert_names(&refusal(SqliteOptions::new(&old)).await, &old, "write");
    });
    set_mode(&path, 0o666);
    runtime.block_on(async move {
        let store = SqliteStore::open(SqliteOptions::new(&path)).await.unwrap();
        assert_eq!(all(&store).await, []);
    });
}

#[tokio::test]
async fn an_existing_database_is_never_created_by_chance() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().canonicalize().unwrap().join("app.db");
    assert_names(&refusal(SqliteOptions::new(&path).create(false)).await, &path, "no such file");
    assert_eq!(files_in(dir.path()), [""; 0]);
    drop(SqliteStore::open(SqliteOptions::new(&path)).await.unwrap());
    let store = SqliteStore::open(SqliteOptions::new(&path).create(false)).await.unwrap();
    assert_eq!(all(&store).await, []);
}

#[tokio::test]
async fn a_table_of_the_applications_with_our_name_is_refused_and_named() {
    for (name, lay) in [
        ("jobs", "CREATE TABLE jobs (id TEXT PRIMARY KEY, type TEXT)"),
        ("jobs_view", "CREATE VIEW jobs_view AS SELECT 1"),
        ("a_mod_queue_records", "CREATE TABLE a_mod_queue_records (label TEXT)"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().canonicalize().unwrap().join("app.db");
        let app = rusqlite::Connection::open(&path).unwrap();
        app.execute_batch(lay).unwrap();
        let error = refusal(SqliteOptions::new(&path)).await;
        assert_names(&error, &path, &format!("`{name}`"));
        assert_eq!(
            column::<String>(&app, "SELECT name FROM sqlite_schema WHERE name NOT LIKE 'sqlite%'"),
            [name]
        );
    }
}

#[tokio::test]
async fn the_applications_own_tables_and_its_sqlx_migrations_stay_as_they_are() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().canonicalize().unwrap().join("app.db");
    let app = rusqlite::Connection::open(&path).unwrap();
    app.execute_batch(
        "CREATE TABLE _sqlx_migrations (version BIGINT PRIMARY KEY); INSERT INTO _sqlx_migrations VALUES (7);
         CREATE TABLE users (id INTEGER PRIMARY KEY, name TEXT); INSERT INTO users VALUES (1, 'Ada')",
    )
    .unwrap();
    let store = SqliteStore::open(SqliteOptions::new(&path)).await.unwrap();
    soon(store.enqueue(jobs("a", 1), T0)).await.unwrap();
    assert_eq!(column::<i64>(&app, "SELECT version FROM _sqlx_migrations"), [7]);
    assert_eq!(column::<String>(&app, "SELECT name FROM users"), ["Ada"]);
}

/// The schema as text, white space and order of creation aside.
fn schema(path: &Path) -> Vec<String> {
    let db = rusqlite::Connection::open(path).unwrap();
    let dump =
        "SELECT type || ' ' || name || ' ' || coalesce(sql, '') FROM sqlite_schema ORDER BY type, name";
    let mut parts: Vec<String> = column(&db, dump);
    parts
        .extend(column::<String>(&db, "SELECT version || ' ' || name FROM jobq_migrations ORDER BY version"));
    parts
}

#[tokio::test]
async fn an_old_file_is_upgraded_with_its_rows_and_equals_a_fresh_one() {
    let dir = tempfile::tempdir().unwrap();
    let (old, fresh) = (dir.path().join("old.db"), dir.path().join("fresh.db"));
    crate::lay_old_file(&old, 1000).await;
    let old_build = rusqlite::Connection::open(&old).unwrap();
    old_build.busy_timeout(Duration::from_secs(10)).unwrap();
    let rows = || -> Vec<String> {
        let whole =
            "SELECT concat_ws(' ', id, lane, state, run_at, created_at, payload) FROM jobs ORDER BY id";
        column(&old_build, whole)
    };
    let before = rows();
    assert_eq!(before.len(), 1000);
    let new_build = SqliteStore::open(SqliteOptions::new(&old)).await.unwrap();
    drop(SqliteStore::open(SqliteOptions::new(&fresh)).await.unwrap());
    assert_eq!(schema(&old), schema(&fresh));
    assert_eq!(rows(), before);
    // The old build goes on beside the new one: the change is compatible.
    assert_eq!(old_build.execute(crate::OLD_JOBS, [1]).unwrap(), 1);
    let worker = sign_in(&new_build).await;
    assert_eq!(claim(&new_build, worker, &["a"], 2000).await.len(), 1001);
}

#[tokio::test]
async fn an_older_build_refuses_a_newer_file() {
    let site = Site::new().await;
    let error = refusal(SqliteOptions::new(&site.path).migrations(1)).await;
    assert_names(&error, &site.path, "use the newer build");
    assert!(error.to_string().contains("knows up to 1"), "{error}");
    site.raw().execute("INSERT INTO jobq_migrations VALUES (999, 'from the future', 0)", []).unwrap();
    let error = refusal(SqliteOptions::new(&site.path)).await;
    assert_names(&error, &site.path, "version 999");
    site.is_well().await;
}

/// The open of a program that is ended, or whose future is dropped, leaves nothing half done and no lock.
#[tokio::test]
async fn an_interrupted_open_is_finished_by_the_next() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("app.db");
    for _ in 0..20 {
        let mut opening = Box::pin(SqliteStore::open(SqliteOptions::new(&path)));
        tokio::select! {
            biased;
            _ = &mut opening => {}
            _ = tokio::task::yield_now() => {}
        }
    }
    let store = soon(SqliteStore::open(SqliteOptions::new(&path))).await.unwrap();
    assert_eq!(soon(store.enqueue(jobs("a", 1), T0)).await.unwrap().len(), 1);
    assert_eq!(
        column::<i64>(&rusqlite::Connection::open(&path).unwrap(), "SELECT count(*) FROM jobq_store"),
        [1]
    );
}

/// Many stores of one process open one empty file at once; the same with processes is in crash.rs.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn stores_that_open_an_empty_or_an_old_file_at_once_all_succeed() {
    for old in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("app.db");
        if old {
            crate::lay_old_file(&path, 0).await;
        }
        let opening: Vec<_> =
            (0..8).map(|_| tokio::spawn(SqliteStore::open(SqliteOptions::new(&path)))).collect();
        for (n, opened) in opening.into_iter().enumerate() {
            let store = soon(opened).await.unwrap().unwrap();
            soon(store.enqueue(vec![job("a", n)], T0)).await.unwrap();
        }
        let store = SqliteStore::open(SqliteOptions::new(&path)).await.unwrap();
        assert_eq!(all(&store).await.len(), 8);
        assert_eq!(
            column::<i64>(
                &rusqlite::Connection::open(&path).unwrap(),
                "SELECT count(*) FROM jobq_migrations"
            ),
            [crate::migrations()]
        );
    }
}

/// A large WAL, kept from being checkpointed by a reader, while another process writes: the open neither waits for it
/// nor forces it away.
#[tokio::test]
async fn a_large_wal_and_a_busy_peer_do_not_hold_up_the_open() {
    let site = Site::new().await;
    let db = site.raw();
    db.execute_batch(
        "PRAGMA wal_autocheckpoint = 0; CREATE TABLE ballast (bytes BLOB);
         WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100)
         INSERT INTO ballast SELECT zeroblob(1000000) FROM n",
    )
    .unwrap();
    let reader = site.raw();
    reader.execute_batch("BEGIN; SELECT count(*) FROM ballast").unwrap();
    let wal = site.path.with_file_name("app.db-wal");
    let before = fs::metadata(&wal).unwrap().len();
    assert!(before > 100_000_000, "{before}");
    let mut hog = crate::child::Child::start("hog", &[site.path.to_str().unwrap(), "15", "5"]);
    hog.expect("hogging");
    let store = soon(SqliteStore::open(SqliteOptions::new(&site.path))).await.unwrap();
    assert_eq!(soon(store.enqueue(jobs("a", 1), T0)).await.unwrap().len(), 1);
    assert!(fs::metadata(&wal).unwrap().len() >= before, "nobody truncated it under the reader");
    site.is_well().await;
}

/// A database that another program keeps in rollback mode and in use can't be switched: it waits, and then works.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_locked_in_rollback_mode_is_waited_for_and_then_in_wal_mode() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("app.db");
    let app = rusqlite::Connection::open(&path).unwrap();
    app.execute_batch("CREATE TABLE users (id INTEGER); BEGIN EXCLUSIVE; INSERT INTO users VALUES (1)")
        .unwrap();
    let opening = tokio::spawn(SqliteStore::open(SqliteOptions::new(&path)));
    tokio::task::yield_now().await;
    assert!(!opening.is_finished());
    app.execute_batch("COMMIT").unwrap();
    let store = soon(opening).await.unwrap().unwrap();
    assert_eq!(soon(store.enqueue(jobs("a", 1), T0)).await.unwrap().len(), 1);
    let seen_anew = rusqlite::Connection::open(&path).unwrap();
    assert_eq!(column::<String>(&seen_anew, "PRAGMA journal_mode"), ["wal"]);
    assert_eq!(column::<i64>(&seen_anew, "SELECT id FROM users"), [1]);
}
