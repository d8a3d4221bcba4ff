-- The job that holds a unique key, by jobs_unique. ?1 key, ?2 its scope.
SELECT h.id, h.created_at, h.state, h.unique_holds, h.unique_until, l.job_type
FROM jobs h INDEXED BY jobs_unique CROSS JOIN jobq_lanes l ON l.id = h.lane
WHERE h.unique_key = ?1 AND h.unique_scope = ?2
    AND ((h.unique_holds >> h.state) & 1 OR (h.unique_until IS NOT NULL AND h.state < 4))
