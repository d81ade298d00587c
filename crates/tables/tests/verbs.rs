//! Operations of the store, and their errors.

use crate::fixture::{Case, NO_SPAN, group, holds, spans};
use byteway_tables::{TableId, TablesConfig, TablesError, UnitExtent};

// Reads must return what was appended, at any offset and across extents.
#[test]
fn row_groups_come_back() {
    Case::tiny(false).run(async |tables| {
        let spans = spans();
        let id = tables.create(NO_SPAN, &spans, "t", b"schema").await.unwrap();
        let groups = [group(1, 10_000), group(2, 0), group(3, 4096), group(4, 100_000)];
        assert_eq!(tables.append(NO_SPAN, &spans, id, groups[..2].to_vec()).await, Ok(3));
        assert_eq!(tables.append(NO_SPAN, &spans, id, groups[2..].to_vec()).await, Ok(10));
        let table = tables.find("t").unwrap();
        assert_eq!(
            (table.id, &*table.schema, table.rows(), table.bytes()),
            (id, &b"schema"[..], 10, 114_296)
        );
        holds(&tables, &table, &groups).await.unwrap();
        for (offset, bytes) in [(0, 1), (4095, 2), (5000, 20_000), (99_999, 1), (100_000, 0)] {
            let mut part = vec![7];
            tables.read(NO_SPAN, &spans, &table.groups[3], offset, bytes, &mut part).await.unwrap();
            assert_eq!(part[1..], groups[3].data[offset as usize..(offset + bytes) as usize]);
        }
        let beyond = tables.read(NO_SPAN, &spans, &table.groups[3], 99_999, 2, &mut Vec::new()).await;
        assert!(matches!(beyond, Err(TablesError::Media(_))), "{beyond:?}");
    });
}

// Names are unique, and a refused request must change nothing.
#[test]
fn what_can_not_be_is_refused() {
    let mut case = Case::tiny(true);
    case.tables.tables_max = 3;
    case.run(async |tables| {
        let spans = spans();
        let create = async |name: &str| tables.create(NO_SPAN, &spans, name, b"").await;
        let first = create("a").await.unwrap();
        assert_eq!(create("a").await, Err(TablesError::Exists));
        assert_eq!(create("").await, Err(TablesError::Name));
        assert_eq!(create(&"x".repeat(256)).await, Err(TablesError::Name));
        create(&"x".repeat(255)).await.unwrap();
        create("b").await.unwrap();
        assert_eq!(create("c").await, Err(TablesError::TooMany));
        tables.drop_table(NO_SPAN, &spans, first).await.unwrap();
        assert_eq!(tables.drop_table(NO_SPAN, &spans, first).await, Err(TablesError::NotFound));
        assert_eq!(
            tables.append(NO_SPAN, &spans, first, vec![group(1, 9)]).await,
            Err(TablesError::NotFound)
        );
        // A new table of an old name has a new identifier: holders of the old one must not reach it.
        assert_ne!(create("a").await.unwrap(), first);
        let all: Vec<_> = tables.tables().iter().map(|table| table.id).collect();
        assert_eq!(all, [TableId(1), TableId(2), TableId(3)]);
        tables.format().await.unwrap();
        assert_eq!((tables.tables().len(), tables.usage().used_bytes), (0, 0));
    });
    assert!(TablesConfig::new(vec![UnitExtent { first: 0, count: 63 }], 1).check().is_err());
}

// Freed units must be reused, or an empty drive would be full; a request refused as too large must leak no units.
#[test]
fn room_comes_back() {
    Case::tiny(false).run(async |tables| {
        let spans = spans();
        let whole = tables.usage().capacity_bytes as usize;
        for round in 0..6 {
            let id = tables.create(NO_SPAN, &spans, "t", b"").await.unwrap();
            let mut number = 1;
            while tables.append(NO_SPAN, &spans, id, vec![group(number, whole / 5)]).await.is_ok() {
                number += 1;
            }
            assert_eq!(number, 5, "round {round}");
            let refused = tables.append(NO_SPAN, &spans, id, vec![group(9, 100), group(10, whole / 5)]).await;
            assert_eq!(refused, Err(TablesError::NoSpace));
            // Fragments of the remaining space.
            assert!(tables.append(NO_SPAN, &spans, id, vec![group(5, 9000)]).await.is_ok());
            let table = tables.find("t").unwrap();
            let all: Vec<_> = (1..5).map(|number| group(number, whole / 5)).chain([group(5, 9000)]).collect();
            holds(&tables, &table, &all).await.unwrap();
            drop(table);
            tables.drop_table(NO_SPAN, &spans, id).await.unwrap();
            // The writer frees units after the acknowledgement, in the same task.
            assert_eq!(tables.create(NO_SPAN, &spans, "u", b"").await.map(drop), Ok(()));
            let id = tables.find("u").unwrap().id;
            tables.drop_table(NO_SPAN, &spans, id).await.unwrap();
            assert_eq!(tables.usage().used_bytes, 0, "round {round}");
        }
    });
}

// A reader of a dropped table must read that table to its end, not the data that replaces it.
#[test]
fn a_table_that_is_read_stays() {
    Case::tiny(false).run(async |tables| {
        let spans = spans();
        let id = tables.create(NO_SPAN, &spans, "old", b"").await.unwrap();
        let size = tables.usage().capacity_bytes as usize / 2;
        tables.append(NO_SPAN, &spans, id, vec![group(1, size)]).await.unwrap();
        let old = tables.find("old").unwrap();
        tables.drop_table(NO_SPAN, &spans, id).await.unwrap();
        let new = tables.create(NO_SPAN, &spans, "new", b"").await.unwrap();
        assert_eq!(
            tables.append(NO_SPAN, &spans, new, vec![group(2, size)]).await,
            Err(TablesError::NoSpace)
        );
        holds(&tables, &old, &[group(1, size)]).await.unwrap();
        drop(old);
        // The next change frees the units, and the one after it reuses them.
        tables.append(NO_SPAN, &spans, new, vec![group(3, 10)]).await.unwrap();
        assert_eq!(tables.append(NO_SPAN, &spans, new, vec![group(2, size)]).await, Ok(5));
    });
}

// A catalog longer than its slot must be refused before anything is overwritten.
#[test]
fn a_catalog_has_an_end() {
    Case::tiny(true).run(async |tables| {
        let spans = spans();
        let id = tables.create(NO_SPAN, &spans, "t", &[9; 10_000]).await.unwrap();
        assert_eq!(tables.create(NO_SPAN, &spans, "u", &[9; 30_000]).await, Err(TablesError::CatalogFull));
        assert_eq!(tables.append(NO_SPAN, &spans, id, vec![group(1, 10)]).await, Ok(1));
    });
}
