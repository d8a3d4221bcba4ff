-- Keeps a job's history at its first 10 and latest 90 attempts. ?1 id.
DELETE FROM jobq_attempts
WHERE job = ?1 AND lease = (SELECT lease FROM jobq_attempts WHERE job = ?1 ORDER BY lease LIMIT 1 OFFSET 10)
    AND (SELECT count(*) FROM jobq_attempts WHERE job = ?1) > 100
