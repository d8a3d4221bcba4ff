-- Edge enqueue: as many jobs as the last line, a job's row, is repeated. Its values: id, lane, state (0 or 1), priority,
-- run_at ms, max_attempts, timeout ms, retain ms, backoff JSON, label, payload, version
-- (NULL: 1), twice now ms, concurrency key, and the lane where it is parked (0: it is not).
INSERT INTO jobs (id, lane, state, priority, run_at, max_attempts, timeout, retain, backoff, label, payload, version,
    created_at, updated_at, concurrency_key, held)
VALUES
(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
