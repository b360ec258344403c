import { mergeIndexedDatasets } from '@mtl/data';
import type { Command } from 'commander';
import { newCommand } from '../../command-line/new-command.js';
import { ProgressBar } from '../../terminal/progress-bar.js';

interface MergeFlags {
  readonly input: string[];
  readonly outputPrefix: string;
}

/** `mtl data merge`: joins datasets into one, as Megatron-LM's merge_datasets. */
export function mergeCommand(): Command {
  return newCommand('merge', 'Joins datasets of the same element type.')
    .requiredOption('--input <prefixes...>', 'Datasets, in this order.')
    .requiredOption('--output-prefix <prefix>', 'Writes PREFIX.bin and PREFIX.idx.')
    .action(merge);
}

function merge({ input, outputPrefix }: MergeFlags): void {
  const bar = new ProgressBar();
  try {
    const summary = mergeIndexedDatasets({
      inputs: input,
      output: outputPrefix,
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
