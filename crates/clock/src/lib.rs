//! When: the executor and its two runners, shared resources, random streams, spans
