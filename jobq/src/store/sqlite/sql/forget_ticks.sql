-- Forgets the ticks of a schedule before the latest ones. ?1 schedule, ?2 how many are kept.
DELETE FROM jobq_ticks WHERE schedule = ?1
    AND tick <= (SELECT tick FROM jobq_ticks WHERE schedule = ?1 ORDER BY tick DESC LIMIT 1 OFFSET ?2)
