import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { describeTypedModel } from '../../src/gguf/architectures.js';
import type { GgufDtype } from '../../src/gguf/index.js';
import { storedType } from '../../src/gguf/stored-dtypes.js';
import { ggufWeightNames } from '../../src/gguf/weight-names.js';
import type { GptTypeName } from '../../src/huggingface/model-types.js';
import { parseModel } from './tiny-models.js';
import { typedModels, typesByLayer } from './typed-models.js';

/**
 * The types of tensors by model, dtype and name, all layers together, which
 * tooling/fixtures/gguf-types.mjs wrote with llama.cpp.
 */
const chosen = JSON.parse(
  readFileSync(new URL('../../fixtures/gguf-types.json', import.meta.url), 'utf8'),
) as Readonly<Record<string, Readonly<Record<string, Readonly<Record<string, string>>>>>>;

const cases = Object.keys(typedModels).flatMap((name) =>
  Object.keys(chosen[name]!).map((dtype) => [name, dtype as GgufDtype] as const),
);

describe('the types of tensors', () => {
  it.each(cases)('of %s in %s are the choice of llama.cpp', (name, dtype) => {
    const config = typedModels[name]!;
    const model = parseModel(config);
    const modelType = config.model_type as GptTypeName;
    const { mappings } = ggufWeightNames(modelType, model);
    const typed = describeTypedModel(modelType, model);
    const own = mappings.flatMap(({ sources }) =>
      sources.map((source) => [source.name, storedType(source, dtype, typed)]),
    );
    const { 'rope_freqs.weight': _, ...expected } = chosen[name]![dtype]!;
    expect(typesByLayer(Object.fromEntries(own))).toEqual(expected);
  });

  it('differ in the models, so that the rules are seen', () => {
    const used = Object.values(chosen).map(({ q4_k_m }) => Object.values(q4_k_m!).sort().join());
    expect(new Set(used).size).toBeGreaterThan(4);
  });
});
