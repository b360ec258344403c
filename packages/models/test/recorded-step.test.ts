import { limitMemory, memoryStatistics, numLiveTensors, observeOperations, trimMemory } from '@mtl/kernels';
import { GptLanguageModel, type GptModelConfiguration, type GptStage } from '@mtl/models';
import { afterEach, describe, expect, it } from 'vitest';
import { PoisoningKeeper } from './support/poisoning-keeper.js';
import { llamaVariants, otherVariants, softCaps } from './support/small-llama.js';
import { buildGpt } from './tensor-parallel/small-gpt.js';

type Cache = ReturnType<GptLanguageModel['newCache']>;
/** The tokens of a call by slot. */
type Tokens = Readonly<Record<number, readonly number[]>>;

const forward = (model: GptLanguageModel, cache: Cache, tokens: Tokens): Float32Array =>
  model.forward({
    cache,
    sequences: Object.entries(tokens).map(([slot, each]) => ({
      slot: Number(slot),
      tokens: Int32Array.from(each),
    })),
  });

/** The calls of two texts: prompts, steps of both, steps of one, and steps of both again. */
const calls: readonly Tokens[] = [
  { 0: [3, 14, 15], 1: [9, 2, 6, 5] },
  ...[7, 21, 40].map((token) => ({ 0: [token], 1: [token + 3] })),
  ...[33, 8, 60].map((token) => ({ 1: [token] })),
  ...[12, 5, 71].map((token) => ({ 0: [token], 1: [89 - token] })),
];

/** Returns the logits of each call; with `observed` all operations are executed one by one. */
function computeLogits(stage: GptStage, { observed }: { observed: boolean }) {
  const model = new GptLanguageModel(stage);
  const cache = model.newCache({ batchSize: 2, capacity: 14 });
  const isRecorded: boolean[] = [];
  const logits = calls.map((tokens) => {
    const compute = () => forward(model, cache, tokens);
    const result = observed ? observeOperations(() => {}, compute) : compute();
    isRecorded.push(cache.recording?.step !== undefined);
    return result;
  });
  cache.dispose();
  return { logits, isRecorded };
}

/** Returns a cache with one token, and a function that computes the second token again. */
function secondToken(stage: GptStage) {
  const model = new GptLanguageModel(stage);
  const cache = model.newCache({ batchSize: 1, capacity: 8 });
  forward(model, cache, { 0: [4] });
  const step = (): Float32Array => {
    cache.lengths[0] = 1;
    return forward(model, cache, { 0: [7] });
  };
  return { cache, step };
}

/** The second of the steps of the same slots is recorded, and launched as the following ones. */
const recorded = [false, false, true, true, false, true, true, false, true, true];

