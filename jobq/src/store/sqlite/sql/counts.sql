-- How many jobs stand where.
SELECT l.queue, l.job_type, c.state, c.count
FROM (SELECT lane, state, count(*) AS count FROM jobs GROUP BY lane, state) c JOIN jobq_lanes l ON l.id = c.lane
ORDER BY 1, 2, 3
