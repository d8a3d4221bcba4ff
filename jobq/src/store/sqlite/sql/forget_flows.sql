-- Flows that have ended and whose last job is gone. ?1 the most rows.
DELETE FROM jobq_flows WHERE id IN (
    SELECT id FROM jobq_flows f WHERE joined_at IS NOT NULL
        AND NOT EXISTS (SELECT 1 FROM jobs INDEXED BY jobs_flow WHERE flow = f.id)
        AND NOT EXISTS (SELECT 1 FROM jobq_flows INDEXED BY jobq_flows_parent WHERE parent = f.id)
    LIMIT ?1)
