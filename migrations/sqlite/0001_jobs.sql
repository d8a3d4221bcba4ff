-- The tables. Instants are Unix milliseconds UTC; durations are milliseconds; states and outcomes are the numbers
-- of state.rs and job.rs. `jobs_view` (0002) shows all of it in words.

-- One row: the tag that this database's job ids carry, so that an id of another database is not mistaken for ours.
CREATE TABLE jobq_store (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    tag INTEGER NOT NULL CHECK (tag BETWEEN 0 AND 67108863)
) STRICT;
INSERT INTO jobq_store (one, tag) VALUES (1, random() & 67108863);

-- A lane is one (queue, job_type). Lanes are never deleted. A claim merges the heads of the lanes that its worker
-- knows, so what nobody knows, or nobody may run, costs nothing.
CREATE TABLE jobq_lanes (
    id INTEGER PRIMARY KEY,
    queue TEXT NOT NULL CHECK (length(CAST(queue AS BLOB)) BETWEEN 1 AND 64),
    job_type TEXT NOT NULL CHECK (length(CAST(job_type AS BLOB)) BETWEEN 1 AND 64),
    UNIQUE (queue, job_type)
) STRICT;

CREATE TABLE jobs (
    id INTEGER PRIMARY KEY AUTOINCREMENT CHECK (id BETWEEN 1 AND 281474976710655),
    lane INTEGER NOT NULL REFERENCES jobq_lanes (id),
    state INTEGER NOT NULL CHECK (state BETWEEN 0 AND 5),
    priority INTEGER NOT NULL CHECK (priority BETWEEN -32768 AND 32767),
    run_at INTEGER NOT NULL,
    attempts INTEGER NOT NULL DEFAULT 0 CHECK (attempts BETWEEN 0 AND max_attempts),
    max_attempts INTEGER NOT NULL CHECK (max_attempts BETWEEN 1 AND 4294967295),
    lease INTEGER NOT NULL DEFAULT 0 CHECK (lease >= 0),
    worker INTEGER,
    started_at INTEGER,
    completed_at INTEGER,
    created_at INTEGER NOT NULL CHECK (created_at BETWEEN 0 AND 281474976710655),
    updated_at INTEGER NOT NULL,
    timeout INTEGER CHECK (timeout >= 0),           -- NULL: as the worker says; 0: none
    retain INTEGER CHECK (retain >= 0),             -- NULL: as the queue says
    backoff TEXT CHECK (backoff IS NULL OR json_valid(backoff)), -- NULL: as the job type says
    label TEXT CHECK (length(label) <= 255),
    processed_items INTEGER,
    total_items INTEGER,
    payload TEXT NOT NULL,
    result TEXT,
    error TEXT,
    CHECK (state > 1 OR attempts < max_attempts),
    CHECK (state <> 2 OR (lease > 0 AND attempts > 0 AND worker IS NOT NULL AND started_at IS NOT NULL)),
    CHECK ((state >= 3) = (completed_at IS NOT NULL))
) STRICT;

-- For claim: the heads of one lane.
CREATE INDEX jobs_ready ON jobs (lane, priority DESC, run_at) WHERE state = 1;
-- For promote and due: the next scheduled jobs.
CREATE INDEX jobs_due ON jobs (run_at) WHERE state = 0;
-- For rescue and the lost-lease check: what a worker holds.
CREATE INDEX jobs_held ON jobs (worker) WHERE state = 2;

-- Every attempt that did not complete; a completed one is its job's own row until the job is retried.
CREATE TABLE jobq_attempts (
    job INTEGER NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    lease INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    worker INTEGER,
    started_at INTEGER NOT NULL,
    ended_at INTEGER NOT NULL,
    outcome INTEGER NOT NULL CHECK (outcome BETWEEN 1 AND 9),
    error TEXT,
    late_at INTEGER,                                -- a result that came after the lease was lost
    late_outcome INTEGER CHECK (late_outcome BETWEEN 1 AND 9),
    late_text TEXT,
    PRIMARY KEY (job, lease)
) STRICT, WITHOUT ROWID;

-- What a job wrote while it ran, line by line.
CREATE TABLE jobq_output (
    job INTEGER NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    lease INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    at INTEGER NOT NULL,
    level INTEGER NOT NULL,
    line TEXT NOT NULL,
    PRIMARY KEY (job, lease, seq)
) STRICT, WITHOUT ROWID;

-- One row per start of a worker. `boot`, `lock_device` and `lock_inode` say where its process's lock is to be looked
-- for; `gone_at` is set when it signed out or was given up.
CREATE TABLE jobq_workers (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    host TEXT NOT NULL,
    boot TEXT NOT NULL,
    pid INTEGER NOT NULL,
    build TEXT NOT NULL,
    queues TEXT NOT NULL,
    lock_device INTEGER NOT NULL,
    lock_inode INTEGER NOT NULL,
    beats INTEGER NOT NULL DEFAULT 0,
    heartbeat_at INTEGER NOT NULL,
    started_at INTEGER NOT NULL,
    gone_at INTEGER
) STRICT;
