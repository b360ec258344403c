import { allocateParameters, attention, initializeParameter, Tape } from '@mtl/autograd';
import { matmul, numLiveTensors, Tensor, tidy } from '@mtl/kernels';
import { GptLanguageModel, GptStage, gptBlock } from '@mtl/models';
import { smallGpt } from '@mtl/models/testing';
import { afterAll, describe, expect, it } from 'vitest';
import { fixtureDirectory, fixtureNames, gpt2Names, loadModel, readExpected } from './huggingface-fixture.js';

const largestDifference = (a: ArrayLike<number>, b: ArrayLike<number>): number =>
  Array.from(a).reduce((largest, value, index) => Math.max(largest, Math.abs(value - b[index]!)), 0);

const argmax = (values: Float32Array): number => values.indexOf(values.reduce((a, b) => Math.max(a, b)));

/** Logits [length, V] of one text by the attention of training: no cache. */
function uncachedLogits(stage: GptStage, tokens: readonly number[]): Float32Array[] {
  const tape = new Tape({ recording: false });
  const ids = (values: readonly number[]) =>
    tape.input(Tensor.from(Int32Array.from(values), { shape: [values.length, 1], dtype: 'int32' }));
  const inputs = { tokens: ids(tokens), positionIds: ids(tokens.map((_, index) => index)) };
  const hidden = stage.hiddenStates(tape, inputs, {
    attend: (inner, { query, key, value, windowSize }) =>
      attention(inner, { query, key, value, visibility: { windowSize, causal: true } }),
  });
  const { vocabularySize, hiddenSize } = stage.model;
  const { values } = tidy(() => {
    const logits = Tensor.empty({ shape: [tokens.length, vocabularySize], dtype: 'float32' });
    matmul({
      output: logits,
      left: hidden.tensor.reshape([tokens.length, hiddenSize]),
      right: stage.outputWeight!.data.rows(0, vocabularySize),
      transposeRight: true,
    });
    return { values: logits.read<'float32'>() };
  });
  for (const variable of [hidden, inputs.tokens, inputs.positionIds]) variable.release();
  return tokens.map((_, row) => values.subarray(row * vocabularySize, (row + 1) * vocabularySize));
}

/** Logits after the prompt and after each further token, computed with one key-value cache. */
function cachedLogits(
  model: GptLanguageModel,
  tokens: readonly number[],
  promptLength: number,
): Float32Array[] {
  const cache = model.newCache({ batchSize: 1, capacity: tokens.length });
  const append = (from: number, to: number): Float32Array =>
    model.forward({ cache, sequences: [{ slot: 0, tokens: Int32Array.from(tokens.slice(from, to)) }] });
  const logits = [append(0, promptLength)];
  for (let end = promptLength + 1; end <= tokens.length; end++) logits.push(append(end - 1, end));
  cache.dispose();
  return logits;
}

describe.each(fixtureNames)('GptLanguageModel of %s', (name) => {
  it("gives transformers' logits, with every split between prompt and steps", async () => {
    const { model, dispose } = await loadModel(fixtureDirectory(name));
    const { tokens, logits } = await readExpected(name);
    tokens.forEach((sample, index) => {
      for (const promptLength of [1, 5, sample.length]) {
        cachedLogits(model, sample, promptLength).forEach((actual, step) => {
          // float32 rounding of logits around 10; the fixture's are float64
          expect(largestDifference(actual, logits[index]![promptLength - 1 + step]!)).toBeLessThan(2e-5);
        });
      }
    });
    dispose();
  });

  it("generates transformers' tokens greedily up to the last position", async () => {
    const { model, dispose } = await loadModel(fixtureDirectory(name));
    const { prompt, generated } = await readExpected(name);
    const cache = model.newCache({ batchSize: 1, capacity: model.maximumContext });
    const tokens: number[] = [];
    let next = Int32Array.from(prompt);
    while (prompt.length + tokens.length < model.maximumContext) {
      tokens.push(argmax(model.forward({ cache, sequences: [{ slot: 0, tokens: next }] })));
      next = Int32Array.of(tokens.at(-1)!);
    }
    expect(tokens).toEqual(generated);
    cache.dispose();
    dispose();
  });

  it("has transformers' loss, token by token", async () => {
    const { model, dispose } = await loadModel(fixtureDirectory(name));
    const { tokens, logits, loss } = await readExpected(name);
    const losses = model.tokenLosses({
      tokens: Int32Array.from(tokens.flatMap((sample) => sample.slice(0, -1))),
      labels: Int32Array.from(tokens.flatMap((sample) => sample.slice(1))),
      batchSize: tokens.length,
    });
    const expected = tokens.flatMap((sample, index) =>
      sample.slice(1).map((label, step) => {
        const row = logits[index]![step]!;
        return Math.log(row.reduce((sum, value) => sum + Math.exp(value), 0)) - row[label]!;
      }),
    );
    // float32 rounding of losses around 10
    expect(largestDifference(losses, expected)).toBeLessThan(2e-5);
    const mean = losses.reduce((sum, value) => sum + value, 0) / losses.length;
    expect(Math.abs(mean - loss)).toBeLessThan(5e-6);
    dispose();
  });
});

