import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { hostTensor, type LogicalTensor, SafetensorsDirectory } from '@mtl/checkpoint';
import { countElements } from '@mtl/kernels';
import { afterAll, describe, expect, it } from 'vitest';
import { writeGguf } from '../../src/gguf/index.js';
import { GgufFile } from '../../src/gguf/reading/gguf-file.js';
import { tensorSources } from '../../src/gguf/tensor-sources.js';
import { ggufWeightNames } from '../../src/gguf/weight-names.js';
import { gptWeightNames } from '../../src/huggingface/gpt-weight-names.js';
import { MappedWeights } from '../../src/huggingface/load-mapped-weights.js';
import type { WeightNames } from '../../src/huggingface/mapped-weights.js';
import type { GptTypeName } from '../../src/huggingface/model-types.js';
import type { WeightFiles } from '../../src/huggingface/weight-files.js';
import { mergedWeights, writeHuggingFaceGpt } from '../../src/index.js';
import {
  configurations,
  lora,
  parseModel,
  randomModel,
  type TinyModel,
  type TinyModelName,
  tinyModelNames,
  tokenizerFiles,
  withAdapters,
} from './tiny-models.js';

const scratch = mkdtempSync(join(tmpdir(), 'mtl-blocks-'));
afterAll(() => rmSync(scratch, { recursive: true }));

type Values = Readonly<Record<string, Float32Array>>;

/** Less than a matrix, and no multiple of the rows of any: blocks end within heads. */
const valuesAtOnce = 700;
// values between rows of a block that are read with them: gates and values of all tokens of a tiny model
const mostOfPart = 10_000;
const chooseTypeName = (name: TinyModelName): GptTypeName => configurations[name].model_type as GptTypeName;

/** Returns tensors that can be read in parts; `lengths` gets the number of values of each part. */
async function inParts(
  tensors: readonly LogicalTensor[],
  lengths: number[] = [],
): Promise<readonly LogicalTensor[]> {
  return await Promise.all(
    tensors.map(async (tensor) => {
      const bytes = Uint8Array.from(await tensor.read());
      const readRange = async ({ start, end }: { start: number; end: number }, target: Uint8Array) => {
        lengths.push(end - start);
        target.set(bytes.subarray(4 * start, 4 * end));
      };
      return { ...hostTensor({ ...tensor, memory: bytes }), readRange };
    }),
  );
}

/** Returns the names of the tensors whose values differ in a bit. */
const differences = (one: Values, other: Values): string[] =>
  [...new Set([...Object.keys(one), ...Object.keys(other)])].filter((name) => {
    const [bytes, others] = [one, other].map(
      (values) => new Uint8Array(Float32Array.from(values[name] ?? []).buffer),
    );
    return Buffer.compare(bytes!, others!) !== 0;
  });

/** Returns all values of the tensors of a file, by their names. */
async function readValues(sources: ReturnType<typeof tensorSources>): Promise<Values> {
  const found: Record<string, Float32Array> = {};
  for (const { name, shape, read } of sources) {
    const values = new Float32Array(countElements(shape));
    let start = 0;
    for await (const part of read()) {
      expect(part.length % shape.at(-1)!).toBe(0);
      values.set(part, start);
      start += part.length;
    }
    expect(start).toBe(values.length);
    found[name] = values;
  }
  return found;
}

