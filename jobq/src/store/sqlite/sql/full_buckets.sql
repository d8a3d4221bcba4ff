-- Buckets that are full again. ?1 now ms, ?2 limit.
SELECT kind, name FROM jobq_buckets WHERE full_at / parts + 1 <= ?1 LIMIT ?2
