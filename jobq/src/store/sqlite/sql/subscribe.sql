-- Says that a job of a program follows from an event. ?1 program, ?2 event, ?3 job_type, ?4 now ms.
INSERT OR REPLACE INTO jobq_subscriptions (program, event, job_type, seen_at) VALUES (?1, ?2, ?3, ?4)
