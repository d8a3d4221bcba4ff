-- One slice of the search for rows to prune, in id order, and whether they have output. ?1 after this id, ?2 last id of
-- the slice, ?3 now ms, ?4 retention of completed and cancelled jobs ms, ?5 of dead jobs ms (NULL: for ever).
SELECT id, EXISTS (SELECT 1 FROM jobq_output WHERE job = jobs.id) FROM jobs
WHERE id > ?1 AND id <= ?2 AND state >= 3
    AND completed_at + CASE state WHEN 4 THEN max(?5, coalesce(retain, 0)) ELSE coalesce(retain, ?4) END <= ?3
    AND (state <> 3 OR unique_until IS NULL OR unique_until <= ?3)
