-- The jobs that hold unique keys, for jobs enqueued in a caller's transaction, by jobs_unique; each with the place of its
-- key. ?1 JSON array of [key, scope].
SELECT h.id, h.created_at, h.state, h.unique_holds, h.unique_until, l.job_type, k.key
FROM json_each(?1) k CROSS JOIN jobs h INDEXED BY jobs_unique CROSS JOIN jobq_lanes l ON l.id = h.lane
WHERE h.unique_key = k.value ->> 0 AND h.unique_scope = k.value ->> 1
    AND ((h.unique_holds >> h.state) & 1 OR (h.unique_until IS NOT NULL AND h.state < 4))
