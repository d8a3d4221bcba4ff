-- Edges fail, snooze, release and rescue, after the attempt was archived under the same fence; without an attempt left
-- there is no waiting for another. ?1 id, ?2 lease, ?3 next state (0, 1, 4 or 5), ?4 run_at ms (NULL: unchanged),
-- ?5 attempts given back (0 or 1), ?6 error (NULL: unchanged), ?7 now ms.
UPDATE jobs SET state = next.state, run_at = CASE WHEN next.state < 3 THEN coalesce(?4, run_at) ELSE run_at END,
    attempts = attempts - ?5, error = coalesce(?6, error), completed_at = CASE WHEN next.state >= 3 THEN ?7 END,
    updated_at = ?7
FROM (SELECT CASE WHEN ?3 < 3 AND attempts - ?5 >= max_attempts THEN 4 ELSE ?3 END AS state FROM jobs WHERE id = ?1)
    AS next
WHERE id = ?1 AND lease = ?2 AND jobs.state = 2
