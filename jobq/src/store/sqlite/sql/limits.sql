-- All limits, what was set after what was declared, and the buckets of queues and job types.
SELECT l.kind, l.name, l.source, l.concurrency, l.concurrency_per_key, l.rate_starts, l.rate_per, l.key_rate_starts,
    l.key_rate_per, b.full_at, b.parts
FROM jobq_limits l LEFT JOIN jobq_buckets b ON b.kind = l.kind AND b.name = l.name
ORDER BY l.kind, l.name, l.source
