import { numActiveParameters, numParameters } from '@mtl/models';
import { numBertParameters } from '@mtl/models/internal';
import { describe, expect, it } from 'vitest';
import { describeBertModel, describeGptModel } from '../architecture/models-of-configuration.js';
import { parseFlags } from '../command-line/parse-flags.js';
import { configure } from '../options/configure.js';
import type { RunOptions } from '../options/run-options.js';
import type { ModelConfiguration } from '../pretraining-configuration.js';
import { flagSchema } from '../schema/flag-schema.js';
import { validateConfiguration } from '../validation/validate-configuration.js';
import { bertPresets } from './bert-presets.js';
import { type GptPresetName, gptPresets } from './gpt-presets.js';

const presetNames = Object.keys(gptPresets) as GptPresetName[];

/** Returns the number of weights and biases of a GPT-2 with tied embeddings, as a sum over its layers. */
function parameters(model: ModelConfiguration, vocabSize: number): number {
  const { hiddenSize: H, ffnHiddenSize: F, numLayers: L, maxPositionEmbeddings: S } = model;
  const attention = H * 3 * H + 3 * H + H * H + H;
  const feedForward = H * F + F + F * H + H;
  return (vocabSize + S) * H + L * (attention + feedForward + 4 * H) + 2 * H;
}

/** Returns data flags for the presets of published models, which set none. */
const listDataFlags = (name: string): string[] =>
  /^(llama3|qwen3|mixtral)-/.test(name) ? ['--data-path', 'prefix'] : [];

