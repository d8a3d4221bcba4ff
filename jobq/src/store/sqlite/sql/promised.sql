-- The result that was promised of a running job under this lease. ?1 id, ?2 lease.
SELECT result FROM jobq_promises WHERE job = ?1 AND lease = ?2
