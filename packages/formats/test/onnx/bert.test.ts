import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { allocateParameters } from '@mtl/autograd';
import {
  type BertModelConfiguration,
  BertStage,
  type BertTask,
  BertTaskStage,
  type TaskLoss,
} from '@mtl/models';
import { askTransformersJs, hasTransformersJs } from '@mtl/tooling/ask-transformers-js';
import { afterAll, describe, expect, it } from 'vitest';
import { parameterTensors } from '../../src/index.js';
import { type OnnxDtype, writeOnnxBert } from '../../src/onnx/index.js';
import { parseBert, vocabulary } from '../gguf/tiny-bert.js';
import { normal } from '../gguf/tiny-models.js';

const scratch = mkdtempSync(join(tmpdir(), 'mtl-onnx-'));
afterAll(() => rmSync(scratch, { recursive: true }));

const findId = (token: string): number => vocabulary.indexOf(token);
const tokenizerFiles = { 'vocab.txt': { contents: `${vocabulary.join('\n')}\n` } };

const bert = parseBert({});
const models = {
  bert,
  'norms-before': { ...bert, layerNormPlacement: 'pre' },
  rotary: { ...bert, positionEmbeddingType: 'rope', rotaryInterleaved: true },
} as const satisfies Readonly<Record<string, BertModelConfiguration>>;
const names = Object.keys(models) as (keyof typeof models)[];

/** Fills parameters with random values, and returns them. */
async function randomTensors(parameters: BertStage['parameters'], { hiddenSize }: BertModelConfiguration) {
  const tensors = parameterTensors(parameters);
  for (const [index, { name, globalShape, write }] of tensors.entries()) {
    const size = globalShape.reduce((product, length) => product * length, 1);
    const isNorm = /norm\.weight$/.test(name);
    const values = normal(size, index + 1).map((value) =>
      isNorm ? 1 + value / 4 : value / Math.sqrt(hiddenSize),
    );
    await write(new Uint8Array(Float32Array.from(values).buffer));
  }
  return tensors;
}

interface Sample {
  readonly tokens: readonly number[];
  readonly types: readonly number[];
}

/** Returns the logits of a task, row by row, as the model that is trained computes them. */
async function predict(
  model: BertModelConfiguration,
  { task, samples, directory }: { task: BertTask; samples: readonly Sample[]; directory: string },
): Promise<number[][]> {
  const stage = new BertTaskStage({ model, task, device: 'cpu', dtype: 'float32', seed: 1 });
  const storage = allocateParameters(stage.parameters, { device: 'cpu', dtype: 'float32' });
  const tensors = await randomTensors(stage.parameters, model);
  await writeOnnxBert({
    directory,
    model,
    tensors,
    task,
    tokenizerFiles,
    lowersCase: false,
    labels: ['no', 'yes'],
  });
  const length = Math.max(...samples.map(({ tokens }) => tokens.length));
  // position by position
  const rows = (values: (sample: Sample) => readonly number[]): Int32Array =>
    Int32Array.from(
      Array.from({ length }, (_, at) => samples.map((sample) => values(sample)[at] ?? 0)).flat(),
    );
  const batch = {
    batchSize: samples.length,
    numChoices: 1,
    sequenceLength: length,
    tokens: rows(({ tokens }) => tokens),
    tokenTypes: rows(({ types }) => types),
    lengths: Int32Array.from(samples, ({ tokens }) => tokens.length),
    labels: new Int32Array(samples.length),
    startPositions: new Int32Array(samples.length),
    endPositions: new Int32Array(samples.length),
    sampleNumbers: Float64Array.from(samples, (_, index) => index),
  };
  stage.evaluate({ microBatch: 0, batch, lossFactors: { task_loss: 1 } });
  const [taken] = stage.takeLosses(0);
  const { logits } = taken as TaskLoss;
  const values = logits.toArray();
  (taken as TaskLoss).dispose();
  stage.dispose();
  storage.dispose();
  const width = values.length / logits.shape[0]!;
  return Array.from({ length: logits.shape[0]! }, (_, row) => values.slice(row * width, (row + 1) * width));
}

const softmax = (logits: readonly number[]): number[] => {
  const most = Math.max(...logits);
  const powers = logits.map((logit) => Math.exp(logit - most));
  const sum = powers.reduce((total, power) => total + power, 0);
  return powers.map((power) => power / sum);
};

const frame = (text: string): number[] => [findId('[CLS]'), ...text.split(' ').map(findId), findId('[SEP]')];

