-- Asks the holder of a running job to end it; asked again, the first wish stays. ?1 id, ?2 created_at ms, ?3 now ms.
INSERT INTO jobq_cancels (job, lease, asked_at) SELECT id, lease, ?3 FROM jobs WHERE id = ?1 AND created_at = ?2 AND state = 2
ON CONFLICT (job) DO UPDATE SET lease = excluded.lease, asked_at = excluded.asked_at WHERE lease <> excluded.lease
