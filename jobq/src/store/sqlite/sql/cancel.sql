-- Edge cancel. ?1 id, ?2 created_at ms, ?3 now ms.
UPDATE jobs SET state = 5, completed_at = ?3, updated_at = ?3 WHERE id = ?1 AND created_at = ?2 AND state IN (0, 1)
