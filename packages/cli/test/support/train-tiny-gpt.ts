import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseFlags, validateConfiguration } from '@mtl/configuration';
import { prepareDataset, type TokenizerOptions, trainByteLevelBpe, writeTokenizerJson } from '@mtl/data';
import { openTraining } from '@mtl/recipes';

/** What `trainTinyGpt` leaves in its directory. */
export interface TinyGpt {
  /** Of the checkpoints of iterations 20 and 40. */
  readonly save: string;
  readonly prefix: string;
  readonly textFile: string;
}

/** A corpus that a model of 40,000 parameters learns in seconds. */
function corpus(): string {
  const sentence = (document: number, index: number): string =>
    `the cat number ${(document * 7 + index) % 10} sat on the mat. `;
  const documents = Array.from({ length: 40 }, (_, document) =>
    Array.from({ length: 12 }, (_, index) => sentence(document, index)).join(''),
  );
  return documents.join('\n\n');
}

/** Trains a GPT of two layers for 40 steps, as gpt-train does, and saves it twice. */
export async function trainTinyGpt(directory: string): Promise<TinyGpt> {
  const text = corpus();
  const textFile = join(directory, 'cats.txt');
  writeFileSync(textFile, text);
  const tokenizerModel = join(directory, 'cats.json');
  writeTokenizerJson(tokenizerModel, await trainByteLevelBpe({ texts: [text], vocabularySize: 280 }));
  const tokenizer: TokenizerOptions = { type: 'HuggingFaceTokenizer', tokenizerModel };
  const outputPrefix = join(directory, 'cats');
  const { prefix } = await prepareDataset({ inputs: [textFile], outputPrefix, tokenizer, appendEod: true });
  const save = join(directory, 'run');
  const flags = parseFlags([
    ...['--preset', 'gpt2-4m', '--data-path', prefix, '--split', '90,10,0'],
    ...['--tokenizer-type', 'HuggingFaceTokenizer', '--tokenizer-model', tokenizerModel],
    ...['--num-layers', '2', '--hidden-size', '32', '--num-attention-heads', '2'],
    ...['--seq-length', '32', '--max-position-embeddings', '32'],
    ...['--micro-batch-size', '8', '--global-batch-size', '8', '--train-iters', '40', '--lr', '0.01'],
    ...['--eval-iters', '1', '--eval-interval', '40', '--save', save, '--save-interval', '20'],
  ]);
  await trainGpt(flags, directory);
  return { save, prefix, textFile };
}

/** Trains to the end, as gpt-train does, and returns what it would have printed. */
export async function trainGpt(flags: ReturnType<typeof parseFlags>, directory: string): Promise<string> {
  let printed = '';
  const training = await openTraining({
    configuration: validateConfiguration(flags),
    corpusDirectory: directory,
    stream: {
      write: (text: string) => {
        printed += text;
        return true;
      },
    },
  });
  try {
    await training.run();
  } finally {
    await training.close();
  }
  return printed;
}
