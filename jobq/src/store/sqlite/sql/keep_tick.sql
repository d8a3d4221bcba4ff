-- Keeps a tick to be shown. ?1 schedule, ?2 tick ms, ?3 its job (NULL: skipped), ?4 when that was enqueued ms.
INSERT INTO jobq_ticks (schedule, tick, job, job_at) VALUES (?1, ?2, ?3, ?4)
