import { allocateParameters, initializeParameter } from '@mtl/autograd';
import { runInMemoryRanks } from '@mtl/comm/testing';
import { rankThreads } from '@mtl/tooling/typescript-threads';
import { describe, expect, it } from 'vitest';
import { type GptModelConfiguration, GptStage } from '../../src/index.js';
import { llamaVariants } from '../support/small-llama.js';
import { type LanguageModelResult, useLanguageModel } from '../tensor-parallel/language-model.js';
import { smallGpt } from '../tensor-parallel/small-gpt.js';

const numLayers = 5;
const seed = 3;

function alone(variants: Partial<GptModelConfiguration>): LanguageModelResult {
  const model = { ...smallGpt, numLayers, ...variants };
  const stage = new GptStage({ model, device: 'cpu', dtype: 'float32', seed });
  const storage = allocateParameters(stage.parameters, { device: 'cpu', dtype: 'float32' });
  for (const parameter of stage.parameters) initializeParameter(parameter, parameter.data, seed);
  const result = useLanguageModel(stage);
  storage.dispose();
  return result;
}

describe.each([
  { what: 'two stages', size: 2, tp: 1, placement: [0, 1] },
  { what: 'three stages', size: 3, tp: 1, placement: [0, 1, 2] },
  { what: 'two chunks on each of two', size: 2, tp: 1, placement: [0, 1, 0, 1] },
  { what: 'both ends on one rank', size: 2, tp: 1, placement: [0, 1, 1, 0] },
  { what: 'two stages of two tensor-parallel ranks', size: 4, tp: 2, placement: [0, 1] },
  { what: 'the same of a Llama', size: 4, tp: 2, placement: [0, 1], variants: llamaVariants },
])('a language model in a pipeline: $what', ({ size, tp, placement, variants = {} }) => {
  it('gives the logits and losses of one process, the same bits on every rank', async () => {
    const ranks = await runInMemoryRanks<LanguageModelResult>({
      worldSize: size,
      ...rankThreads(new URL('./ranks/pipelined-language-model.ts', import.meta.url)),
      argument: { numLayers, placement, tp, seed, variants },
      timeoutMs: 60_000,
    });
    const whole = alone(variants);
    for (const rank of ranks) expect(rank).toEqual(ranks[0]);
    if (tp === 1) {
      // the same operations on the same values, wherever they run
      expect(ranks[0]).toEqual(whole);
      return;
    }
    expect(ranks[0]!.tokens).toEqual(whole.tokens);
    const largest = (a: Float32Array, b: Float32Array): number =>
      a.reduce((most, value, index) => Math.max(most, Math.abs(value - b[index]!)), 0);
    // float32 rounding of logits around 5, summed in another order
    whole.logits.forEach((logits, call) => {
      expect(largest(ranks[0]!.logits[call]!, logits)).toBeLessThan(1e-5);
    });
    expect(largest(ranks[0]!.losses, whole.losses)).toBeLessThan(1e-5);
  });
});
