-- The history row of a completed attempt, before its job is retried. ?1 id, ?2 created_at ms.
INSERT INTO jobq_attempts (job, lease, attempt, worker, started_at, ended_at, outcome)
SELECT id, lease, attempts, worker, started_at, completed_at, 1 FROM jobs
WHERE id = ?1 AND created_at = ?2 AND state = 3
