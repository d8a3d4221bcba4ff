-- How far a running job is, by the holder of its lease: no edge, so `updated_at` stays. ?1 id, ?2 lease, ?3 created_at ms,
-- ?4 items done, ?5 items in all.
UPDATE jobs SET processed_items = ?4, total_items = ?5
WHERE id = ?1 AND lease = ?2 AND created_at = ?3 AND state = 2
