-- Takes away a promise that was kept. ?1 id.
DELETE FROM jobq_promises WHERE job = ?1
