-- All schedules, or the one of this name. ?1 name (NULL: all).
SELECT id, job_type, payload, cron_expr, tz, catch_up, overlap, source, options, last_run, next_run, enabled, last_job,
    last_job_at, skipped, error, created_at, updated_at, version
FROM scheduled_jobs WHERE ?1 IS NULL OR id = ?1 ORDER BY id
