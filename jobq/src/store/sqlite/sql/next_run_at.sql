-- The earliest scheduled job.
SELECT run_at FROM jobs INDEXED BY jobs_due WHERE state = 0 ORDER BY run_at LIMIT 1
