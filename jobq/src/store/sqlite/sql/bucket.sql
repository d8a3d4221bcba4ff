-- A token bucket; no row: it is full. ?1 kind (0, 1 or 2), ?2 name or key.
SELECT full_at, parts FROM jobq_buckets WHERE kind = ?1 AND name = ?2
