-- Drops a bucket that is full. ?1 kind (0, 1 or 2), ?2 name or key.
DELETE FROM jobq_buckets WHERE kind = ?1 AND name = ?2
