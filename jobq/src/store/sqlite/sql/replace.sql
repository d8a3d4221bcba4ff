-- What a waiting job takes over from one that has its unique key and is not stored. ?1 id, ?2 which fields, as bits (see
-- JobField of job/unique.rs), ?3 payload, ?4 label, ?5 run_at ms, ?6 state for it (0 or 1), ?7 priority, ?8 queue,
-- ?9 job_type, ?10 max_attempts, ?11 timeout ms, ?12 backoff JSON, ?13 retain ms, ?14 now ms, ?15 version, ?16 concurrency key.
-- Its turn is worked out anew.
UPDATE jobs SET
    payload = CASE WHEN ?2 & 1 THEN ?3 ELSE payload END,
    version = CASE WHEN ?2 & 1 THEN ?15 ELSE version END,
    concurrency_key = CASE WHEN ?2 & 1 THEN ?16 ELSE concurrency_key END,
    held = 0,
    label = CASE WHEN ?2 & 33 THEN ?4 ELSE label END,
    run_at = CASE WHEN ?2 & 2 THEN ?5 ELSE run_at END,
    state = CASE WHEN ?2 & 2 THEN ?6 ELSE state END,
    priority = CASE WHEN ?2 & 4 THEN ?7 ELSE priority END,
    lane = CASE WHEN ?2 & 8 THEN (SELECT id FROM jobq_lanes WHERE queue = ?8 AND job_type = ?9) ELSE lane END,
    max_attempts = CASE WHEN ?2 & 16 THEN max(?10, attempts + 1) ELSE max_attempts END,
    timeout = CASE WHEN ?2 & 64 THEN ?11 ELSE timeout END,
    backoff = CASE WHEN ?2 & 128 THEN ?12 ELSE backoff END,
    retain = CASE WHEN ?2 & 256 THEN ?13 ELSE retain END,
    updated_at = ?14
WHERE id = ?1 AND state < 2
