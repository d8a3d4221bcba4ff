-- The latest job of a schedule. ?1 name.
SELECT last_job, last_job_at FROM scheduled_jobs WHERE id = ?1
