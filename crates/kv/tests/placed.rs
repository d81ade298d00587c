//! Values that the host stores into the page buffer itself.

use crate::fixture::{Case, NOBODY, key, spans, value};
use byteway_clock::Executor;
use byteway_kv::{KvError, Origin, Packing, StoreMode};

// The host has stored a value, and before its command arrives, deletions fill the segment's record table and end the
// segment: the bytes are gone with it, and the command would store zeroes.
#[test]
fn what_ended_with_its_segment_is_misplaced() {
    let mut ended = 0;
    for (packing, count) in [Packing::All, Packing::Backfill]
        .into_iter()
        .flat_map(|packing| (1400..2600).step_by(60).map(move |count| (packing, count)))
    {
        let mut case = Case::tiny("placed", true);
        case.kv.packing = packing;
        let executor = Executor::new();
        let (_, kv) = case.power_on(executor.clock(), case.medium());
        let was_ended = executor
            .run(async move {
                let spans = spans();
                for number in 0..count {
                    let bytes = value(&key(number), 1, 20);
                    kv.store(NOBODY, &spans, key(number), &bytes, Origin::Memory, StoreMode::Any)
                        .await
                        .unwrap();
                }
                let told = kv.make_place(NOBODY, &spans, false).await.unwrap();
                let (at, bytes) = (kv.write_pointer(), value(&key(9000), 1, 100));
                assert!(told.limit.wrapping_sub(told.pointer) >= kv.page_bytes());
                kv.buffer_store(at, &bytes);
                for number in 0..count {
                    kv.delete(NOBODY, &spans, key(number)).await.unwrap();
                }
                let placed = kv.store_placed(NOBODY, &spans, key(9000), at, 100, None, StoreMode::Any).await;
                let mut found = Vec::new();
                let retrieved = kv.retrieve(NOBODY, &spans, key(9000), 0, 100, &mut found).await;
                if placed.is_ok() {
                    assert!(found == bytes, "{packing:?}, {count}");
                    return false;
                }
                assert_eq!(placed, Err(KvError::Misplaced));
                assert_eq!(retrieved, Err(KvError::NotFound));
                true
            })
            .unwrap();
        ended += usize::from(was_ended);
    }
    assert!(ended > 3, "{ended}");
}
