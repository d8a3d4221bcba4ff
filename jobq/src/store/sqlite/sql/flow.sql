-- What is counted of a flow. ?1 id.
SELECT total, succeeded, failed, cancelled, follow, parent, joined_at FROM jobq_flows WHERE id = ?1
