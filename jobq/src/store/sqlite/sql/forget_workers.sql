-- Drops workers that have been gone for a day and hold no running job. ?1 now ms.
DELETE FROM jobq_workers WHERE gone_at <= ?1 - 86400000
AND NOT EXISTS (SELECT 1 FROM jobs j INDEXED BY jobs_held WHERE j.worker = jobq_workers.id AND j.state = 2)
