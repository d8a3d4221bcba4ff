-- Schedules: jobs at the times of a cron pattern. A schedule waits for its tick `next_run`; whoever makes it moves the row
-- on in the same transaction, so no tick is made twice, and `last_run` only rises, also where clocks go back. `catch_up`
-- is `once`, `once(3600s)`, `all(24)` or `skip`.
CREATE TABLE scheduled_jobs (
    id TEXT PRIMARY KEY CHECK (length(CAST(id AS BLOB)) BETWEEN 1 AND 64),     -- its name
    job_type TEXT NOT NULL CHECK (length(CAST(job_type AS BLOB)) BETWEEN 1 AND 64),
    payload TEXT NOT NULL,
    cron_expr TEXT NOT NULL,                        -- '0 */5 * * * *': every 5 minutes
    last_run INTEGER,
    next_run INTEGER NOT NULL,
    enabled INTEGER NOT NULL DEFAULT 1 CHECK (enabled IN (0, 1)),
    tz TEXT NOT NULL DEFAULT 'UTC',
    catch_up TEXT NOT NULL DEFAULT 'once',
    overlap TEXT NOT NULL DEFAULT 'allow' CHECK (overlap IN ('allow', 'skip')),
    source TEXT NOT NULL DEFAULT 'dynamic' CHECK (source IN ('attribute', 'dynamic')),
    options TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(options)), -- what its jobs are enqueued with
    last_job INTEGER,                               -- its latest job, and when that was enqueued
    last_job_at INTEGER,
    skipped INTEGER NOT NULL DEFAULT 0,             -- ticks without a job, since an earlier one's was live
    error TEXT,                                     -- why it can't tick, until it can
    created_at INTEGER NOT NULL DEFAULT 0,
    updated_at INTEGER NOT NULL DEFAULT 0
) STRICT;
-- For due_schedules: what ticks next.
CREATE INDEX scheduled_jobs_next ON scheduled_jobs (next_run, id) WHERE enabled = 1;

-- The latest ticks of each schedule and their jobs, for people. `job` NULL: skipped for one that was live.
CREATE TABLE jobq_ticks (
    schedule TEXT NOT NULL REFERENCES scheduled_jobs (id) ON DELETE CASCADE ON UPDATE CASCADE,
    tick INTEGER NOT NULL,
    job INTEGER,
    job_at INTEGER,
    PRIMARY KEY (schedule, tick)
) STRICT, WITHOUT ROWID;