describe.each(tinyModelNames)('blocks of rows of %s', (name) => {
  it('are the rows of whole tensors', async () => {
    using tiny = await randomModel(parseModel(configurations[name]));
    const names = ggufWeightNames(chooseTypeName(name), tiny.model);
    const common = { names, chooseType: () => 'F32' as const };
    const lengths: number[] = [];
    const parts = tensorSources({ ...common, tensors: await inParts(tiny.tensors, lengths), valuesAtOnce });
    const whole = tensorSources({ ...common, tensors: tiny.tensors });
    expect(differences(await readValues(parts), await readValues(whole))).toEqual([]);
    // a block takes its rows, and what is between them
    expect(Math.max(...lengths)).toBeLessThan(mostOfPart);
    expect(lengths.length).toBeGreaterThan(50);
  });

  it('with adapters are the rows of merged tensors', async () => {
    using tiny = await randomModel(parseModel(configurations[name]));
    const { model } = tiny;
    const whole = mergedWeights(withAdapters(tiny), { model, lora });
    const parts = mergedWeights(await inParts(withAdapters(tiny)), { model, lora });
    for (const [index, { globalShape, readRange, read }] of parts.entries()) {
      const expected = await whole[index]!.read();
      expect(Buffer.compare(await read(), expected)).toBe(0);
      const found = new Float32Array(countElements(globalShape));
      for (let start = 0; start < found.length; start += valuesAtOnce) {
        const part = found.subarray(start, start + valuesAtOnce);
        const bytes = new Uint8Array(part.buffer, part.byteOffset, part.byteLength);
        await readRange!({ start, end: start + part.length }, bytes);
      }
      const values = new Float32Array(expected.buffer, expected.byteOffset, found.length);
      // a matmul of few rows may add in another order than one of many: values are about 1
      expect(
        found.reduce((most, value, at) => Math.max(most, Math.abs(value - values[at]!)), 0),
      ).toBeLessThan(1e-6);
    }
  });
});

/** Fills boxes of tensors from files in parts, and compares them with the same boxes of the whole tensors. */
async function expectSameBoxes(
  { weights, names }: { readonly weights: WeightFiles; readonly names: WeightNames },
  { tensors }: TinyModel,
): Promise<void> {
  const usual = await MappedWeights.open({ weights, names });
  const parts = await MappedWeights.open({ weights, names, valuesAtOnce });
  for (const { name, globalShape } of tensors) {
    // all, and the second half of each dimension: rows, columns, heads or experts
    const boxes = [-1, ...globalShape.keys()].map((cut) =>
      globalShape.map((end, dim) => ({ start: dim === cut ? Math.floor(end / 2) : 0, end })),
    );
    const load = async (from: MappedWeights, before: number): Promise<readonly Uint8Array[]> => {
      const memories = boxes.map(
        (slices) => new Uint8Array(4 * countElements(slices.map(({ start, end }) => end - start))),
      );
      await from.load(
        boxes.map((slices, index) => {
          const memory = memories[index]!.fill(before);
          return hostTensor({ name, dtype: 'F32', globalShape, slices, memory });
        }),
      );
      return memories;
    };
    const expected = await load(usual, 0);
    for (const [index, bytes] of (await load(parts, 255)).entries())
      expect(Buffer.compare(bytes, expected[index]!)).toBe(0);
  }
}

describe.each(['gpt2', 'llama', 'mixtral', 'qwen2-moe'] as const)('files of %s', (name) => {
  it('are read in parts as they are read whole, from safetensors', async () => {
    using tiny = await randomModel(parseModel(configurations[name]));
    const { model, tensors } = tiny;
    const directory = join(scratch, name);
    const origin = { config: { model_type: chooseTypeName(name) } };
    await writeHuggingFaceGpt({ directory, model, tensors, endTokens: [266], origin, dtype: 'BF16' });
    await using weights = await SafetensorsDirectory.open(directory);
    const names = gptWeightNames(chooseTypeName(name), model, weights.tensors.keys());
    await expectSameBoxes({ weights, names }, tiny);
  });

  it('are read in parts as they are read whole, from GGUF with blocks', async () => {
    using tiny = await randomModel(parseModel(configurations[name]));
    const { model, tensors } = tiny;
    const path = join(scratch, `${name}.gguf`);
    const origin = { config: { model_type: chooseTypeName(name) } };
    await writeGguf({ path, model, tensors, dtype: 'q8_0', tokenizerFiles, endTokens: [266], origin });
    await using weights = await GgufFile.open(path);
    await expectSameBoxes({ weights, names: ggufWeightNames(chooseTypeName(name), model) }, tiny);
  });
});
