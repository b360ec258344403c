import { resolve } from 'node:path';
import type { BegunCheckpoint } from '@mtl/saved-models';

/**
 * A command that trains it on as it is printed, on the bundled corpus; its values are there to be changed.
 */
export function adviceFor(begun: BegunCheckpoint, save: string): string {
  const { kind, tokenizer, vocabularySize, modelType } = begun;
  const program = `npm run ${kind}-train --`;
  const load = `--load ${quoted(resolve(save))}`;
  const isGpt2 = modelType === 'gpt2' && vocabularySize >= gpt2VocabularySize;
  if (tokenizer === undefined && !isGpt2) {
    return `it came without a tokenizer: train it on with ${program} ${load}, and name tokenizer and data`;
  }
  const own = tokenizer === undefined ? ' --tokenizer-type GPT2BPETokenizer' : '';
  // a short sample of a BERT may have no masked token, and a global batch needs one
  const batch = `--micro-batch-size 1${kind === 'bert' ? ' --global-batch-size 8' : ''}`;
  const rest = `--data-path bundled ${batch} --lr 1e-5 --train-iters 100 --log-interval 10`;
  return `train it on with ${program} ${load}${own} ${rest}`;
}

/** Of the tokenizer that is built in. */
const gpt2VocabularySize = 50_257;

/** As a shell takes it. */
const quoted = (word: string): string =>
  /^[\w./:=@%+,-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
