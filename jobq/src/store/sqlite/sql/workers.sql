-- The workers that have not signed out.
SELECT id, host, boot, pid, build, queues, lock_device, lock_inode, beats, heartbeat_at, started_at
FROM jobq_workers WHERE gone_at IS NULL ORDER BY id
