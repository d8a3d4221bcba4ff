-- Sets or declares a limit, in the place of the one that is there. ?1 kind, ?2 name, ?3 source, ?4 concurrency, ?5 the same
-- for each key, ?6 starts in ?7 ms, ?8 starts in ?9 ms for each key, ?10 now ms.
INSERT OR REPLACE INTO jobq_limits (kind, name, source, concurrency, concurrency_per_key, rate_starts, rate_per,
    key_rate_starts, key_rate_per, set_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
