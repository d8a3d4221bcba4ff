-- What is wished or promised of running jobs, beside their rows, so that claims and completions pay nothing for it.

-- Wishes that running jobs be cancelled, each for one lease: its holder sees it and ends the attempt, and any way out of
-- running but completed then is cancelled. A wish whose lease is over counts for nothing, and is dropped by a prune.
CREATE TABLE jobq_cancels (
    job INTEGER PRIMARY KEY REFERENCES jobs (id) ON DELETE CASCADE,
    lease INTEGER NOT NULL,
    asked_at INTEGER NOT NULL
) STRICT;

-- Promises: completions that were laid in the application's own transaction, each for one lease. Any way out of running
-- then is completed, with this result; the store's own settle takes the row away.
CREATE TABLE jobq_promises (
    job INTEGER PRIMARY KEY REFERENCES jobs (id) ON DELETE CASCADE,
    lease INTEGER NOT NULL,
    result TEXT
) STRICT;
