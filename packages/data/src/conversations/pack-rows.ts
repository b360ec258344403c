/**
 * Packs pieces into rows of one capacity, the longest first, each into the row with the least room that has
 * enough (best fit): mostly within a percent of the fewest rows.
 *
 * @param lengths from 1 to `capacity`
 * @returns the pieces of each row, by their numbers
 */
export function packRows(lengths: readonly number[], capacity: number): readonly (readonly number[])[] {
  const order = lengths.map((_, index) => index).sort((a, b) => lengths[b]! - lengths[a]! || a - b);
  const rows: number[][] = [];
  // the rows with so much room
  const byRoom: number[][] = Array.from({ length: capacity + 1 }, () => []);
  for (const piece of order) {
    const length = lengths[piece]!;
    let room = length;
    while (room <= capacity && byRoom[room]!.length === 0) room += 1;
    let row = byRoom[room]?.pop();
    if (row === undefined) {
      row = rows.length;
      room = capacity;
      rows.push([]);
    }
    rows[row]!.push(piece);
    byRoom[room - length]!.push(row);
  }
  return rows;
}
