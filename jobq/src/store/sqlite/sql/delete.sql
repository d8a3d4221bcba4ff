-- Edge delete; history and output go with the row. ?1 id, ?2 created_at ms.
DELETE FROM jobs WHERE id = ?1 AND created_at = ?2 AND state IN (3, 4, 5)
