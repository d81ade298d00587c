//! The other end of the queue: driver, queue pairs, oracle