describe('presets', () => {
  it.each(presetNames)('%s is right by the schema and by every check', (name) => {
    expect(flagSchema.safeParse(gptPresets[name]).error).toBeUndefined();
    const configuration = validateConfiguration(parseFlags(['--preset', name, ...listDataFlags(name)]));
    expect(configuration.preset).toBe(name);
    expect(configuration.notices).toEqual([]);
  });

  it.each(Object.entries(bertPresets))('%s is right by the schema and by every check', (name, flags) => {
    expect(flagSchema.safeParse(flags).error).toBeUndefined();
    const configuration = validateConfiguration(parseFlags(['--preset', name], { model: 'bert' }));
    expect(configuration).toMatchObject({ preset: name, kind: 'bert', notices: [] });
  });

  /**
   * Expected parameter counts, in millions: exact sums of Hugging Face's GPT-2 models; rounded counts of
   * Shoeybi 2019, table 1; for BERT models including their heads, the counts of Devlin 2018 and Shoeybi 2019,
   * table 4. The last column is the precision of the count in the source.
   */
  it.each([
    ['gpt', 'gpt2-124m', 50_257, 124.44, 0.005],
    ['gpt', 'gpt2-355m', 50_257, 354.82, 0.005],
    ['gpt', 'gpt2-774m', 50_257, 774.03, 0.005],
    ['gpt', 'gpt2-1.3b', 50_304, 1316, 1],
    ['gpt', 'gpt2-2.7b', 50_304, 2652, 1],
    ['gpt', 'megatron-1.2b', 51_200, 1200, 50],
    ['gpt', 'megatron-2.5b', 51_200, 2500, 50],
    ['gpt', 'megatron-4.2b', 51_200, 4200, 50],
    ['gpt', 'megatron-8.3b', 51_200, 8300, 50],
    ['gpt', 'gpt2-4m', 4096, 4.27, 0.01],
    ['gpt', 'char-10m', 256, 10.8, 0.1],
    ['bert', 'bert-base', 30_522, 110, 1],
    ['bert', 'bert-large', 30_522, 336, 1],
    ['bert', 'megatron-bert-336m', 30_522, 336, 1],
    ['bert', 'megatron-bert-1.3b', 30_522, 1280, 20],
    ['bert', 'megatron-bert-3.9b', 30_522, 3870, 30],
  ] as const)('%s: %s has the size its name says', (kind, name, vocabularySize, millions, tolerance) => {
    const configuration = validateConfiguration(parseFlags(['--preset', name], { model: kind }));
    const size =
      kind === 'bert'
        ? numBertParameters(describeBertModel(configuration, vocabularySize))
        : parameters(configuration.model, vocabularySize);
    expect(Math.abs(size / 1e6 - millions)).toBeLessThan(tolerance);
  });

  it.each([
    ...presetNames.map((name) => [name, 'gpt'] as const),
    ...Object.keys(bertPresets).map((name) => [name, 'bert'] as const),
  ])('%s of %s can be trained for 1,000 steps', (name, model) => {
    const flags = parseFlags(['--preset', name, '--train-iters', '1000', ...listDataFlags(name)], { model });
    expect(validateConfiguration(flags).training.trainIterations).toBe(1000);
  });

  /** Expected parameter counts: exact from the published weights, and the published counts in billions. */
  it.each([
    ['llama3-8b', 8_030_261_248, 8],
    ['llama3-70b', 70_553_706_496, 70.6],
    ['llama3-405b', 405_853_388_800, 405.9],
    ['qwen3-0.6b', 596_049_920, 0.6],
    ['qwen3-1.7b', 1_720_574_976, 1.7],
    ['qwen3-4b', 4_022_468_096, 4],
    ['qwen3-8b', 8_190_735_360, 8.2],
    ['qwen3-14b', 14_768_307_200, 14.8],
    ['qwen3-32b', 32_762_123_264, 32.8],
  ] as const)('%s has the number of parameters of the published model', (name, count, billions) => {
    const { model } = validateConfiguration(parseFlags(['--preset', name, '--data-path', 'prefix']));
    const vocabularySize = gptPresets[name]!['vocab-size']!;
    expect(numParameters(describeGptModel(model, vocabularySize))).toBe(count);
    expect(Math.round(count / 1e8) / 10).toBe(billions);
  });

  /**
   * Expected parameter counts, from the shapes of the published weights: 46.7 and 30.5 billion; 12.9 and 3.3
   * billion parameters are active for each token.
   */
  it.each([
    ['mixtral-8x7b', 46_702_792_704, 12.9],
    ['qwen3-30b-a3b', 30_532_122_624, 3.3],
  ] as const)('%s has the number of parameters of the published model', (name, count, billionsOfToken) => {
    const { model } = validateConfiguration(parseFlags(['--preset', name, '--data-path', 'prefix']));
    const { hiddenSize: H, headSize: d, numLayers: L, numExperts: E, moeRouterTopk: k } = model;
    const queries = model.numAttentionHeads * d;
    const attention = 2 * H * queries + 2 * H * model.numQueryGroups! * d + (model.qkLayernorm ? 2 * d : 0);
    const expert = 3 * H * model.moeFfnHiddenSize!;
    const withExperts = (each: number): number =>
      2 * gptPresets[name]!['vocab-size']! * H + H + L * (attention + E! * H + each * expert + 2 * H);
    expect(withExperts(E!)).toBe(count);
    const architecture = describeGptModel(model, gptPresets[name]!['vocab-size']!);
    expect(numParameters(architecture)).toBe(count);
    // exact except for rounding in one division
    expect(numActiveParameters(architecture)).toBeCloseTo(withExperts(k!), 3);
    // one report rounds 12.88 to 12.9, the other 3.35 to 3.3
    expect(Math.abs(withExperts(k!) / 1e9 - billionsOfToken)).toBeLessThan(0.06);
  });

  it('has no experts where options say so', () => {
    const options: RunOptions = { preset: 'mixtral-8x7b', data: { dataPath: ['prefix'] } };
    expect(configure(options).model).toMatchObject({ numExperts: 8, moeRouterTopk: 2 });
    const { model } = configure({ ...options, model: { numExperts: 0 } });
    expect(model).toMatchObject({ numExperts: undefined, moeRouterTopk: undefined, ffnHiddenSize: 14_336 });
  });

  it('of published models need data, and take a tokenizer in place of their vocabulary', () => {
    expect(() => validateConfiguration(parseFlags(['--preset', 'llama3-8b']))).toThrow(
      expect.objectContaining({ code: 'MTL_FLAG_REQUIRED', remedy: 'pass --data-path PREFIX' }),
    );
    const own = ['--tokenizer-type', 'HuggingFaceTokenizer', '--tokenizer-model', 'tokenizer.json'];
    const flags = parseFlags(['--preset', 'llama3-8b', '--data-path', 'prefix', ...own]);
    expect(validateConfiguration(flags)).toMatchObject({
      notices: [],
      data: { tokenizer: { type: 'HuggingFaceTokenizer' } },
    });
  });

  it("a BERT's warm-up is the paper's", () => {
    const { optimizer } = validateConfiguration(parseFlags(['--preset', 'bert-large'], { model: 'bert' }));
    expect(optimizer.learningRate.warmupSteps).toBe(10_000);
  });

  it('the Megatron presets split over the number of GPUs in the paper', () => {
    for (const [name, size] of [
      ['megatron-2.5b', 2],
      ['megatron-4.2b', 4],
      ['megatron-8.3b', 8],
    ] as const) {
      const flags = parseFlags(['--preset', name, '--tensor-model-parallel-size', String(size)]);
      expect(validateConfiguration(flags, { worldSize: size }).parallel.dataParallelSize).toBe(1);
    }
  });
});
