import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { prepareDataset } from '@mtl/data';
import { type TrainOptions, train } from '@mtl/runs';
import { type TokenizerOptions, trainByteLevelBpe, writeTokenizerJson } from '@mtl/tokenizers';

/** The files that `trainTinyGpt` leaves in its directory. */
export interface TinyGpt {
  /** The paths of the checkpoints of iterations 20 and 40. */
  readonly save: string;
  readonly prefix: string;
  readonly textFile: string;
  /** The output of the training. */
  readonly printed: string;
}

/** Returns a corpus that a model of 40,000 parameters learns in seconds. */
function corpus(): string {
  const sentence = (document: number, index: number): string =>
    `the cat number ${(document * 7 + index) % 10} sat on the mat. `;
  const documents = Array.from({ length: 40 }, (_, document) =>
    Array.from({ length: 12 }, (_, index) => sentence(document, index)).join(''),
  );
  return documents.join('\n\n');
}

/**
 * Trains a GPT of two layers for 40 steps, as gpt-train does, and saves it twice. `model`: in addition to its
 * sizes
 */
export async function trainTinyGpt(directory: string, model: TrainOptions['model'] = {}): Promise<TinyGpt> {
  const text = corpus();
  const textFile = join(directory, 'cats.txt');
  writeFileSync(textFile, text);
  const tokenizerModel = join(directory, 'cats.json');
  writeTokenizerJson(tokenizerModel, await trainByteLevelBpe({ texts: [text], vocabularySize: 280 }));
  const tokenizer: TokenizerOptions = { type: 'HuggingFaceTokenizer', tokenizerModel };
  const outputPrefix = join(directory, 'cats');
  const { prefix } = await prepareDataset({ inputs: [textFile], outputPrefix, tokenizer, appendEod: true });
  const save = join(directory, 'run');
  const printed = await trainGpt({
    preset: 'gpt2-4m',
    data: {
      dataPath: [prefix],
      split: '90,10,0',
      tokenizerType: 'HuggingFaceTokenizer',
      tokenizerModel,
      sequenceLength: 32,
    },
    model: { numLayers: 2, hiddenSize: 32, numAttentionHeads: 2, maxPositionEmbeddings: 32, ...model },
    training: {
      microBatchSize: 8,
      globalBatchSize: 8,
      trainIterations: 40,
      evalIterations: 1,
      evalInterval: 40,
    },
    optimizer: { maxLearningRate: 0.01 },
    checkpoint: { save, saveInterval: 20 },
  });
  return { save, prefix, textFile, printed };
}

/** Trains to the end, as gpt-train does, and returns the output that gpt-train would print. */
export async function trainGpt(options: TrainOptions): Promise<string> {
  let printed = '';
  const write = (text: string): boolean => {
    printed += text;
    return true;
  };
  const training = await train({ ...options, stream: { write } });
  try {
    await training.run();
  } finally {
    await training.close();
  }
  return printed;
}
