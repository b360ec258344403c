import { createInterface } from 'node:readline/promises';
import { ConfigurationError } from '@mtl/errors';

interface Terminal {
  readonly input: NodeJS.ReadableStream & { readonly isTTY?: boolean };
  readonly output: NodeJS.WritableStream & { readonly isTTY?: boolean };
}

/**
 * Asks the user for confirmation on the terminal.
 *
 * @throws ConfigurationError MTL_HUB_NOT_CONFIRMED unless the answer is yes
 */
export async function confirm(
  question: string,
  { input, output }: Terminal = { input: process.stdin, output: process.stderr },
): Promise<void> {
  if (input.isTTY === true && output.isTTY === true) {
    const lines = createInterface({ input, output });
    // the end of the input counts as an empty answer
    const ended = new Promise<string>((resolve) => lines.once('close', () => resolve('')));
    try {
      const answer = await Promise.race([lines.question(`${question} [y/N] `), ended]);
      if (/^y(?:es)?$/i.test(answer.trim())) return;
    } finally {
      lines.close();
    }
  }
  throw new ConfigurationError('MTL_HUB_NOT_CONFIRMED', 'nothing was uploaded', {
    expected: 'the answer y on a terminal, or --yes',
    remedy: 'look at the model card and the files above, then run the command again with --yes',
  });
}
