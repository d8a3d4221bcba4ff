-- All lanes: id, queue, job_type, NULL. All pauses: their end ms, name, NULL, kind. And what there is of limits: 1 limits,
-- 2 types to be sorted anew, 4 keys to be looked at again, 8 jobs with a key, as a sum; NULL, NULL, 2.
SELECT id, queue, job_type, NULL FROM jobq_lanes
UNION ALL
SELECT ends_at, name, NULL, kind FROM jobq_pauses
UNION ALL
SELECT EXISTS (SELECT 1 FROM jobq_limits) + 2 * EXISTS (SELECT 1 FROM jobq_resorts) + 4 * EXISTS (SELECT 1 FROM jobq_turns)
    + 8 * EXISTS (SELECT 1 FROM jobs INDEXED BY jobs_keyed
        WHERE concurrency_key IS NOT NULL AND (state = 1 OR state = 2)),
    NULL, NULL, 2
