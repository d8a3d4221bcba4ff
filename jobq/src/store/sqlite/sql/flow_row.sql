-- A flow as it stands, with how many of its jobs live and are dead, and how many flows in it have not ended. ?1 id.
SELECT f.total, f.succeeded, f.failed, f.cancelled, f.follow, f.parent, f.joined_at, f.created_at,
    (SELECT count(*) FROM jobs INDEXED BY jobs_flow WHERE flow = f.id AND state < 3)
        + (SELECT count(*) FROM jobq_flows INDEXED BY jobq_flows_parent WHERE parent = f.id AND joined_at IS NULL),
    (SELECT count(*) FROM jobs INDEXED BY jobs_flow WHERE flow = f.id AND state = 4)
FROM jobq_flows f WHERE f.id = ?1
