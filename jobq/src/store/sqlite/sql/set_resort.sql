-- A job type's keys are to be sorted anew, after this one. ?1 job_type, ?2 key.
INSERT OR REPLACE INTO jobq_resorts (job_type, after) VALUES (?1, ?2)
