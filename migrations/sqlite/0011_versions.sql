-- The version of a job's payload; NULL: 1, so that a row of a type without versions pays one byte. No CHECK: that would
-- read every row of a file that has millions.
ALTER TABLE jobs ADD COLUMN version INTEGER;

-- The same of a schedule's payload.
ALTER TABLE scheduled_jobs ADD COLUMN version INTEGER;
