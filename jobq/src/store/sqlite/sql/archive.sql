-- The history row of an attempt that is about to leave `running` otherwise than completed; its fence is the edge's.
-- A lease that was set back by hand finds its row there already. ?1 id, ?2 lease, ?3 created_at ms, ?4 outcome, ?5 error, ?6 now ms.
INSERT INTO jobq_attempts (job, lease, attempt, worker, started_at, ended_at, outcome, error)
SELECT id, lease, attempts, worker, started_at, ?6, ?4, ?5 FROM jobs
WHERE id = ?1 AND lease = ?2 AND created_at = ?3 AND state = 2
ON CONFLICT (job, lease) DO UPDATE SET attempt = excluded.attempt, worker = excluded.worker,
    started_at = excluded.started_at, ended_at = excluded.ended_at, outcome = excluded.outcome, error = excluded.error
