import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { allocateParameters, initializeParameter } from '@mtl/autograd';
import { type LogicalTensor, SafetensorsDirectory } from '@mtl/checkpoint';
import { numLiveTensors } from '@mtl/kernels';
import { type BertTask, BertTaskStage, type TaskLoss, type TaskTokenBatch } from '@mtl/models';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { parameterTensors, readHuggingFaceBertForTask, writeHuggingFaceBertForTask } from '../src/index.js';
import { fixturePath, readFixture } from './bert-fixture.js';

interface Expected {
  readonly batch: {
    readonly batchSize: number;
    readonly numChoices: number;
    readonly tokens: number[];
    readonly tokenTypes: number[];
    readonly lengths: number[];
    readonly labels?: number[];
    readonly startPositions?: number[];
    readonly endPositions?: number[];
  };
  readonly logits: readonly number[];
  readonly loss: number;
}

const tasks: readonly (readonly [string, BertTask])[] = [
  ['classification', { kind: 'classification', numClasses: 3 }],
  ['choice', { kind: 'multiple-choice' }],
  ['span', { kind: 'span' }],
];

let live: number;
beforeEach(() => {
  live = numLiveTensors();
});
afterEach(() => expect(numLiveTensors()).toBe(live));

function makeBatch({ batch }: Expected): TaskTokenBatch {
  const { batchSize, numChoices, lengths } = batch;
  const ids = (values: number[] | undefined) => values && Int32Array.from(values);
  return {
    batchSize,
    numChoices,
    sequenceLength: batch.tokens.length / lengths.length,
    tokens: ids(batch.tokens)!,
    tokenTypes: ids(batch.tokenTypes)!,
    lengths: ids(lengths)!,
    labels: ids(batch.labels),
    startPositions: ids(batch.startPositions),
    endPositions: ids(batch.endPositions),
    sampleNumbers: Float64Array.from({ length: batchSize }, (_, row) => row),
  };
}

async function load(name: string, task: BertTask, directory = `huggingface-bert-${name}`) {
  const source = await readHuggingFaceBertForTask({
    directory: fixturePath(directory),
    task,
    makeVocabularySizeDivisibleBy: 16,
  });
  const model = { ...source.configuration, hiddenDropout: 0, attentionDropout: 0 };
  const stage = new BertTaskStage({ model, task, device: 'cpu', dtype: 'float32', seed: 1 });
  const storage = allocateParameters(stage.parameters, {
    device: 'cpu',
    dtype: 'float32',
    mainGradients: true,
  });
  for (const parameter of stage.parameters) {
    initializeParameter(parameter, parameter.data, 1);
    parameter.mainGradient.zero();
  }
  const held = stage.parameters.filter((parameter) => source.parameterNames.has(parameter.name));
  await source.load(parameterTensors(held));
  return { source, stage, held, dispose: () => storage.dispose() };
}

/** Names, shapes and bytes of the weights of a directory. */
async function tensorsIn(directory: string): Promise<Map<string, readonly [readonly number[], Buffer]>> {
  const weights = await SafetensorsDirectory.open(directory);
  const entries = new Map<string, readonly [readonly number[], Buffer]>();
  for (const [name, { shape, bytes }] of weights.tensors)
    entries.set(name, [shape, Buffer.from(await weights.read({ name, target: new Uint8Array(bytes) }))]);
  await weights.close();
  return new Map([...entries].toSorted(([one], [other]) => (one < other ? -1 : 1)));
}

/** The values of a fixture's gradients in our layout. */
async function readGradients(name: string, stage: BertTaskStage): Promise<Map<string, Float32Array>> {
  const { task } = stage;
  const directory = fixturePath(`huggingface-bert-${name}/gradients`);
  const source = await readHuggingFaceBertForTask({ directory, task, makeVocabularySizeDivisibleBy: 16 });
  const values = new Map<string, Float32Array>();
  const tensors = parameterTensors(stage.parameters).map(({ withMemory, ...tensor }): LogicalTensor => {
    const write = (bytes: Uint8Array) =>
      void values.set(tensor.name, new Float32Array(Uint8Array.from(bytes).buffer));
    return { ...tensor, write };
  });
  await source.load(tensors);
  return values;
}

