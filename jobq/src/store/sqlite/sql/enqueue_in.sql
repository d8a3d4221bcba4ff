-- Edge enqueue, inside the caller's transaction: many jobs in one statement, in their order, since each statement on a
-- foreign connection costs a hand-over. ?1 JSON array of [queue, job_type, state, priority, run_at, max_attempts,
-- timeout, retain, backoff, label, payload], ?2 now ms.
INSERT INTO jobs (lane, state, priority, run_at, max_attempts, timeout, retain, backoff, label, payload, created_at,
    updated_at)
SELECT (SELECT id FROM jobq_lanes WHERE queue = value ->> 0 AND job_type = value ->> 1),
    value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6, value ->> 7, value ->> 8, value ->> 9,
    value ->> 10, ?2, ?2
FROM json_each(?1)
