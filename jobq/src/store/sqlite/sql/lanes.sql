-- All lanes: id, queue, job_type, NULL. And all pauses: their end ms, name, NULL, kind.
SELECT id, queue, job_type, NULL FROM jobq_lanes
UNION ALL
SELECT ends_at, name, NULL, kind FROM jobq_pauses
