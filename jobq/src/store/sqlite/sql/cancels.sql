-- All wishes that running jobs be cancelled; created_at is NULL where the lease is over.
SELECT job, (SELECT created_at FROM jobs j WHERE j.id = job AND j.lease = c.lease AND j.state = 2), lease, asked_at
FROM jobq_cancels c
