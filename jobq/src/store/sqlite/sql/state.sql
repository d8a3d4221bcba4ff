-- Where a job stands. ?1 id, ?2 created_at ms.
SELECT state FROM jobs WHERE id = ?1 AND created_at = ?2
