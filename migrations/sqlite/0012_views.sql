-- The views in words again, with what has come since: keys, flows, versions, the wish to cancel. Only what SQLite 3.37 knows,
-- as in 0002.

DROP VIEW a_mod_queue_records;
DROP VIEW jobs_view;

CREATE VIEW jobs_view AS
SELECT
    printf('%08x-%04x-7%03x-%04x-%012x', j.created_at >> 16, j.created_at & 65535, j.id >> 36,
        32768 | ((j.id >> 22) & 16383), ((j.id & 4194303) << 26) | s.tag) AS id,
    l.job_type AS job_type,
    l.job_type AS type,
    l.queue AS queue,
    CASE j.state WHEN 0 THEN 'scheduled' WHEN 1 THEN 'pending' WHEN 2 THEN 'running' WHEN 3 THEN 'completed'
        WHEN 4 THEN 'dead' ELSE 'cancelled' END AS status,
    j.priority AS priority,
    j.payload AS payload,
    j.label AS label,
    j.result AS result,
    j.error AS error,
    j.error AS error_message,
    (SELECT group_concat(line, char(10)) FROM (SELECT line FROM jobq_output WHERE job = j.id ORDER BY lease, seq))
        AS output_log,
    j.attempts AS attempts,
    j.max_attempts AS max_attempts,
    j.attempts > 0 AND j.state < 2 AS retrying,
    j.processed_items AS processed_items,
    j.total_items AS total_items,
    CASE WHEN j.state = 3 THEN 100 WHEN j.total_items > 0
        THEN min(100, max(0, coalesce(j.processed_items, 0)) * 100 / j.total_items) ELSE 0 END AS progress_percent,
    j.lease AS lease,
    w.host || ':' || w.pid || ' #' || j.worker AS worker,
    strftime('%Y-%m-%dT%H:%M:%fZ', j.run_at / 1000.0, 'unixepoch') AS run_at,
    strftime('%Y-%m-%dT%H:%M:%fZ', j.run_at / 1000.0, 'unixepoch') AS run_after,
    strftime('%Y-%m-%dT%H:%M:%fZ', j.started_at / 1000.0, 'unixepoch') AS started_at,
    CASE WHEN j.state = 2 THEN strftime('%Y-%m-%dT%H:%M:%fZ', w.heartbeat_at / 1000.0, 'unixepoch') END
        AS heartbeat_at,
    strftime('%Y-%m-%dT%H:%M:%fZ', j.completed_at / 1000.0, 'unixepoch') AS completed_at,
    strftime('%Y-%m-%dT%H:%M:%fZ', j.created_at / 1000.0, 'unixepoch') AS created_at,
    strftime('%Y-%m-%dT%H:%M:%fZ', j.updated_at / 1000.0, 'unixepoch') AS updated_at,
    coalesce(j.version, 1) AS version,
    j.unique_key AS unique_key,
    substr(j.concurrency_key, length(l.job_type) + 2) AS concurrency_key,
    CASE WHEN j.flow IS NOT NULL THEN printf('00000000-0000-8%03x-%04x-%012x', j.flow >> 36, 32768 | ((j.flow >> 22) & 16383),
        ((j.flow & 4194303) << 26) | s.tag) END AS flow,
    CASE WHEN j.state = 2 THEN strftime('%Y-%m-%dT%H:%M:%fZ', (SELECT asked_at FROM jobq_cancels c
        WHERE c.job = j.id AND c.lease = j.lease) / 1000.0, 'unixepoch') END AS cancel_asked_at
FROM jobs j
JOIN jobq_lanes l ON l.id = j.lane
JOIN jobq_store s
LEFT JOIN jobq_workers w ON w.id = j.worker;

-- waiting = scheduled or pending, reserved = running, done = completed, failed = dead; cancelled has no older word.
CREATE VIEW a_mod_queue_records AS
SELECT
    id,
    coalesce(label, job_type) AS label,
    job_type,
    CASE status WHEN 'scheduled' THEN 'waiting' WHEN 'pending' THEN 'waiting' WHEN 'running' THEN 'reserved'
        WHEN 'completed' THEN 'done' WHEN 'dead' THEN 'failed' ELSE status END AS status,
    progress_percent,
    coalesce(processed_items, 0) AS processed_items,
    coalesce(total_items, 0) AS total_items,
    attempts,
    max_attempts,
    heartbeat_at,
    error_message,
    output_log
FROM jobs_view;
