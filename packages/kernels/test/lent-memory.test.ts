import { describe, expect, it } from 'vitest';
import { hostInformation, numLiveTensors, Tensor } from '../src/index.js';

describe('withMemory', () => {
  it('lends the memory of a tensor, and of a view of it', async () => {
    using tensor = Tensor.from([1, 2, 3, 4], { shape: [2, 2], dtype: 'float32' });
    using row = tensor.rows(1, 2);
    const sum = await row.withMemory(async (memory) => {
      const values = new Float32Array(memory.buffer, memory.byteOffset, memory.byteLength / 4);
      expect([...values]).toEqual([3, 4]);
      values.set([5, 6]);
      await Promise.resolve();
      return values[0]! + values[1]!;
    });
    expect(sum).toBe(11);
    expect(tensor.toArray()).toEqual([1, 2, 5, 6]);
  });

  it('takes it back at the end, however the user of it ends', async () => {
    using tensor = Tensor.zeros({ shape: [4], dtype: 'float32' });
    let lent: Uint8Array | undefined;
    const failing = tensor.withMemory(async (memory) => {
      lent = memory;
      throw new Error('no file');
    });
    await expect(failing).rejects.toThrow('no file');
    // no view of WebAssembly's memory can be detached
    expect(lent).toHaveLength(hostInformation().isWebAssembly ? 16 : 0);
    expect(await tensor.withMemory(async ({ length }) => length)).toBe(16);
  });

  it('keeps it while the tensor is disposed of, and no longer', async () => {
    const before = numLiveTensors();
    const tensor = Tensor.from([7], { shape: [1], dtype: 'float32' });
    await tensor.withMemory(async (memory) => {
      tensor.dispose();
      using other = Tensor.zeros({ shape: [1], dtype: 'float32' });
      expect(new Float32Array(memory.buffer, memory.byteOffset)[0]).toBe(7);
      expect(other.item()).toBe(0);
    });
    expect(numLiveTensors()).toBe(before);
  });

  it('lends nothing of a tensor without elements', async () => {
    using tensor = Tensor.empty({ shape: [0, 3], dtype: 'float32' });
    expect(await tensor.withMemory(async ({ length }) => length)).toBe(0);
  });

  it('is refused for other devices', async () => {
    using tensor = Tensor.empty({ shape: [4], dtype: 'float32', device: 'meta' });
    const lending = tensor.withMemory(async () => {});
    await expect(lending).rejects.toMatchObject({ code: 'MTL_DEVICE' });
  });
});
