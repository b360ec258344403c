import { type IndexedDatasetInspection, inspectIndexedDataset } from '@mtl/data';
import type { Command } from 'commander';
import { newCommand } from '../../command-line/new-command.js';
import { formatInspection } from './format-inspection.js';

/** `mtl data inspect`: what datasets look like, from their indices alone. */
export function inspectCommand(): Command {
  return newCommand('inspect', 'Shows the sizes of datasets, from their .idx files only.')
    .argument('<prefix...>', 'Datasets, with or without .bin or .idx.')
    .option('--json', 'Prints JSON, one object per line.')
    .action(inspect);
}

function inspect(prefixes: string[], { json }: { json?: true }): void {
  // All are read before the first is printed: one error, or the whole answer.
  const inspections: IndexedDatasetInspection[] = prefixes.map((prefix) => inspectIndexedDataset(prefix));
  for (const inspection of inspections) {
    process.stdout.write(json === true ? `${JSON.stringify(inspection)}\n` : formatInspection(inspection));
  }
}
