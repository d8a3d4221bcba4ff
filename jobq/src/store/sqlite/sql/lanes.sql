-- All lanes.
SELECT id, queue, job_type FROM jobq_lanes
