-- The part of a job in a flow. ?1 id.
SELECT flow, links FROM jobs WHERE id = ?1 AND flow IS NOT NULL
