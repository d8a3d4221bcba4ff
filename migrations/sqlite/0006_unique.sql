-- Unique keys. A job has at most one, for good; whether it holds it is worked out from its row, so no edge has to free
-- it: in the states of `unique_holds` (bit n is the state of number n) and, while `unique_until` is there, in every state
-- but dead and cancelled. An insert that meets a job which holds its key by a window that is over clears that window.
ALTER TABLE jobs ADD COLUMN unique_key TEXT;
ALTER TABLE jobs ADD COLUMN unique_scope TEXT;      -- the job type, type and queue on two lines, or '' for all jobs
ALTER TABLE jobs ADD COLUMN unique_holds INTEGER;
ALTER TABLE jobs ADD COLUMN unique_until INTEGER;   -- the end of its window

-- For enqueue: who holds a key. At most one does.
CREATE UNIQUE INDEX jobs_unique ON jobs (unique_key, unique_scope)
WHERE unique_key IS NOT NULL AND ((unique_holds >> state) & 1 OR (unique_until IS NOT NULL AND state < 4));
