-- The flow that a job is of, and as JSON what follows from its output; '' once that is enqueued. Both NULL for most jobs.
ALTER TABLE jobs ADD COLUMN flow INTEGER;
ALTER TABLE jobs ADD COLUMN links TEXT;
CREATE INDEX jobs_flow ON jobs (flow) WHERE flow IS NOT NULL;

-- Flows. `total` strands of work, each counted where it ended. When all have (`joined_at`), what `follow` says as JSON is
-- enqueued, in the flow `parent` where this one is a strand of that.
CREATE TABLE jobq_flows (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    total INTEGER NOT NULL CHECK (total >= 0),
    succeeded INTEGER NOT NULL DEFAULT 0 CHECK (succeeded >= 0),
    failed INTEGER NOT NULL DEFAULT 0 CHECK (failed >= 0),
    cancelled INTEGER NOT NULL DEFAULT 0 CHECK (cancelled >= 0),
    follow TEXT CHECK (follow IS NULL OR json_valid(follow)),
    parent INTEGER,
    created_at INTEGER NOT NULL,
    joined_at INTEGER
) STRICT;
CREATE INDEX jobq_flows_parent ON jobq_flows (parent) WHERE parent IS NOT NULL;
