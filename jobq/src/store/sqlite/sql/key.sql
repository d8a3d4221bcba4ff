-- Whose turn a job takes. ?1 id.
SELECT concurrency_key FROM jobs WHERE id = ?1 AND concurrency_key IS NOT NULL
