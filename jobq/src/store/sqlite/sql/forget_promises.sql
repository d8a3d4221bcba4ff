-- Drops promises whose lease is over.
DELETE FROM jobq_promises
WHERE NOT EXISTS (SELECT 1 FROM jobs j WHERE j.id = job AND j.lease = jobq_promises.lease AND j.state = 2)
