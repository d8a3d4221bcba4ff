-- Edge claim: one job. ?1 id, ?2 worker, ?3 now ms.
UPDATE jobs SET state = 2, lease = lease + 1, attempts = attempts + 1, worker = ?2, started_at = ?3, updated_at = ?3
WHERE id = ?1 AND state = 1
RETURNING created_at, lease, lane, attempts, max_attempts, priority, run_at, timeout, backoff, payload
