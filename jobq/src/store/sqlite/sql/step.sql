-- What one step of a job gave. ?1 id, ?2 created_at ms, ?3 name.
SELECT result FROM jobq_steps
WHERE job = ?1 AND name = ?3 AND (SELECT created_at FROM jobs WHERE id = ?1) = ?2
