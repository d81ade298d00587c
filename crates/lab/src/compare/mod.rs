//! `byteway compare`: one scenario with some of its keys varied, every combination run, and the differences in a table,
//! in charts and in words.
