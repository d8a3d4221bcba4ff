-- The scheduled jobs whose time has come, earliest first. ?1 now ms, ?2 limit.
SELECT id FROM jobs INDEXED BY jobs_due WHERE state = 0 AND run_at <= ?1 ORDER BY run_at, id LIMIT ?2
