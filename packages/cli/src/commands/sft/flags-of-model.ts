import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { ConfigurationError } from '@mtl/errors';

/**
 * A command line whose `--model DIR` is written out: `--load-hf DIR` for a directory of the transformers
 * library, `--load DIR --finetune` for checkpoints.
 *
 * @throws ConfigurationError MTL_FLAG_VALUE_MISSING, MTL_FLAG_REPEATED, MTL_FLAG_CONFLICT
 */
export function flagsOfModel(argv: readonly string[]): readonly string[] {
  const places = argv.flatMap((word, at) => (/^--model(=|$)/.test(word) ? [at] : []));
  const [at, second] = places;
  if (at === undefined) return argv;
  if (second !== undefined) {
    throw new ConfigurationError('MTL_FLAG_REPEATED', '--model is given twice', { expected: 'one model' });
  }
  const isAttached = argv[at] !== '--model';
  const directory = isAttached ? argv[at]!.slice('--model='.length) : argv[at + 1];
  if (directory === undefined || directory === '' || directory.startsWith('--')) {
    throw new ConfigurationError('MTL_FLAG_VALUE_MISSING', '--model needs a value', {
      expected: '--model DIR: a directory of the transformers library, or checkpoints',
    });
  }
  const other = argv.find((word) => /^--(load|load[-_]hf)(=|$)/.test(word));
  if (other !== undefined) {
    throw new ConfigurationError('MTL_FLAG_CONFLICT', `--model ${directory} and ${other} name two models`, {
      remedy: 'leave one of them out: --model to begin, --load to go on with a run',
    });
  }
  const isHuggingFace = existsSync(join(directory, 'config.json'));
  const flags = isHuggingFace ? ['--load-hf', directory] : ['--load', directory, '--finetune'];
  return [...argv.slice(0, at), ...flags, ...argv.slice(at + (isAttached ? 1 : 2))];
}
