-- Limits: how many jobs run at once and how often one starts, over all processes.

-- Whose turn a job takes: its type, a tab, and the key; NULL: nobody's. Jobs of one such text are counted together.
ALTER TABLE jobs ADD COLUMN concurrency_key TEXT;
-- The job's lane, while a limit has its hand on the job; 0 else, so that SQLite finds in an index whose rows are all 0 what
-- the index does not hold. A pending job is parked by it: its key has its share, and no claim meets the job before its turn
-- comes. A running job is counted by it.
ALTER TABLE jobs ADD COLUMN held INTEGER NOT NULL DEFAULT 0;

-- For claim: the heads of one lane; without what is parked, however much that is.
DROP INDEX jobs_ready;
CREATE INDEX jobs_ready ON jobs (lane, priority DESC, run_at) WHERE state = 1 AND held = 0;
-- For the turns of a key: its jobs that run, those that may be claimed, and the parked ones of each lane in their order.
CREATE INDEX jobs_keyed ON jobs (concurrency_key, state, held, lane, priority DESC, run_at)
    WHERE concurrency_key IS NOT NULL AND (state = 1 OR state = 2);
-- For claim: how many jobs run in lanes with a limit.
CREATE INDEX jobs_counted ON jobs (held) WHERE state = 2 AND held > 0;

-- Limits. `kind` 0 is a queue, 1 a job type; `source` 0 is what the job type declares, 1 what somebody has set, and holds
-- instead. NULL: none. Rates are so many starts in so many milliseconds.
CREATE TABLE jobq_limits (
    kind INTEGER NOT NULL CHECK (kind IN (0, 1)),
    name TEXT NOT NULL CHECK (length(CAST(name AS BLOB)) BETWEEN 1 AND 64),
    source INTEGER NOT NULL CHECK (source IN (0, 1)),
    concurrency INTEGER CHECK (concurrency > 0),
    concurrency_per_key INTEGER CHECK (concurrency_per_key > 0),
    rate_starts INTEGER CHECK (rate_starts > 0),
    rate_per INTEGER CHECK (rate_per > 0),
    key_rate_starts INTEGER CHECK (key_rate_starts > 0),
    key_rate_per INTEGER CHECK (key_rate_per > 0),
    set_at INTEGER NOT NULL,
    PRIMARY KEY (kind, name, source)
) STRICT, WITHOUT ROWID;

-- Token buckets that are not full: of a queue (0), a job type (1), or a key as in `jobs` (2). One is full `full_at / parts`
-- milliseconds after 1970; one that has no row is full.
CREATE TABLE jobq_buckets (
    kind INTEGER NOT NULL CHECK (kind IN (0, 1, 2)),
    name TEXT NOT NULL,
    full_at INTEGER NOT NULL,
    parts INTEGER NOT NULL CHECK (parts > 0),
    PRIMARY KEY (kind, name)
) STRICT, WITHOUT ROWID;

-- Keys with parked jobs that are to be looked at again then: a token comes back, or jobs came in a caller's transaction.
CREATE TABLE jobq_turns (
    concurrency_key TEXT PRIMARY KEY,
    due_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX jobq_turns_due ON jobq_turns (due_at);

-- Job types whose limit for each key was changed: their keys after this one are still to be sorted by it.
CREATE TABLE jobq_resorts (
    job_type TEXT PRIMARY KEY,
    after TEXT NOT NULL
) STRICT, WITHOUT ROWID;
