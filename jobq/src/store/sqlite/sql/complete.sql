-- Edge complete: one job, by the holder of its lease. ?1 id, ?2 lease, ?3 created_at ms, ?4 result JSON, ?5 now ms.
UPDATE jobs SET state = 3, result = ?4, error = NULL, completed_at = ?5, updated_at = ?5
WHERE id = ?1 AND lease = ?2 AND created_at = ?3 AND state = 2
