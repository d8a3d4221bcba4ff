-- The earliest tick that is still to come. ?1 now ms.
SELECT next_run FROM scheduled_jobs INDEXED BY scheduled_jobs_next WHERE enabled = 1 AND next_run > ?1 ORDER BY next_run LIMIT 1