describe.skipIf(!hasTransformersJs)('transformers.js (npm run dev -- transformers-js installs it)', () => {
  const texts = ['the cat sat on a [MASK] .', 'the [MASK] sat'];

  it.each(names)(
    'fills masks, and has features, of a BERT (%s)',
    async (name) => {
      const model = models[name];
      const directory = join(scratch, `masks-${name}`);
      const stage = new BertStage({ model, device: 'cpu', dtype: 'float32', seed: 1 });
      const storage = allocateParameters(stage.parameters, { device: 'cpu', dtype: 'float32' });
      const tensors = await randomTensors(stage.parameters, model);
      const dtypes: readonly OnnxDtype[] = ['fp32', 'fp16', 'q8', 'q4'];
      await writeOnnxBert({ directory, model, tensors, dtypes, tokenizerFiles, lowersCase: false });
      const pipeline = { task: 'fill-mask', calls: [[texts, { top_k: 3 }]] };
      const features = { task: 'feature-extraction', calls: [[texts[0]!, { pooling: 'mean' }]] };
      const [masks, found, ...others] = askTransformersJs([
        { directory, pipeline },
        { directory, pipeline: features },
        ...dtypes.slice(1).map((dtype) => ({ directory, dtype, pipeline })),
      ]);
      const expected = texts.map((text) => {
        const tokens = frame(text);
        const prediction = stage.predict({
          batchSize: 1,
          sequenceLength: tokens.length,
          tokens: Int32Array.from(tokens),
          tokenTypes: new Int32Array(tokens.length),
          lengths: Int32Array.of(tokens.length),
          maskedPositions: Int32Array.of(tokens.indexOf(findId('[MASK]'))),
          maskedLabels: Int32Array.of(0),
          maskedWeights: Float32Array.of(1),
          numMasked: 1,
          sentenceOrderLabels: undefined,
          sampleNumbers: Float64Array.of(0),
        });
        return softmax([...prediction.maskedLogits]);
      });
      const compare = (
        results: readonly (readonly { readonly token: number; readonly score: number }[])[],
        bound: number,
      ): void => {
        for (const [index, best] of results.entries()) {
          for (const { token, score } of best)
            expect(Math.abs(score - expected[index]![token]!)).toBeLessThan(bound);
        }
      };
      expect(masks!.results[0].map((best: { token: number }[]) => best[0]!.token)).toEqual(
        expected.map((scores) => scores.indexOf(Math.max(...scores))),
      );
      compare(masks!.results[0], 1e-5);
      // twice what was measured, of probabilities: half precision; 8 bits; 4 bits
      for (const [index, bound] of [2e-3, 0.05, 0.3].entries()) compare(others[index]!.results[0], bound);
      expect(found!.results[0][0]).toHaveLength(model.hiddenSize);
      stage.dispose();
      storage.dispose();
    },
    120_000,
  );

  it.each(names)(
    'classifies texts of several lengths (%s)',
    async (name) => {
      const samples = ['the cat sat on a mat', 'dog'].map((text) => ({ tokens: frame(text), types: [] }));
      const directory = join(scratch, `classes-${name}`);
      const task = { kind: 'classification', numClasses: 2 } as const;
      const logits = await predict(models[name], { task, samples, directory });
      const calls = [[['the cat sat on a mat', 'dog'], { top_k: null }]];
      const [answer] = askTransformersJs([{ directory, pipeline: { task: 'text-classification', calls } }]);
      for (const [index, classes] of answer!.results[0].entries()) {
        const expected = softmax(logits[index]!);
        for (const { label, score } of classes) {
          expect(Math.abs(score - expected[['no', 'yes'].indexOf(label)]!)).toBeLessThan(1e-5);
        }
      }
    },
    120_000,
  );

  it.each(names)(
    'answers questions (%s)',
    async (name) => {
      const [question, context] = ['the dog ?', 'the cat sat on a mat , dog ran'];
      const known = (text: string): number[] =>
        text.split(' ').map((word) => (findId(word) < 0 ? findId('[UNK]') : findId(word)));
      const first = [findId('[CLS]'), ...known(question!), findId('[SEP]')];
      const tokens = [...first, ...known(context!), findId('[SEP]')];
      const samples = [{ tokens, types: tokens.map((_, at) => (at < first.length ? 0 : 1)) }];
      const directory = join(scratch, `answers-${name}`);
      const [starts, ends] = (await predict(models[name], {
        task: { kind: 'span' },
        samples,
        directory,
      })) as [number[], number[]];
      const isInContext = (at: number): boolean =>
        at === 0 || (at >= first.length && at < tokens.length - 1 && tokens[at] !== findId('[UNK]'));
      const probabilities = [starts, ends].map((logits) =>
        softmax(logits.map((logit, at) => (isInContext(at) ? logit : Number.NEGATIVE_INFINITY))),
      );
      let best = 0;
      for (let start = 1; start < tokens.length; start++) {
        for (let end = start; end < tokens.length; end++) {
          best = Math.max(best, probabilities[0]![start]! * probabilities[1]![end]!);
        }
      }
      const pipeline = { task: 'question-answering', calls: [[question, context]] };
      const [answer] = askTransformersJs([{ directory, pipeline }]);
      expect(Math.abs(answer!.results[0].score - best)).toBeLessThan(1e-5);
    },
    120_000,
  );
});
