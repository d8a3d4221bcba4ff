-- Whether a lane has a claimable job. ?1 lane.
SELECT 1 FROM jobs INDEXED BY jobs_ready WHERE lane = ?1 AND state = 1 AND held = 0 LIMIT 1
