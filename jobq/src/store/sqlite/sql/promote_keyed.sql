-- Edge promote: one job with a concurrency key, whose jobs are then sorted anew. ?1 id, ?2 now ms.
UPDATE jobs SET state = 1, updated_at = ?2 WHERE id = ?1 AND state = 0 AND concurrency_key IS NOT NULL
