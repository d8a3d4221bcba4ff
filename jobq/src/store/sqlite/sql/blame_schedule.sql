-- Notes why a schedule can't tick, once. ?1 name, ?2 why, ?3 now ms.
UPDATE scheduled_jobs SET error = ?2, updated_at = ?3 WHERE id = ?1 AND error IS NOT ?2
