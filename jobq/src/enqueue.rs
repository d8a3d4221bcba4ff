//! The Enqueue builder, JobHandle, and JobFn: how a job function gets its `enqueue`.
