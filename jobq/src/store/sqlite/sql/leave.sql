-- Edges fail, snooze, release and rescue, after the attempt was archived under the same fence. ?1 id, ?2 lease,
-- ?3 next state (0, 1, 4 or 5), ?4 run_at ms (NULL: unchanged), ?5 attempts given back (0 or 1),
-- ?6 error (NULL: unchanged), ?7 now ms.
UPDATE jobs SET state = ?3, run_at = coalesce(?4, run_at), attempts = attempts - ?5, error = coalesce(?6, error),
    completed_at = CASE WHEN ?3 >= 3 THEN ?7 END, updated_at = ?7
WHERE id = ?1 AND lease = ?2 AND state = 2
