-- Drops wishes whose lease is over.
DELETE FROM jobq_cancels
WHERE NOT EXISTS (SELECT 1 FROM jobs j WHERE j.id = job AND j.lease = jobq_cancels.lease AND j.state = 2)