// Llama models are tested in llama.test.ts
describe.each(gpt2Names)('GptLanguageModel of %s', (name) => {
  it.each([
    // float32 rounding
    ['float32', 2e-5],
    // both paths round hidden states to 8 bits; a different order of sums rounds some up and others down:
    // logits of 10 differ by up to 2^-8
    ['bfloat16', 0.15],
  ] as const)('computes with a cache what it computes without, in %s', async (dtype, tolerance) => {
    const { stage, model, dispose } = await loadModel(fixtureDirectory(name), { dtype });
    const { prompt, generated } = await readExpected(name);
    const tokens = [...prompt, ...generated];
    const expected = uncachedLogits(stage, tokens).slice(prompt.length - 1);
    cachedLogits(model, tokens, prompt.length).forEach((actual, step) => {
      expect(largestDifference(actual, expected[step]!), `step ${step}`).toBeLessThan(tolerance);
    });
    dispose();
  });
});

describe('GptLanguageModel', () => {
  it('keeps sequences of different lengths apart, and frees all memory', async () => {
    const before = numLiveTensors();
    const { model, dispose } = await loadModel(fixtureDirectory('huggingface-gpt2'));
    const { tokens, logits } = await readExpected('huggingface-gpt2');
    const cache = model.newCache({ batchSize: 3, capacity: 12 });
    const at = (sample: number, from: number, to: number): Int32Array =>
      Int32Array.from(tokens[sample]!.slice(from, to));
    // slot 1 is left out: slots are independent of positions in the call
    const calls = [
      [
        { slot: 2, sample: 0, from: 0, to: 3 },
        { slot: 0, sample: 1, from: 0, to: 7 },
      ],
      [
        { slot: 0, sample: 1, from: 7, to: 8 },
        { slot: 2, sample: 0, from: 3, to: 4 },
      ],
      [{ slot: 2, sample: 0, from: 4, to: 12 }],
    ];
    for (const call of calls) {
      const result = model.forward({
        cache,
        sequences: call.map(({ slot, sample, from, to }) => ({ slot, tokens: at(sample, from, to) })),
      });
      call.forEach(({ sample, to }, row) => {
        const actual = result.subarray(row * 101, (row + 1) * 101);
        expect(largestDifference(actual, logits[sample]![to - 1]!)).toBeLessThan(2e-5);
      });
    }
    expect(cache.lengths).toEqual([8, 0, 12]);
    expect(() => model.forward({ cache, sequences: [{ slot: 2, tokens: at(0, 0, 1) }] })).toThrow(
      expect.objectContaining({ code: 'MTL_CONTEXT' }),
    );
    cache.dispose();
    dispose();
    expect(numLiveTensors()).toBe(before);
  });

  it('refuses a cache beyond the position embeddings and a part of a model', async () => {
    const { model, stage, dispose } = await loadModel(fixtureDirectory('huggingface-gpt2'));
    expect(() => model.newCache({ batchSize: 1, capacity: 33 })).toThrow(
      expect.objectContaining({ code: 'MTL_CONTEXT' }),
    );
    const part = new GptStage({
      model: stage.model,
      device: 'cpu',
      dtype: 'float32',
      seed: 1,
      layers: { start: 0, end: 1 },
    });
    expect(() => new GptLanguageModel(part)).toThrow(expect.objectContaining({ code: 'MTL_STAGE' }));
    dispose();
  });
});

