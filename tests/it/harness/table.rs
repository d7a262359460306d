//! Tables of cases, as text.

/// The rows of a table: a line each, its cells between ` | `.
pub fn rows<const N: usize>(table: &str) -> Vec<[&str; N]> {
    let lines = table.lines().filter(|line| !line.trim().is_empty());
    let row = |line| {
        let mut cells: Vec<&str> = str::split(line, " | ").collect();
        // The last cell may be empty.
        if let Some(cell) = cells.last_mut()
            && let Some(before) = cell.strip_suffix('|')
        {
            *cell = before;
            cells.push("");
        }
        let cells: Vec<&str> = cells.into_iter().map(str::trim).collect();
        let count = cells.len();
        cells
            .try_into()
            .unwrap_or_else(|_| panic!("{count} cells instead of {N}: {line}"))
    };
    let rows: Vec<[&str; N]> = lines.map(row).collect();
    assert!(!rows.is_empty(), "a table without rows");
    rows
}
