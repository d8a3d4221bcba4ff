-- The running jobs of one worker. ?1 worker.
SELECT j.id, j.created_at, j.lease, j.worker, l.job_type, j.attempts, j.max_attempts, j.backoff
FROM jobs j INDEXED BY jobs_held JOIN jobq_lanes l ON l.id = j.lane
WHERE j.worker = ?1 AND j.state = 2
