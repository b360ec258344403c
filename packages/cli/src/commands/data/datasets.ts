import {
  type IndexedDatasetInspection,
  inspectIndexedDataset,
  mergeIndexedDatasets,
  verifyIndexedDataset,
} from '@mtl/data';
import { formatBytes } from '@mtl/trainer';
import type { Command } from 'commander';
import { newCommand } from '../../command-line/new-command.js';
import { countOption, overwriteOption } from '../../command-line/option-values.js';
import { ProgressBar } from '../../terminal/progress-bar.js';
import { formatTable } from '../../terminal/report-text.js';

/** Creates the command `mtl data inspect`, which describes datasets, reading only their indices. */
export function inspectCommand(): Command {
  return newCommand('inspect', 'Shows the sizes of datasets, from their .idx files only.')
    .argument('<prefix...>', 'Datasets, with or without .bin or .idx.')
    .option('--json', 'Prints JSON, one object per line.')
    .action(inspect);
}

function inspect(prefixes: string[], { json }: { json?: true }): void {
  // reads all datasets before printing, so that the output is either complete or one error
  const inspections: IndexedDatasetInspection[] = prefixes.map((prefix) => inspectIndexedDataset(prefix));
  for (const inspection of inspections) {
    process.stdout.write(json === true ? `${JSON.stringify(inspection)}\n` : formatInspection(inspection));
  }
}

interface VerifyFlags {
  readonly vocabSize?: number;
  readonly json?: true;
}

/** Creates the command `mtl data verify`, which reads a whole dataset and checks every token. */
export function verifyCommand(): Command {
  return newCommand('verify', 'Reads a whole dataset and checks its structure and every token.')
    .argument('<prefix>', 'A dataset, with or without .bin or .idx.')
    .addOption(countOption('--vocab-size <n>', 'Number of token ids: tokens must be below it.'))
    .option('--json', 'Prints JSON.')
    .action(verify);
}

function verify(prefix: string, { vocabSize, json }: VerifyFlags): void {
  const bar = new ProgressBar();
  try {
    const result = verifyIndexedDataset({
      prefix,
      ...(vocabSize === undefined ? {} : { vocabularySize: vocabSize }),
      onProgress: ({ tokens, totalTokens }) =>
        bar.update(tokens / totalTokens, `${tokens.toLocaleString('en-US')} tokens`),
    });
    bar.close();
    if (json === true) {
      process.stdout.write(`${JSON.stringify(result)}\n`);
      return;
    }
    const { smallestToken, largestToken } = result;
    const range = smallestToken === undefined ? 'none' : `${smallestToken} to ${largestToken}`;
    process.stdout.write(
      `${formatInspection(result)}${formatTable([['token ids', range]])}every token id is valid\n`,
    );
  } finally {
    bar.close();
  }
}

/** Formats a dataset as a table. */
function formatInspection(inspection: IndexedDatasetInspection): string {
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

interface MergeFlags {
  readonly input: string[];
  readonly outputPrefix: string;
  readonly overwrite?: true;
}

/** Creates the command `mtl data merge`, which joins datasets into one, like Megatron-LM's merge_datasets. */
export function mergeCommand(): Command {
  return newCommand('merge', 'Joins datasets of the same element type.')
    .requiredOption('--input <prefixes...>', 'Datasets, in this order.')
    .requiredOption('--output-prefix <prefix>', 'Writes PREFIX.bin and PREFIX.idx.')
    .addOption(overwriteOption('a dataset'))
    .action(merge);
}

function merge({ input, outputPrefix, overwrite }: MergeFlags): void {
  const bar = new ProgressBar();
  try {
    const summary = mergeIndexedDatasets({
      inputs: input,
      output: outputPrefix,
      overwrite: overwrite === true,
      onProgress: ({ done, total, prefix }) => bar.update(done / total, prefix),
    });
    bar.close();
    const count = (value: number): string => value.toLocaleString('en-US');
    process.stdout.write(
      `${summary.prefix}.bin: ${count(summary.numDocuments)} documents, ${count(summary.numTokens)} tokens ` +
        `of ${summary.dtype} from ${input.length} datasets\n`,
    );
  } finally {
    bar.close();
  }
}
