-- One step of a running job, after its lease was found to hold; what is recorded stays. ?1 id, ?2 lease, ?3 name,
-- ?4 result JSON, ?5 now ms, ?6 the most steps of a job.
INSERT INTO jobq_steps (job, name, result, lease, at) SELECT id, ?3, ?4, ?2, ?5 FROM jobs
WHERE id = ?1 AND (SELECT count(*) FROM jobq_steps WHERE job = ?1) < ?6
ON CONFLICT (job, name) DO NOTHING
