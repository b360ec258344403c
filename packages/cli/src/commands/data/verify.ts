import { verifyIndexedDataset } from '@mtl/data';
import type { Command } from 'commander';
import { newCommand } from '../../command-line/new-command.js';
import { countOption } from '../../command-line/option-values.js';
import { formatTable } from '../../terminal/format-table.js';
import { ProgressBar } from '../../terminal/progress-bar.js';
import { formatInspection } from './format-inspection.js';

interface VerifyFlags {
  readonly vocabSize?: number;
  readonly json?: true;
}

/** `mtl data verify`: reads a whole dataset and checks every token. */
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
