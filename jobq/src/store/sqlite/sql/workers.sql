-- The workers that have not signed out, and those that have but hold running jobs all the same: nobody forgets these.
SELECT id, host, boot, pid, build, queues, lock_device, lock_inode, beats, heartbeat_at, started_at
FROM jobq_workers w WHERE gone_at IS NULL
OR EXISTS (SELECT 1 FROM jobs j INDEXED BY jobs_held WHERE j.worker = w.id AND j.state = 2) ORDER BY id
