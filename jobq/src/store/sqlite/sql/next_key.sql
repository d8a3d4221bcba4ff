-- The next key that has pending or running jobs. ?1 after this one.
SELECT concurrency_key FROM jobs INDEXED BY jobs_keyed
WHERE concurrency_key > ?1 AND (state = 1 OR state = 2) ORDER BY concurrency_key LIMIT 1
