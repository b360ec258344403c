import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, it } from 'vitest';
import { readGguf, writeGguf, writeGgufLora } from '../../src/gguf/index.js';
import { GgufFile } from '../../src/gguf/reading/gguf-file.js';
import {
  configurations,
  lora,
  merged,
  parseModel,
  randomModel,
  tokenizerFiles,
  withAdapters,
} from './tiny-models.js';

const scratch = mkdtempSync(join(tmpdir(), 'mtl-gguf-'));
afterAll(() => rmSync(scratch, { recursive: true }));

async function readValues(file: GgufFile, name: string): Promise<Float32Array> {
  return new Float32Array((await file.read({ name })).slice().buffer);
}

/** Adds scale B A to a matrix, or to the matrix of each expert. */
function add(
  values: Float32Array,
  { a, b, scale, numMatrices }: { a: Float32Array; b: Float32Array; scale: number; numMatrices: number },
): void {
  const { rank } = lora;
  const [rows, columns] = [b.length / (rank * numMatrices), a.length / (rank * numMatrices)];
  for (let index = 0; index < values.length; index++) {
    const row = Math.floor(index / columns);
    const matrix = Math.floor(row / rows);
    for (let r = 0; r < rank; r++) {
      values[index]! += scale * b[row * rank + r]! * a[(matrix * rank + r) * columns + (index % columns)]!;
    }
  }
}

it.each(['gpt2', 'llama', 'mixtral', 'qwen2-moe', 'qwen3'] as const)(
  'adapters of %s in a file add up with their model to the merged one',
  async (name) => {
    using tiny = await randomModel(parseModel(configurations[name]));
    using whole = await merged(tiny);
    const path = (kind: string): string => join(scratch, `${name}-${kind}.gguf`);
    const origin = { config: { model_type: configurations[name].model_type } };
    const { model } = tiny;
    for (const [kind, { tensors }] of Object.entries({ base: tiny, merged: whole })) {
      await writeGguf({ path: path(kind), model, tensors, tokenizerFiles, endTokens: [266], origin });
    }
    await writeGgufLora({
      path: path('lora'),
      model,
      lora,
      tensors: withAdapters(tiny),
      origin,
      name: 'own',
    });
    await using base = await GgufFile.open(path('base'));
    await using sum = await GgufFile.open(path('merged'));
    await using adapters = await GgufFile.open(path('lora'));
    expect(Object.fromEntries(adapters.metadata)).toMatchObject({
      'general.architecture': base.metadata.get('general.architecture'),
      'general.type': 'adapter',
      'general.name': 'own',
      'adapter.type': 'lora',
    });
    const scale = (adapters.metadata.get('adapter.lora.alpha') as number) / lora.rank;
    const adapted = [...adapters.tensors.keys()].flatMap(
      (tensor) => /^(.*)\.lora_a$/.exec(tensor)?.[1] ?? [],
    );
    expect(adapters.tensors.size).toBe(2 * adapted.length);
    // every matrix of the layers but the routers
    const isAdapted = (tensor: string): boolean =>
      base.tensors.get(tensor)!.shape.length > 1 && tensor.startsWith('blk.') && !tensor.includes('gate_inp');
    expect(adapted.sort()).toEqual([...base.tensors.keys()].filter(isAdapted).sort());
    for (const tensor of adapted) {
      const { shape } = base.tensors.get(tensor)!;
      const values = await readValues(base, tensor);
      const [a, b] = [
        await readValues(adapters, `${tensor}.lora_a`),
        await readValues(adapters, `${tensor}.lora_b`),
      ];
      add(values, { a, b, scale, numMatrices: shape.length === 3 ? shape[0]! : 1 });
      const expected = await readValues(sum, tensor);
      // sums of three products in another order
      const difference = values.reduce(
        (most, value, at) => Math.max(most, Math.abs(value - expected[at]!)),
        0,
      );
      expect(difference, tensor).toBeLessThan(1e-6);
    }
  },
);

it('refuses an alpha of 0, and a file of adapters as a model', async () => {
  using tiny = await randomModel(parseModel(configurations.llama));
  const path = join(scratch, 'zero.gguf');
  const options = { path, model: tiny.model, tensors: withAdapters(tiny) };
  await expect(writeGgufLora({ ...options, lora: { ...lora, alpha: 0 } })).rejects.toMatchObject({
    code: 'MTL_GGUF_ARCHITECTURE',
  });
  expect(existsSync(path)).toBe(false);
  await writeGgufLora({ ...options, lora });
  await expect(readGguf(path)).rejects.toMatchObject({
    code: 'MTL_GGUF_ARCHITECTURE',
    message: expect.stringContaining('it is of the type adapter'),
  });
});
