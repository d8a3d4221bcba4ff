-- Signs a worker in. ?1 host, ?2 boot, ?3 pid, ?4 build, ?5 queues, ?6 lock device, ?7 lock inode, ?8 now ms.
INSERT INTO jobq_workers (host, boot, pid, build, queues, lock_device, lock_inode, heartbeat_at, started_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?8)
