-- Signs a worker out, or gives it up. ?1 worker, ?2 now ms.
UPDATE jobq_workers SET gone_at = ?2 WHERE id = ?1 AND gone_at IS NULL