describe('recorded steps', () => {
  const before = numLiveTensors();
  afterEach(() => expect(numLiveTensors()).toBe(before));

  it.each([
    ['a GPT', {}, recorded],
    ['a Llama', llamaVariants, recorded],
    // rows of the windows move to the front of the caches
    ['windows of two positions', otherVariants, recorded],
    ['soft caps', softCaps, recorded],
    ['experts', { numExperts: 4, moeFfnHiddenSize: 24, moeRouterTopk: 2 }, recorded],
    ['sinks, which are not recorded', { softmaxType: 'learnable' }, recorded.map(() => false)],
  ] as const)(
    'give the bits of operations one by one: %s',
    (_, model: Partial<GptModelConfiguration>, expected) => {
      const { stage, dispose } = buildGpt({ model });
      const executed = computeLogits(stage, { observed: true });
      const launched = computeLogits(stage, { observed: false });
      expect(executed.isRecorded).toEqual(expected.map(() => false));
      expect(launched.isRecorded).toEqual(expected);
      expect(launched.logits).toEqual(executed.logits);
      dispose();
    },
  );

  it('go back in a text, and into another one', () => {
    const { stage, dispose } = buildGpt({ model: {} });
    const model = new GptLanguageModel(stage);
    const cache = model.newCache({ batchSize: 1, capacity: 8 });
    const steps = [4, 5, 6].map((token) => forward(model, cache, { 0: [token] }));
    cache.lengths[0] = 1;
    expect(forward(model, cache, { 0: [5] })).toEqual(steps[1]);
    cache.lengths[0] = 0;
    expect([4, 5, 6].map((token) => forward(model, cache, { 0: [token] }))).toEqual(steps);
    cache.dispose();
    dispose();
  });

  it('use the weights that a parameter has by then, also in other memory', () => {
    const { stage, dispose } = buildGpt({ model: {} });
    const { cache, step } = secondToken(stage);
    const [first, again] = [step(), step()];
    expect(again).toEqual(first);
    const gain = stage.parameters.find(({ name }) => name.endsWith('final_layernorm.weight'))!;
    const values = gain.data.read<'float32'>();
    gain.data.write(values.map((value) => 2 * value));
    const doubled = step();
    expect(doubled).not.toEqual(first);
    const moved = gain.data.view({ shape: gain.shape });
    gain.assignData(moved);
    expect(cache.recording?.step).toBeDefined();
    expect(step()).toEqual(doubled);
    expect(cache.recording?.step).toBeUndefined();
    expect([step(), step()]).toEqual([doubled, doubled]);
    cache.dispose();
    dispose();
    moved.dispose();
  });

  it('are recorded again after the position tables were released', () => {
    const { stage, dispose } = buildGpt({ model: llamaVariants });
    const { cache, step } = secondToken(stage);
    const [first] = [step(), step()];
    stage.positionTables.dispose();
    expect(step()).toEqual(first);
    // the recorded step had the addresses of the tables
    expect(cache.recording?.step).toBeUndefined();
    expect([step(), step()]).toEqual([first, first]);
    expect(cache.recording?.step).toBeDefined();
    cache.dispose();
    dispose();
  });

  it('are of the model that computes, where two share a cache', () => {
    const { stage, dispose } = buildGpt({ model: {} });
    const [one, other] = [new GptLanguageModel(stage), new GptLanguageModel(stage)];
    const cache = one.newCache({ batchSize: 1, capacity: 8 });
    for (const token of [4, 5, 6]) forward(one, cache, { 0: [token] });
    expect(cache.recording).toMatchObject({ model: one });
    expect(cache.recording?.step).toBeDefined();
    forward(other, cache, { 0: [7] });
    expect(cache.recording).toMatchObject({ model: other });
    expect(cache.recording?.step).toBeUndefined();
    cache.dispose();
    dispose();
  });

  it('are refused where memory is short', () => {
    const { stage, dispose } = buildGpt({ model: {} });
    const expected = computeLogits(stage, { observed: true });
    trimMemory('cpu');
    limitMemory('cpu', memoryStatistics('cpu').bytesInUse + 2 ** 20);
    try {
      const short = computeLogits(stage, { observed: false });
      expect(short.isRecorded).toEqual(calls.map(() => false));
      expect(short.logits).toEqual(expected.logits);
    } finally {
      limitMemory('cpu', 0);
    }
    dispose();
  });

  it('are refused where values are present only while their units are used', () => {
    const { stage, dispose } = buildGpt({ model: {} });
    const expected = computeLogits(stage, { observed: true });
    new PoisoningKeeper(stage.parameters, stage.units);
    const kept = computeLogits(stage, { observed: false });
    expect(kept.isRecorded).toEqual(calls.map(() => false));
    expect(kept.logits).toEqual(expected.logits);
    dispose();
  });

  it('report a token that is not in the vocabulary, and go on', () => {
    const { stage, dispose } = buildGpt({ model: {} });
    const model = new GptLanguageModel(stage);
    const cache = model.newCache({ batchSize: 1, capacity: 8 });
    for (const token of [4, 5]) forward(model, cache, { 0: [token] });
    const sixth = forward(model, cache, { 0: [6] });
    cache.lengths[0] = 2;
    expect(cache.recording?.step).toBeDefined();
    expect(() => forward(model, cache, { 0: [4000] })).toThrow('4000');
    expect(forward(model, cache, { 0: [6] })).toEqual(sixth);
    cache.dispose();
    dispose();
  });
});
