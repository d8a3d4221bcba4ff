-- Wishes that running jobs be cancelled, each for one lease: its holder sees it and ends the attempt, and any way out of
-- running but completed then is cancelled. A wish whose lease is over counts for nothing, and is dropped by a prune.
CREATE TABLE jobq_cancels (
    job INTEGER PRIMARY KEY REFERENCES jobs (id) ON DELETE CASCADE,
    lease INTEGER NOT NULL,
    asked_at INTEGER NOT NULL
) STRICT;
