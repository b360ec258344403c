import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { allocateParameters } from '@mtl/autograd';
import { loadCheckpoint } from '@mtl/checkpoint';
import type { RunOptions } from '@mtl/configuration';
import { readAnySavedConfiguration } from '@mtl/configuration/saved';
import { parameterTensors } from '@mtl/formats';
import { type BertModelConfiguration, BertStage } from '@mtl/models';
import { createTokenizer, type Tokenizer } from '@mtl/tokenizers';
import { askTransformersJs, hasTransformersJs } from '@mtl/tooling/ask-transformers-js';
import { reportEngine } from '@mtl/tooling/report-engine';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { checkpointToOnnx, train } from '../src/index.js';
import { openSavedCheckpoint } from '../src/saved/checkpoints/open-saved-checkpoint.js';
import { mergeOptions, preparedSentences } from './support/index.js';

const scratch = mkdtempSync(join(tmpdir(), 'mtl-masks-'));
afterAll(() => rmSync(scratch, { recursive: true }));

const mask = '[MASK]';
const texts = [`The cat number 5 sat on the ${mask}.`, `The ${mask} number 9 sat on the barn.`];
const dtypes = ['fp32', 'fp16', 'q8', 'q4'] as const;

/**
 * Bounds of the differences of probabilities, which were 2e-7, 2e-4, 2e-3 and 0.012: sums of float32 in
 * another order, half precision, weights in 8 bits and in 4.
 */
const bounds = { fp32: 2e-6, fp16: 5e-4, q8: 6e-3, q4: 0.03 } as const;

/** A run that learns some of the order of words. */
const recipe: RunOptions = {
  preset: 'none',
  model: {
    kind: 'bert',
    numLayers: 2,
    hiddenSize: 64,
    numAttentionHeads: 4,
    maxPositionEmbeddings: 32,
    attentionDropout: 0,
    hiddenDropout: 0,
  },
  data: { sequenceLength: 32, split: '90,10,0' },
  training: { microBatchSize: 16, globalBatchSize: 16, trainIterations: 200, evalIterations: 1 },
  optimizer: { maxLearningRate: 2e-3, learningRateDecayStyle: 'linear' },
  logging: { noEvalSamples: true },
  layout: { threads: 1 },
};

const models = {
  'learned positions and the order of sentences': {},
  'rotary positions, as in the preset bert-default': {
    positionEmbeddingType: 'rope',
    rotaryInterleaved: true,
    layerNormPlacement: 'post',
    bertNoBinaryHead: true,
  },
} as const satisfies Readonly<Record<string, RunOptions['model']>>;
const names = Object.keys(models) as (keyof typeof models)[];

interface Trained {
  readonly stage: BertStage;
  readonly tokenizer: Tokenizer;
  readonly save: string;
  dispose(): void;
}

/** Trains a model, saves it, and loads it from its checkpoint. */
async function trainBert(name: keyof typeof models, data: RunOptions): Promise<Trained> {
  const save = join(scratch, `run-${names.indexOf(name)}`);
  const model = models[name];
  const run = await train(mergeOptions(recipe, data, { model, checkpoint: { save } }));
  try {
    await run.run();
  } finally {
    await run.close();
  }
  const { checkpoint, configuration, place } = await openSavedCheckpoint({ load: save, onNotice: () => {} });
  const { model: saved, tokenizer } = readAnySavedConfiguration(configuration, place);
  const stage = new BertStage({
    model: saved as BertModelConfiguration,
    device: 'cpu',
    dtype: 'float32',
    seed: 1,
  });
  const storage = allocateParameters(stage.parameters, { device: 'cpu', dtype: 'float32' });
  await loadCheckpoint({ checkpoint, tensors: parameterTensors(stage.parameters), ignore: () => true });
  const dispose = (): void => {
    stage.dispose();
    storage.dispose();
  };
  return { stage, tokenizer: await createTokenizer(tokenizer!), save, dispose };
}

/** Returns the probabilities [V] of the masked token of a text, as the trained model predicts them. */
function predict({ stage, tokenizer }: Trained, text: string): readonly number[] {
  const identify = (token: string): number => tokenizer.tokenIds!.get(token)!;
  const [before, after] = text.split(mask).map((part) => [...tokenizer.encode(part)]) as [number[], number[]];
  const tokens = [identify('[CLS]'), ...before, identify(mask), ...after, identify('[SEP]')];
  const { maskedLogits } = stage.predict({
    batchSize: 1,
    sequenceLength: tokens.length,
    tokens: Int32Array.from(tokens),
    tokenTypes: new Int32Array(tokens.length),
    lengths: Int32Array.of(tokens.length),
    maskedPositions: Int32Array.of(1 + before.length),
    maskedLabels: Int32Array.of(0),
    maskedWeights: Float32Array.of(1),
    numMasked: 1,
    sentenceOrderLabels: undefined,
    sampleNumbers: Float64Array.of(0),
  });
  // without the padding of the vocabulary, which no file has
  const logits = [...maskedLogits.subarray(0, tokenizer.vocabularySize)];
  const most = Math.max(...logits);
  const powers = logits.map((logit) => Math.exp(logit - most));
  const sum = powers.reduce((total, power) => total + power, 0);
  return powers.map((power) => power / sum);
}

const skipped = '(npm run dev -- transformers-js installs it)';

describe.skipIf(!hasTransformersJs)(`transformers.js with a BERT that was trained ${skipped}`, () => {
  let data: RunOptions;
  beforeAll(async () => {
    data = await preparedSentences(scratch);
  });

  it.each(names)(
    'fills masks with the probabilities that training predicts (%s)',
    async (name) => {
      const trained = await trainBert(name, data);
      const directory = join(scratch, `onnx-${names.indexOf(name)}`);
      await checkpointToOnnx({ load: trained.save, directory, dtypes, onNotice: () => {} });
      const { vocabularySize } = trained.tokenizer;
      const calls = [[texts, { top_k: vocabularySize }]];
      const answers = askTransformersJs(
        dtypes.map((dtype) => ({ directory, dtype, pipeline: { task: 'fill-mask', calls } })),
      );
      const expected = texts.map((text) => predict(trained, text));
      for (const [which, dtype] of dtypes.entries()) {
        const filled: readonly (readonly { token: number; score: number }[])[] = answers[which]!.results[0];
        for (const [index, scores] of filled.entries()) {
          expect(scores).toHaveLength(vocabularySize);
          const differences = scores.map(({ token, score }) => Math.abs(score - expected[index]![token]!));
          expect(Math.max(...differences), dtype).toBeLessThan(bounds[dtype]);
        }
      }
      // so that the frequencies of words alone would not pass for what was learned
      const [one, other] = expected as [readonly number[], readonly number[]];
      expect(Math.max(...one.map((value, token) => Math.abs(value - other[token]!)))).toBeGreaterThan(0.05);
      trained.dispose();
      reportEngine('transformers.js');
    },
    120_000,
  );
});
