-- Where one job stands, and how it ended where it has. ?1 id, ?2 created_at ms.
SELECT (SELECT job_type FROM jobq_lanes WHERE id = lane), state, attempts, result, CASE WHEN state > 3 THEN error END
FROM jobs WHERE id = ?1 AND created_at = ?2