function run(stage: BertTaskStage, batch: TaskTokenBatch, how: 'forward' | 'evaluate') {
  stage[how]({ microBatch: 0, batch, lossFactors: { task_loss: 1 / batch.batchSize } });
  if (how === 'forward') stage.backwardInput({ microBatch: 0, weights: true });
  const [taken] = stage.takeLosses(0);
  const { name, losses, weights, logits, dispose } = taken as TaskLoss;
  const factors = weights.toArray();
  const loss = losses.toArray().reduce((sum, value, index) => sum + value * factors[index]!, 0);
  const result = { loss, logits: logits.toArray(), shape: logits.shape, name };
  dispose();
  return result;
}

describe('a RoFormer', () => {
  it('begins a fine-tuning, and is saved only where its class of transformers has the same head', async () => {
    const start = fixturePath('huggingface-roformer');
    const parent = mkdtempSync(join(tmpdir(), 'mtl-bert-task-'));
    for (const [, task] of tasks) {
      const source = await readHuggingFaceBertForTask({ directory: start, task });
      const model = source.configuration;
      const stage = new BertTaskStage({ model, task, device: 'cpu', dtype: 'float32', seed: 1 });
      const storage = allocateParameters(stage.parameters, { device: 'cpu', dtype: 'float32' });
      const held = stage.parameters.filter(({ name }) => source.parameterNames.has(name));
      // two layers of 12, three of embeddings
      expect(held.length).toBe(2 * 12 + 4);
      for (const parameter of stage.parameters) initializeParameter(parameter, parameter.data, 1);
      await source.load(parameterTensors(held));
      const directory = join(parent, task.kind);
      const tensors = parameterTensors(stage.parameters);
      const writing = writeHuggingFaceBertForTask({ directory, task, model, tensors });
      if (task.kind === 'span') {
        await writing;
        const again = await readHuggingFaceBertForTask({ directory, task });
        expect(again.configuration).toEqual(model);
        expect([...again.parameterNames].sort()).toEqual(stage.parameters.map(({ name }) => name).sort());
      } else {
        await expect(writing).rejects.toMatchObject({ code: 'MTL_HUGGING_FACE_CONFIG', exitCode: 2 });
      }
      storage.dispose();
      stage.dispose();
    }
    rmSync(parent, { recursive: true });
  });
});