it('keeps keys and values of layers whose groups, head sizes and windows differ', () => {
  const model = { ...smallGpt, numLayers: 3, attentionDropout: 0, hiddenDropout: 0 };
  const standard = gptBlock(model);
  const attentions = [
    {},
    { numGroups: 2, headSize: 10, windowSize: 3 },
    { numHeads: 6, numGroups: 3, headSize: 4 },
  ];
  const stage = new GptStage({
    model,
    block: (layer) => ({ ...standard, attention: { ...standard.attention, ...attentions[layer] } }),
    device: 'cpu',
    dtype: 'float32',
    seed: 1,
  });
  const storage = allocateParameters(stage.parameters, { device: 'cpu', dtype: 'float32' });
  for (const parameter of stage.parameters) initializeParameter(parameter, parameter.data, 7);
  const tokens = [3, 1, 4, 1, 5, 9, 2, 6];
  const expected = uncachedLogits(stage, tokens);
  for (const promptLength of [1, 4]) {
    cachedLogits(new GptLanguageModel(stage), tokens, promptLength).forEach((actual, step) => {
      // float32 rounding: sums of attention in another order
      expect(largestDifference(actual, expected[promptLength - 1 + step]!)).toBeLessThan(1e-5);
    });
  }
  storage.dispose();
});

describe('a layer with a window', () => {
  const model = {
    ...smallGpt,
    numLayers: 2,
    maxPositionEmbeddings: 300,
    attentionDropout: 0,
    hiddenDropout: 0,
  };
  const standard = gptBlock(model);
  const windowSize = 5;
  const stage = new GptStage({
    model,
    block: (layer) => ({
      ...standard,
      attention: { ...standard.attention, numGroups: 2, ...(layer === 1 && { windowSize }) },
    }),
    device: 'cpu',
    dtype: 'float32',
    seed: 1,
  });
  const storage = allocateParameters(stage.parameters, { device: 'cpu', dtype: 'float32' });
  for (const parameter of stage.parameters) initializeParameter(parameter, parameter.data, 7);
  const languageModel = new GptLanguageModel(stage);
  const tokens = Array.from({ length: 299 }, (_, at) => (at * at + 3) % 11);
  afterAll(() => storage.dispose());

  it.each([1, 68, 69, 200])('keeps what it sees, after a prompt of %i tokens', (promptLength) => {
    const expected = uncachedLogits(stage, tokens);
    cachedLogits(languageModel, tokens, promptLength).forEach((actual, step) => {
      // float32 rounding: sums of attention in another order
      expect(largestDifference(actual, expected[promptLength - 1 + step]!)).toBeLessThan(1e-5);
    });
  });

  it('has rows for its window and for new tokens', () => {
    const { headSize } = standard.attention;
    using cache = languageModel.newCache({ batchSize: 3, capacity: 300 });
    // keys and values of two groups in float32; 64 rows for new tokens
    expect(cache.bytes).toBe(2 * 4 * 3 * 2 * headSize * (300 + windowSize + 64));
  });

  it.each([5, 68, 200])('is copied to another slot, which goes on alike, after %i tokens', (promptLength) => {
    using cache = languageModel.newCache({ batchSize: 3, capacity: 300 });
    const forward = (slot: number, from: number, to: number): Float32Array =>
      languageModel.forward({
        cache,
        sequences: [{ slot, tokens: Int32Array.from(tokens.slice(from, to)) }],
      });
    forward(0, 0, 90); // of another text, which the copy replaces
    forward(2, 0, promptLength);
    cache.copySequence({ from: 2, to: 0 });
    expect(cache.lengths).toEqual([promptLength, 0, promptLength]);
    for (let at = promptLength; at < promptLength + 80; at++)
      expect(forward(0, at, at + 1)).toEqual(forward(2, at, at + 1));
  });

  it('refuses to go back to positions whose window it no longer has', () => {
    using cache = languageModel.newCache({ batchSize: 1, capacity: 300 });
    const append = (from: number, to: number) =>
      languageModel.forward({
        cache,
        sequences: [{ slot: 0, tokens: Int32Array.from(tokens.slice(from, to)) }],
      });
    const first = append(0, 100);
    cache.lengths[0] = 60;
    expect(() => append(60, 70)).toThrow(
      expect.objectContaining({ code: 'MTL_CONTEXT', details: { slot: 0, position: 60, windowSize } }),
    );
    cache.lengths[0] = 0;
    expect(append(0, 100)).toEqual(first);
    cache.lengths[0] = 99;
    expect(largestDifference(append(99, 100), first)).toBeLessThan(1e-5);
  });
});
