import { cp, mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Dtype, SafetensorsDirectory, writeSafetensorsDirectory } from '@mtl/checkpoint';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { parameterTensors, writeHuggingFaceGpt } from '../src/index.js';
import { fixtureDirectory, loadModel } from './huggingface-fixture.js';

const name = 'transformer.h.0.mlp.c_fc.weight';
const [row, column] = [1, 2];

let scratch: string;
beforeEach(async () => {
  scratch = await mkdtemp(join(tmpdir(), 'huggingface-'));
});
afterEach(async () => {
  await rm(scratch, { recursive: true });
});

/** A copy of a model in which one weight is stored in another dtype, with all values 0 except one. */
async function modelWith(dtype: Dtype, put: (view: DataView, element: number) => void): Promise<string> {
  const source = fixtureDirectory('huggingface-gpt2');
  const directory = join(scratch, 'model');
  await cp(source, directory, { recursive: true });
  const weights = await SafetensorsDirectory.open(source);
  const tensors = await Promise.all(
    [...weights.tensors.values()].map(async ({ name: own, dtype: stored, shape }) => {
      const bytes = await weights.read({ name: own });
      if (own !== name) return { name: own, dtype: stored, shape, read: () => bytes };
      const numElements = shape[0]! * shape[1]!;
      const changed = new Uint8Array(numElements * (dtype === 'F64' ? 8 : dtype === 'F32' ? 4 : 2));
      put(new DataView(changed.buffer), row * shape[1]! + column);
      return { name: own, dtype, shape, read: () => changed };
    }),
  );
  await weights.close();
  await writeSafetensorsDirectory({ directory, tensors });
  return directory;
}

describe('weights that are not finite', () => {
  it.for<{ dtype: Dtype; value: number; put: (view: DataView, element: number) => void }>([
    { dtype: 'F32', value: NaN, put: (view, element) => view.setFloat32(4 * element, NaN, true) },
    { dtype: 'F32', value: -Infinity, put: (view, element) => view.setFloat32(4 * element, -Infinity, true) },
    { dtype: 'BF16', value: Infinity, put: (view, element) => view.setUint16(2 * element, 0x7f80, true) },
    { dtype: 'F16', value: NaN, put: (view, element) => view.setUint16(2 * element, 0x7e00, true) },
  ])('are refused by tensor and element: $value in $dtype', async ({ dtype, value, put }) => {
    const directory = await modelWith(dtype, put);
    await expect(loadModel(directory)).rejects.toMatchObject({
      code: 'MTL_NOT_FINITE',
      exitCode: 2,
      message: `${join(directory, 'model.safetensors')}: ${name}[${row}, ${column}] is ${value}`,
    });
  });

  it('are refused where float64 overflows in float32', async () => {
    const directory = await modelWith('F64', (view, element) => view.setFloat64(8 * element, 1e300, true));
    await expect(loadModel(directory)).rejects.toMatchObject({
      code: 'MTL_NOT_FINITE',
      message: `${directory}: ${name}[${row}, ${column}] is Infinity`,
    });
  });

  it('are not saved: weights that overflow in float16', async () => {
    const { source, stage, dispose } = await loadModel(fixtureDirectory('huggingface-gpt2'));
    const tensors = parameterTensors(stage.parameters);
    const huge = new Float32Array(tensors[0]!.globalShape.reduce((product, size) => product * size, 1));
    huge[3] = 1e6;
    const bytes = new Uint8Array(huge.buffer);
    const options = {
      directory: join(scratch, 'saved'),
      model: source.configuration,
      tensors: [{ ...tensors[0]!, read: () => bytes }, ...tensors.slice(1)],
      endTokens: source.endTokens,
    };
    delete (options.tensors[0] as { readInto?: unknown }).readInto;
    await expect(writeHuggingFaceGpt({ ...options, dtype: 'F16' })).rejects.toMatchObject({
      code: 'MTL_NOT_FINITE',
      message: expect.stringMatching(/^the model to save: transformer\.\S+\[0, 3\] is Infinity$/),
      remedy: expect.stringContaining('float32'),
    });
    expect(await readdir(scratch)).toEqual([]);
    await writeHuggingFaceGpt({ ...options, dtype: 'F32' });
    dispose();
  });
});
