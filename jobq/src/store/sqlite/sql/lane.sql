-- Lays a lane. ?1 queue, ?2 job_type.
INSERT INTO jobq_lanes (queue, job_type) VALUES (?1, ?2)
ON CONFLICT (queue, job_type) DO UPDATE SET queue = queue RETURNING id
