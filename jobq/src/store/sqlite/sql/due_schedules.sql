-- The schedules whose tick is due, by it and by name. ?1 now ms.
SELECT id, job_type, payload, cron_expr, tz, catch_up, overlap, source, options, last_run, next_run, enabled, last_job,
    last_job_at, skipped, error, created_at, updated_at, version
FROM scheduled_jobs INDEXED BY scheduled_jobs_next WHERE enabled = 1 AND next_run <= ?1 ORDER BY next_run, id
