-- What is wished or promised of running jobs: row, lease, 0 that it be cancelled or 1 that it has completed, in this order.
SELECT job, lease, 0 AS promised FROM jobq_cancels UNION ALL SELECT job, lease, 1 FROM jobq_promises ORDER BY promised
