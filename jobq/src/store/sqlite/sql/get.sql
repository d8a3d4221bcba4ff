-- One job. ?1 id, ?2 created_at ms.
SELECT j.id, l.job_type, l.queue, j.state, j.priority, j.payload, j.label, j.run_at, j.attempts, j.max_attempts,
    j.lease, j.worker, CASE WHEN j.state = 2 THEN w.heartbeat_at END, j.started_at, j.completed_at, j.created_at,
    j.updated_at, j.timeout, j.backoff, j.retain, j.processed_items, j.total_items, j.result, j.error,
    j.unique_key, j.unique_scope, j.unique_holds, j.unique_until,
    CASE WHEN j.state = 2 THEN c.asked_at END, j.version, j.concurrency_key, j.flow
FROM jobs j JOIN jobq_lanes l ON l.id = j.lane LEFT JOIN jobq_workers w ON w.id = j.worker AND w.gone_at IS NULL
    LEFT JOIN jobq_cancels c ON c.job = j.id AND c.lease = j.lease
WHERE j.id = ?1 AND j.created_at = ?2
