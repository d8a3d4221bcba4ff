-- The job types whose keys are to be sorted anew, and after which key to go on.
SELECT job_type, after FROM jobq_resorts
