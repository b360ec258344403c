import type { IndexedDatasetInspection } from '@mtl/data';
import { formatBytes } from '@mtl/trainer/internal';
import { formatTable } from '../../terminal/format-table.js';

/** A dataset as a table. */
export function formatInspection(inspection: IndexedDatasetInspection): string {
  const { shortestSequence, longestSequence, meanSequenceLength } = inspection;
  const rows: Array<readonly [string, string | number]> = [
    ['documents', inspection.numDocuments],
    ['empty documents', inspection.numEmptyDocuments],
    ['sequences', inspection.numSequences],
    ['tokens', inspection.numTokens],
    ['dtype', inspection.dtype],
    [
      'tokens a sequence',
      `${shortestSequence} to ${longestSequence}, on average ${meanSequenceLength.toFixed(1)}`,
    ],
    ['files', `.bin ${formatBytes(inspection.binBytes)}, .idx ${formatBytes(inspection.idxBytes)}`],
  ];
  if (inspection.multimodal) rows.push(['modes', 'a mode for each sequence (multimodal)']);
  return `${inspection.prefix}\n${formatTable(rows)}`;
}
