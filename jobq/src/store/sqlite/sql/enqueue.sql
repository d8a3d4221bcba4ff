-- Edge enqueue: one job. ?1 lane, ?2 state (0 or 1), ?3 priority, ?4 run_at ms, ?5 max_attempts, ?6 timeout ms,
-- ?7 retain ms, ?8 backoff JSON, ?9 label, ?10 payload, ?11 now ms.
INSERT INTO jobs (lane, state, priority, run_at, max_attempts, timeout, retain, backoff, label, payload, created_at,
    updated_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?11)
