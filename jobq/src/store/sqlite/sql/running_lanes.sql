-- How many jobs run in each lane: queue, job_type, how many.
SELECT l.queue, l.job_type, c.count
FROM (SELECT lane, count(*) AS count FROM jobs INDEXED BY jobs_held WHERE state = 2 GROUP BY lane) c
    JOIN jobq_lanes l ON l.id = c.lane
