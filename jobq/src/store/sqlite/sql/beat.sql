-- A worker's sign of life; a worker that was given up while its machine slept is there again. ?1 worker, ?2 now ms.
UPDATE jobq_workers SET beats = beats + 1, heartbeat_at = ?2, gone_at = NULL WHERE id = ?1
