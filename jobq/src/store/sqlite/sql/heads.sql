-- The first claimable jobs of one lane, in order, from the index alone. ?1 lane, ?2 limit.
SELECT id, priority, run_at FROM jobs INDEXED BY jobs_ready
WHERE lane = ?1 AND state = 1 AND held = 0 ORDER BY priority DESC, run_at, id LIMIT ?2
