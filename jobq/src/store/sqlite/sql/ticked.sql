-- Notes what a tick or a person gave a schedule. ?1 name, ?2 its job (NULL: skipped for one that is live), ?3 when that was
-- enqueued ms, ?4 now ms.
UPDATE scheduled_jobs SET last_job = coalesce(?2, last_job), last_job_at = coalesce(?3, last_job_at),
    skipped = skipped + (?2 IS NULL), updated_at = ?4
WHERE id = ?1