describe.each(tasks)('%s', (name, task) => {
  const expected = readFixture<Expected>(`huggingface-bert-${name}/expected.json`);
  const batch = makeBatch(expected);

  it("gives transformers' logits, loss and gradients", async () => {
    const { stage, held, dispose } = await load(name, task);
    expect(held).toEqual(stage.parameters);
    const { loss, logits } = run(stage, batch, 'forward');
    // the bound of the design is 1e-4 for logits; transformers computes in float64
    const { numRows, sequenceLength } = { numRows: batch.lengths.length, ...batch };
    expected.logits.forEach((value, index) => {
      const isPadding =
        name === 'span' &&
        index % sequenceLength >= batch.lengths[Math.floor(index / sequenceLength) % numRows]!;
      if (!isPadding) expect(Math.abs(logits[index]! - value), `logit ${index}`).toBeLessThan(1e-4);
    });
    // relative, since the design bounds the relative error against PyTorch in float32
    expect(Math.abs(loss / expected.loss - 1)).toBeLessThan(1e-5);
    const gradients = await readGradients(name, stage);
    for (const { name: parameter, mainGradient } of stage.parameters) {
      const [actual, exact] = [mainGradient.toArray(), gradients.get(parameter)!];
      const difference = Math.hypot(...actual.map((value, index) => value - exact[index]!));
      // every parameter's gradient within 1e-5 of its norm; the gradient of keys' biases is a sum close to
      // zero
      expect(difference, parameter).toBeLessThan(1e-5 * Math.hypot(...exact) + 1e-7);
    }
    dispose();
  });

  it('evaluates to the same logits, also without labels, and with any tokens in the padding', async () => {
    const { stage, dispose } = await load(name, task);
    const trained = run(stage, batch, 'forward');
    // the same kernels run, so not a bit differs
    expect(run(stage, batch, 'evaluate')).toEqual(trained);
    const targets = { labels: undefined, startPositions: undefined, endPositions: undefined };
    expect(run(stage, { ...batch, ...targets }, 'evaluate')).toEqual({ ...trained, loss: 0 });
    const numRows = batch.lengths.length;
    const tokens = batch.tokens.map((token, index) =>
      Math.floor(index / numRows) < batch.lengths[index % numRows]! ? token : 7,
    );
    expect(tokens).not.toEqual(batch.tokens);
    const other = run(stage, { ...batch, tokens }, 'evaluate');
    expect(other.loss).toBe(trained.loss);
    expect(trained.name).toBe('task_loss');
    dispose();
  });

  it('is saved as transformers saves it, bit for bit', async () => {
    const { source, stage, dispose } = await load(name, task);
    const parent = mkdtempSync(join(tmpdir(), 'mtl-bert-task-'));
    const directory = join(parent, 'saved');
    const tensors = parameterTensors(stage.parameters);
    await writeHuggingFaceBertForTask({ directory, task, model: source.configuration, tensors });
    const theirs = fixturePath(`huggingface-bert-${name}`);
    const [ours, wanted] = [directory, theirs].map(
      (path) => JSON.parse(readFileSync(join(path, 'config.json'), 'utf8')) as Record<string, unknown>,
    );
    // all of config.json, labels included, equals the output of transformers
    for (const [key, value] of Object.entries(ours!))
      if (key !== 'torch_dtype') expect(value, key).toEqual(wanted![key]);
    for (const key of ['architectures', 'id2label', 'label2id']) expect(ours![key]).toEqual(wanted![key]);
    expect(await tensorsIn(directory)).toEqual(await tensorsIn(theirs));
    rmSync(parent, { recursive: true });
    dispose();
  });

  it('refuses a training step without the loss factor of a sample', async () => {
    const { stage, dispose } = await load(name, task);
    expect(() => stage.forward({ microBatch: 0, batch, lossFactors: {} })).toThrow(
      expect.objectContaining({ code: 'MTL_STAGE' }),
    );
    dispose();
  });

  it('trims padding without changing the result', async () => {
    const { stage, dispose } = await load(name, task);
    const longest = Math.max(...batch.lengths);
    const numRows = batch.lengths.length;
    const longer = 3;
    const widened = (values: Int32Array) =>
      Int32Array.from({ length: values.length + longer * numRows }, (_, index) => values[index] ?? 0);
    const wide = {
      ...batch,
      sequenceLength: batch.sequenceLength + longer,
      tokens: widened(batch.tokens),
      tokenTypes: widened(batch.tokenTypes),
    };
    const narrow = {
      ...batch,
      sequenceLength: longest,
      tokens: batch.tokens.subarray(0, longest * numRows),
      tokenTypes: batch.tokenTypes.subarray(0, longest * numRows),
    };
    const { loss } = run(stage, batch, 'evaluate');
    // float32 sums over another number of keys
    for (const changed of [wide, narrow])
      expect(Math.abs(run(stage, changed, 'evaluate').loss / loss - 1)).toBeLessThan(2e-6);
    dispose();
  });
});

describe('directories to start from', () => {
  const classification = { kind: 'classification', numClasses: 3 } as const;

  it.each([
    ['huggingface-bert', classification, ['classification_head.weight', 'classification_head.bias']],
    [
      'huggingface-bert-masked',
      classification,
      ['pooler.dense.weight', 'pooler.dense.bias', 'classification_head.weight', 'classification_head.bias'],
    ],
    ['huggingface-bert', { kind: 'span' } as const, ['span_head.weight', 'span_head.bias']],
    ['huggingface-bert-choice', classification, ['classification_head.weight', 'classification_head.bias']],
    [
      'huggingface-bert-span',
      { kind: 'multiple-choice' } as const,
      ['pooler.dense.weight', 'pooler.dense.bias', 'multichoice_head.weight', 'multichoice_head.bias'],
    ],
  ] as const)('%s gives all but what it has not got', async (directory, task, fresh) => {
    const { stage, held, dispose } = await load('', task, directory);
    const missing = stage.parameters.filter((parameter) => !held.includes(parameter));
    expect(missing.map((parameter) => parameter.name)).toEqual(fresh);
    dispose();
  });
});

