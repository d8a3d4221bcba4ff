-- Edge retry. ?1 id, ?2 created_at ms, ?3 now ms.
UPDATE jobs SET state = 1, attempts = 0, run_at = ?3, completed_at = NULL, result = NULL, processed_items = NULL,
    total_items = NULL, held = 0, updated_at = ?3
WHERE id = ?1 AND created_at = ?2 AND state IN (3, 4, 5)
