-- The output of one claim of a row that is about to be pruned, under the condition of prune.sql. ?1 id, ?2 now ms,
-- ?3, ?4 retentions as there.
DELETE FROM jobq_output
WHERE job = (SELECT id FROM jobs WHERE id = ?1 AND state >= 3 AND completed_at + CASE state
        WHEN 4 THEN max(?4, coalesce(retain, 0)) ELSE coalesce(retain, ?3) END <= ?2)
    AND lease = (SELECT min(lease) FROM jobq_output WHERE job = ?1)
