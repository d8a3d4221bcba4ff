-- The steps of a job that are recorded. ?1 id, ?2 created_at ms.
SELECT name, lease, at FROM jobq_steps
WHERE job = ?1 AND (SELECT created_at FROM jobs WHERE id = ?1) = ?2
ORDER BY at, lease, name
