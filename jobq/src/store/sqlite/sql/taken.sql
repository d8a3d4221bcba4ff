-- A pending job as its claim will leave it, and whether it is parked. ?1 id.
SELECT created_at, lease + 1, lane, attempts + 1, max_attempts, priority, run_at, timeout, backoff, payload,
    version, concurrency_key, held, flow IS NOT NULL
FROM jobs WHERE id = ?1 AND state = 1
