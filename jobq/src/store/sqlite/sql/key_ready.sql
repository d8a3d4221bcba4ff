-- How many jobs of a key may be claimed, in all lanes. ?1 key, ?2 as many as are counted at most.
SELECT count(*) FROM (SELECT 1 FROM jobs INDEXED BY jobs_keyed
    WHERE concurrency_key = ?1 AND state = 1 AND held = 0 LIMIT ?2)
