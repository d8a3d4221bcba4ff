-- Lays the lanes of jobs enqueued in a caller's transaction. ?1 JSON array of [queue, job_type].
INSERT INTO jobq_lanes (queue, job_type)
SELECT value ->> 0, value ->> 1 FROM json_each(?1) WHERE true
ON CONFLICT DO NOTHING
