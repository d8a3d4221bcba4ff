-- Edge claim: one job, after taken.sql has read it. Without RETURNING, which would cost a statement journal for each row.
-- ?1 id, ?2 worker, ?3 now ms, ?4 its lane, where a limit counts it, else 0.
UPDATE jobs SET state = 2, lease = lease + 1, attempts = attempts + 1, worker = ?2, started_at = ?3, updated_at = ?3,
    held = ?4
WHERE id = ?1 AND state = 1
