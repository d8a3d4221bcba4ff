-- Edge enqueue, inside the caller's transaction: many jobs in one statement, in their order, since each statement on a
-- foreign connection costs a hand-over. Pending jobs with a concurrency key are parked: the writing thread sorts them when
-- it sees the commit. ?1 JSON array of [queue, job_type, state, priority, run_at, max_attempts, timeout, retain, backoff,
-- label, payload, unique key, its scope, states that hold it, end of its window, version, concurrency key], ?2 now ms, ?3 how
-- many row numbers are left out: a rollback gives numbers back, and the next job is not to have the name of one that was
-- never there. That nobody holds their unique keys was looked at before.
INSERT INTO jobs (id, lane, state, priority, run_at, max_attempts, timeout, retain, backoff, label, payload, created_at,
    updated_at, unique_key, unique_scope, unique_holds, unique_until, version, concurrency_key, held)
SELECT (SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'jobs') + 1 + ?3 + key,
    (SELECT id FROM jobq_lanes WHERE queue = value ->> 0 AND job_type = value ->> 1),
    value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6, value ->> 7, value ->> 8, value ->> 9,
    value ->> 10, ?2, ?2, value ->> 11, value ->> 12, value ->> 13, value ->> 14, value ->> 15, value ->> 16,
    CASE WHEN value ->> 16 IS NOT NULL AND value ->> 2 = 1
        THEN (SELECT id FROM jobq_lanes WHERE queue = value ->> 0 AND job_type = value ->> 1) ELSE 0 END
FROM json_each(?1)
