-- Lays a completion in the caller's transaction, by the holder of the lease, once. ?1 id, ?2 lease, ?3 created_at ms, ?4 result JSON.
INSERT INTO jobq_promises (job, lease, result)
SELECT id, lease, ?4 FROM jobs WHERE id = ?1 AND lease = ?2 AND created_at = ?3 AND state = 2
ON CONFLICT (job) DO UPDATE SET lease = excluded.lease, result = excluded.result WHERE lease <> excluded.lease
