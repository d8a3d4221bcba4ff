-- Flows that ended a day ago and whose last job is gone. ?1 the most rows, ?2 now ms.
DELETE FROM jobq_flows WHERE id IN (
    SELECT id FROM jobq_flows f WHERE joined_at <= ?2 - 86400000
        AND NOT EXISTS (SELECT 1 FROM jobs INDEXED BY jobs_flow WHERE flow = f.id)
        AND NOT EXISTS (SELECT 1 FROM jobq_flows INDEXED BY jobq_flows_parent WHERE parent = f.id)
    LIMIT ?1)
