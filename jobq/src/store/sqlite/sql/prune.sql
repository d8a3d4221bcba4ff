-- Edge prune: one row found by expired.sql, unless it has moved on. ?1 id, ?2 now ms, ?3, ?4 retentions as there.
DELETE FROM jobs
WHERE id = ?1 AND state >= 3 AND completed_at + CASE state WHEN 4 THEN max(?4, coalesce(retain, 0))
    ELSE coalesce(retain, ?3) END <= ?2
    AND (state <> 3 OR unique_until IS NULL OR unique_until <= ?2)