describe('in a pipeline, and with dropout', () => {
  it.each(tasks)('two stages of %s give what one gives', async (name, task) => {
    const { source, stage, dispose } = await load(name, task);
    const expected = run(
      stage,
      makeBatch(readFixture<Expected>(`huggingface-bert-${name}/expected.json`)),
      'forward',
    );
    const batch = makeBatch(readFixture<Expected>(`huggingface-bert-${name}/expected.json`));
    const model = { ...source.configuration, hiddenDropout: 0, attentionDropout: 0 };
    const parts = [0, 1].map(
      (layer) =>
        new BertTaskStage({
          model,
          task,
          layers: { start: layer, end: layer + 1 },
          device: 'cpu',
          dtype: 'float32',
          seed: 1,
        }),
    ) as [BertTaskStage, BertTaskStage];
    const storages = parts.map((part) =>
      allocateParameters(part.parameters, { device: 'cpu', dtype: 'float32', mainGradients: true }),
    );
    for (const part of parts) await source.load(parameterTensors(part.parameters));
    for (const { parameters } of parts) for (const { mainGradient } of parameters) mainGradient.zero();
    const [first, last] = parts;
    const call = { microBatch: 0, batch, lossFactors: { task_loss: 1 / batch.batchSize } };
    const boundary = first.forward(call)!;
    expect(boundary.shape).toEqual(first.boundaryShape(batch));
    last.forward({ ...call, input: boundary });
    boundary.dispose();
    const gradient = last.backwardInput({ microBatch: 0, weights: true })!;
    first.backwardInput({ microBatch: 0, outputGradient: gradient, weights: true });
    gradient.dispose();
    const loss = last.takeLosses(0)[0] as TaskLoss;
    // the same kernels in the same order
    expect(loss.logits.toArray()).toEqual(expected.logits);
    loss.dispose();
    const gradients = new Map(
      parts
        .flatMap(({ parameters }) => parameters)
        .map((parameter) => [parameter.name, parameter.mainGradient.toArray()]),
    );
    expect([...gradients.keys()].sort()).toEqual(stage.parameters.map((parameter) => parameter.name).sort());
    for (const { name: parameter, mainGradient } of stage.parameters)
      expect(gradients.get(parameter)).toEqual(mainGradient.toArray());
    for (const storage of storages) storage.dispose();
    dispose();
  });

  it('uses separate dropout masks for the choices of a sample, however the batch is split', async () => {
    const { source, dispose } = await load('choice', { kind: 'multiple-choice' });
    const model = { ...source.configuration, hiddenDropout: 0.3, attentionDropout: 0.3 };
    const stage = new BertTaskStage({
      model,
      task: { kind: 'multiple-choice' },
      device: 'cpu',
      dtype: 'float32',
      seed: 1,
    });
    const storage = allocateParameters(stage.parameters, {
      device: 'cpu',
      dtype: 'float32',
      mainGradients: true,
    });
    await source.load(parameterTensors(stage.parameters));
    for (const { mainGradient } of stage.parameters) mainGradient.zero();
    const batch = makeBatch(readFixture<Expected>('huggingface-bert-choice/expected.json'));
    const { numChoices, lengths } = batch;
    const numRows = lengths.length;
    // one sample whose choices are all the same text
    const selectRows = (values: Int32Array, rows: readonly number[]) =>
      Int32Array.from(
        { length: (values.length / numRows) * rows.length },
        (_, index) => values[Math.floor(index / rows.length) * numRows + rows[index % rows.length]!]!,
      );
    const take = (samples: readonly number[], rows: readonly number[]): TaskTokenBatch => ({
      ...batch,
      batchSize: samples.length,
      tokens: selectRows(batch.tokens, rows),
      tokenTypes: selectRows(batch.tokenTypes, rows),
      lengths: selectRows(lengths, rows),
      labels: Int32Array.from(samples, (sample) => batch.labels![sample]!),
      sampleNumbers: Float64Array.from(samples),
    });
    const same = run(stage, take([0], [0, 0, 0, 0]), 'forward');
    expect(new Set(same.logits).size).toBe(numChoices);
    const rowsOfSample = (sample: number) =>
      Array.from({ length: numChoices }, (_, choice) => sample * numChoices + choice);
    const whole = run(stage, batch, 'forward');
    const alone = [0, 1, 2].flatMap(
      (sample) => run(stage, take([sample], rowsOfSample(sample)), 'forward').logits,
    );
    alone.forEach((value, index) => {
      // matmuls of other sizes may add in another order
      expect(Math.abs(value - whole.logits[index]!)).toBeLessThan(1e-5);
    });
    storage.dispose();
    dispose();
  });
});
