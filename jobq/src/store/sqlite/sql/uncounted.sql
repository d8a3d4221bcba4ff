-- The running jobs that no limit counts yet: id, lane.
SELECT id, lane FROM jobs INDEXED BY jobs_held WHERE state = 2 AND held = 0
