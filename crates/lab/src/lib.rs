//! The laboratory: scenario, profile, workload, measurement, report; the byteway binary
