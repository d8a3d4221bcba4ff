-- The lanes that have a claimable job, by leaps through the index: it costs what they are, not what waits in them.
WITH RECURSIVE ready (lane) AS (
    SELECT (SELECT lane FROM jobs INDEXED BY jobs_ready WHERE state = 1 AND held = 0 ORDER BY lane LIMIT 1)
    UNION ALL
    SELECT (SELECT lane FROM jobs INDEXED BY jobs_ready WHERE state = 1 AND held = 0 AND lane > ready.lane
        ORDER BY lane LIMIT 1)
    FROM ready WHERE ready.lane IS NOT NULL
)
SELECT lane FROM ready WHERE lane IS NOT NULL
