-- Edges fail, snooze, release and rescue, after the attempt was archived under the same fence; without an attempt left
-- there is no waiting for another. ?1 id, ?2 lease, ?3 next state (0, 1, 4 or 5), ?4 run_at ms (NULL: unchanged),
-- ?5 attempts given back (0 or 1), ?6 error (NULL: unchanged), ?7 now ms.
-- Told thrice rather than in a FROM: a join's plan would depend on statistics.
UPDATE jobs SET
    state = CASE WHEN ?3 < 3 AND attempts - ?5 >= max_attempts THEN 4 ELSE ?3 END,
    run_at = CASE WHEN ?3 < 3 AND attempts - ?5 < max_attempts THEN coalesce(?4, run_at) ELSE run_at END,
    completed_at = CASE WHEN ?3 < 3 AND attempts - ?5 < max_attempts THEN NULL ELSE ?7 END,
    attempts = attempts - ?5, error = coalesce(?6, error), held = 0, updated_at = ?7
WHERE id = ?1 AND lease = ?2 AND state = 2
