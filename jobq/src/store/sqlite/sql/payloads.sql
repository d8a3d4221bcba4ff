-- One page of the payloads that may yet have to be run, in id order; a finished row is read up to its state. ?1 after this
-- id, ?2 last id of the slice.
SELECT id, created_at, (SELECT job_type FROM jobq_lanes WHERE id = lane), state, version, payload FROM jobs
WHERE id > ?1 AND id <= ?2 AND state <> 3 AND state <> 5 ORDER BY id
