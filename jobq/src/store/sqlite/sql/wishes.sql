-- All wishes that running jobs be cancelled, for whom the writing thread lets out of running.
SELECT job, lease FROM jobq_cancels
