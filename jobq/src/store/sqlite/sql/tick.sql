-- Moves a schedule on from the tick that it waits for. ?1 name, ?2 that tick ms, ?3 the tick that is made ms, later than
-- every one before (NULL: it was missed), ?4 the next tick ms, ?5 now ms.
UPDATE scheduled_jobs SET last_run = coalesce(?3, last_run), next_run = ?4, error = NULL, updated_at = ?5
WHERE id = ?1 AND enabled = 1 AND next_run = ?2 AND (?3 IS NULL OR last_run IS NULL OR last_run < ?3)
