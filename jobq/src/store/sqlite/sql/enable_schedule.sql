-- Lets a schedule tick again. ?1 name, ?2 its next tick ms, where it did not tick, ?3 now ms.
UPDATE scheduled_jobs SET next_run = CASE WHEN enabled THEN next_run ELSE ?2 END, enabled = 1, error = NULL, updated_at = ?3
WHERE id = ?1
