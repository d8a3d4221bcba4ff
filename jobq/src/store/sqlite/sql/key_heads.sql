-- The first claimable jobs of a key in one lane, in order. ?1 key, ?2 lane, ?3 limit.
SELECT id, priority, run_at FROM jobs INDEXED BY jobs_keyed
WHERE concurrency_key = ?1 AND state = 1 AND held = 0 AND lane = ?2 ORDER BY priority DESC, run_at, id LIMIT ?3
