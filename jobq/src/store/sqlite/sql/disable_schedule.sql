-- Lets a schedule tick no more. ?1 name, ?2 now ms.
UPDATE scheduled_jobs SET enabled = 0, updated_at = ?2 WHERE id = ?1
