-- Edge promote: the earliest due. ?1 now ms, ?2 limit.
UPDATE jobs SET state = 1, updated_at = ?1
WHERE id IN (SELECT id FROM jobs INDEXED BY jobs_due WHERE state = 0 AND run_at <= ?1 ORDER BY run_at, id LIMIT ?2)
