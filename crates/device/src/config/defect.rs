//! Defects on purpose of a controller.

byteway_defect::defects! {
    /// Defects on purpose of a controller.
    pub enum Defect {
        /// A row group of a table is ruled out by the zone maps of the one before it.
        ForeignZones = "foreign-zones",
        /// A program's store to the last bytes of a range is lost.
        LoseStore = "lose-store",
        /// A program that filters rows never selects the last row of a row group.
        SkipRow = "skip-row",
    }
}
