-- Edge enqueue: one job that may have a unique key; no row where another job holds the key. ?1 id, ?2 lane, ?3 state (0 or
-- 1), ?4 priority, ?5 run_at ms, ?6 max_attempts, ?7 timeout ms, ?8 retain ms, ?9 backoff JSON, ?10 label, ?11 payload,
-- ?12 now ms, ?13 key, ?14 its scope, ?15 the states that hold it, ?16 end of its window ms,
-- ?17 version (NULL: 1), ?18 concurrency key.
INSERT INTO jobs (id, lane, state, priority, run_at, max_attempts, timeout, retain, backoff, label, payload, created_at,
    updated_at, unique_key, unique_scope, unique_holds, unique_until, version, concurrency_key)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?12, ?13, ?14, ?15, ?16, ?17, ?18)
ON CONFLICT (unique_key, unique_scope)
WHERE unique_key IS NOT NULL AND ((unique_holds >> state) & 1 OR (unique_until IS NOT NULL AND state < 4)) DO NOTHING
