-- Drops workers that have been gone for a day. ?1 now ms.
DELETE FROM jobq_workers WHERE gone_at <= ?1 - 86400000
