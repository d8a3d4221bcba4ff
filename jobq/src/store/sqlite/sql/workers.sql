-- The workers that have not signed out, and those that have but hold running jobs all the same: nobody forgets these.
-- Nor those whose row was deleted by hand: boot is NULL then, and nothing else is known of them.
SELECT id, host, boot, pid, build, queues, lock_device, lock_inode, beats, heartbeat_at, started_at
FROM jobq_workers w WHERE gone_at IS NULL
OR EXISTS (SELECT 1 FROM jobs j INDEXED BY jobs_held WHERE j.worker = w.id AND j.state = 2)
UNION ALL
SELECT DISTINCT worker, '?', NULL, 0, '', '', 0, 0, 0, 0, 0
FROM jobs INDEXED BY jobs_held
WHERE state = 2 AND NOT EXISTS (SELECT 1 FROM jobq_workers w WHERE w.id = worker)
ORDER BY 1
