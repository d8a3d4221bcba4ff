-- The ticks that are kept of a schedule, latest first. ?1 schedule.
SELECT tick, job, job_at FROM jobq_ticks WHERE schedule = ?1 ORDER BY tick DESC
