-- How many jobs run in each lane with a limit.
SELECT held, count(*) FROM jobs INDEXED BY jobs_counted WHERE state = 2 AND held > 0 GROUP BY held
