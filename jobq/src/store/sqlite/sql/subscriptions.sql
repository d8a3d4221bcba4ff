-- What all programs have said so: some hundreds of rows at most.
SELECT event, job_type, program, seen_at FROM jobq_subscriptions ORDER BY event, job_type, program
