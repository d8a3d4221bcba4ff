-- Lays a schedule, or changes the one of its name and source; one that waits by the same pattern keeps its tick. ?1 name,
-- ?2 job type, ?3 payload, ?4 pattern, ?5 zone, ?6 catch_up, ?7 overlap, ?8 source, ?9 options as JSON, ?10 its next tick
-- ms, ?11 enabled (NULL: as it is, and a new one is), ?12 now ms, ?13 version of the payload.
INSERT INTO scheduled_jobs (id, job_type, payload, cron_expr, tz, catch_up, overlap, source, options, next_run, enabled,
    created_at, updated_at, version)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, coalesce(?11, 1), ?12, ?12, ?13)
ON CONFLICT (id) DO UPDATE SET
    job_type = ?2, payload = ?3, cron_expr = ?4, tz = ?5, catch_up = ?6, overlap = ?7, options = ?9,
    next_run = CASE WHEN enabled AND cron_expr = ?4 AND tz = ?5 THEN next_run ELSE ?10 END,
    enabled = coalesce(?11, enabled), error = NULL, updated_at = ?12, version = ?13
WHERE source = ?8
