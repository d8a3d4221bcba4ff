-- A job type's keys are sorted. ?1 job_type.
DELETE FROM jobq_resorts WHERE job_type = ?1
