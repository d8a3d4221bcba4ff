-- Whether a job still runs under this lease. ?1 id, ?2 lease, ?3 created_at ms.
SELECT 1 FROM jobs WHERE id = ?1 AND lease = ?2 AND created_at = ?3 AND state = 2
