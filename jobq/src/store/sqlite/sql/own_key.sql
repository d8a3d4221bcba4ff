-- The unique key that a job would hold in another state. ?1 id, ?2 created_at ms, ?3 whether it has ended, or else runs.
SELECT unique_key, unique_scope FROM jobs
WHERE id = ?1 AND created_at = ?2 AND state >= 2 AND (state > 2) = ?3 AND (unique_holds > 0 OR unique_until IS NOT NULL)
