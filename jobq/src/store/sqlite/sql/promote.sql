-- Edge promote: one job without a concurrency key. ?1 id, ?2 now ms.
UPDATE jobs SET state = 1, updated_at = ?2 WHERE id = ?1 AND state = 0 AND concurrency_key IS NULL
