-- The lanes in which a key has pending jobs: those with claimable ones, then those with parked ones, by leaps through the
-- index. ?1 key.
WITH RECURSIVE
    ready (lane) AS (
        SELECT (SELECT lane FROM jobs INDEXED BY jobs_keyed
            WHERE concurrency_key = ?1 AND state = 1 AND held = 0 ORDER BY lane LIMIT 1)
        UNION ALL
        SELECT (SELECT lane FROM jobs INDEXED BY jobs_keyed
            WHERE concurrency_key = ?1 AND state = 1 AND held = 0 AND lane > ready.lane ORDER BY lane LIMIT 1)
        FROM ready WHERE ready.lane IS NOT NULL
    ),
    parked (lane) AS (
        SELECT (SELECT held FROM jobs INDEXED BY jobs_keyed
            WHERE concurrency_key = ?1 AND state = 1 AND held > 0 ORDER BY held LIMIT 1)
        UNION ALL
        SELECT (SELECT held FROM jobs INDEXED BY jobs_keyed
            WHERE concurrency_key = ?1 AND state = 1 AND held > parked.lane ORDER BY held LIMIT 1)
        FROM parked WHERE parked.lane IS NOT NULL
    )
SELECT lane, 0 FROM ready WHERE lane IS NOT NULL
UNION ALL
SELECT lane, 1 FROM parked WHERE lane IS NOT NULL
