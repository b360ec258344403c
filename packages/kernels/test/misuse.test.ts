import { inspect } from 'node:util';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import {
  add,
  type DType,
  layerNormBackward,
  limitMemory,
  linearResidualForward,
  matmul,
  memoryStatistics,
  numLiveTensors,
  openDevice,
  resetPeakMemory,
  Tensor,
  tidy,
  trimMemory,
} from '../src/index.js';
import { setPoison } from '../src/internal/index.js';
import { addon, callNative } from '../src/native/addon.js';
import { runOperation } from '../src/run-operation.js';
import { refusal } from './support/refusals.js';

const make = (shape: readonly number[], dtype: DType = 'float32'): Tensor => Tensor.zeros({ shape, dtype });

let live = 0;
beforeEach(() => {
  live = numLiveTensors();
});
afterEach(() => {
  expect(numLiveTensors()).toBe(live);
});

it('prints dtype, shape and device of a tensor, and whether it was disposed of', () => {
  const tensor = make([2, 3], 'bfloat16');
  expect(inspect({ tensor })).toBe('{ tensor: Tensor bfloat16 [2, 3] on cpu }');
  tensor.dispose();
  expect(inspect(tensor)).toBe('Tensor bfloat16 [2, 3] on cpu, disposed');
});

describe('a tensor that was disposed of', () => {
  it('is named by shape when used, and can be disposed of again', () => {
    const tensor = make([2, 3]);
    tensor.dispose();
    tensor.dispose();
    expect(tensor.isDisposed).toBe(true);
    expect(refusal(() => tensor.read())).toMatchInlineSnapshot(
      `"MTL_DISPOSED_TENSOR: a tensor of shape [2, 3] was used after dispose()"`,
    );
    expect(refusal(() => tensor.view({ shape: [6] }))).toMatchInlineSnapshot(
      `"MTL_DISPOSED_TENSOR: a tensor of shape [2, 3] was used after dispose()"`,
    );
    const other = make([2, 3]);
    expect(refusal(() => add({ output: other, left: tensor, right: other }))).toMatchInlineSnapshot(
      `"MTL_DISPOSED_TENSOR: a tensor of shape [2, 3] was used after dispose()"`,
    );
    other.dispose();
  });

  it('is not found by its old handle, even after the slot is another tensor', () => {
    const first = make([1]);
    const { handle } = first;
    first.dispose();
    const second = make([1]);
    expect(second.handle).not.toBe(handle);
    expect(refusal(() => callNative(() => addon().zero(handle)))).toMatch(
      /^MTL_DISPOSED_TENSOR: tensor handle \d+ is not alive/,
    );
    second.dispose();
  });
});

describe('host memory of a tensor', () => {
  it('may be memory that threads share, and any part of it', () => {
    using tensor = Tensor.from([1, 2, 3, 4], { shape: [4], dtype: 'float32' });
    const shared = new Float32Array(new SharedArrayBuffer(32), 8, 4);
    tensor.readInto(shared);
    expect([...shared]).toEqual([1, 2, 3, 4]);
    shared[3] = 5;
    tensor.write(shared);
    expect(tensor.toArray()).toEqual([1, 2, 3, 5]);
    expect([...new Float32Array(shared.buffer)]).toEqual([0, 0, 1, 2, 3, 5, 0, 0]);
  });

  it('must have the same number of bytes, wherever it lies', () => {
    using tensor = Tensor.zeros({ shape: [4], dtype: 'float32' });
    const wrong = new Float32Array(new SharedArrayBuffer(32), 8, 3);
    expect(refusal(() => tensor.readInto(wrong))).toBe(
      'MTL_SHAPE: Float32Array of 3 elements for a tensor of shape [4] and dtype float32',
    );
    const gone = new Float32Array(4);
    structuredClone(gone.buffer, { transfer: [gone.buffer] });
    expect(refusal(() => tensor.readInto(gone))).toMatch(/ 0 elements/);
  });
});

describe('numbers that are no handles', () => {
  it.each([0, 1, 4_000_000_000, 2 ** 52, Number.MAX_SAFE_INTEGER])('%d is refused', (handle) => {
    expect(refusal(() => callNative(() => addon().zero(handle)))).toContain('MTL_DISPOSED_TENSOR');
    expect(refusal(() => callNative(() => addon().release(handle)))).toContain('MTL_DISPOSED_TENSOR');
  });

  it.each([-1, Number.NaN, Number.POSITIVE_INFINITY, 2 ** 53])('%d is refused', (handle) => {
    expect(refusal(() => callNative(() => addon().zero(handle)))).toBe(
      'MTL_ARGUMENT: argument 0 is not a tensor handle',
    );
  });

  it.each(['1', null, undefined, {}, [1]])('%s is refused', (handle) => {
    expect(refusal(() => callNative(() => addon().zero(handle as unknown as number)))).toBe(
      'MTL_ARGUMENT: argument 0 is not a number',
    );
  });
});

describe('operations say what does not fit', () => {
  it('shapes, dtypes, devices and what is missing', () => {
    tidy(() => {
      const [a, b] = [make([2, 3]), make([3, 2])];
      expect(refusal(() => add({ output: a, left: a, right: b }))).toMatchInlineSnapshot(
        `"MTL_SHAPE: add: right has shape [3, 2], expected [2, 3]"`,
      );
      expect(refusal(() => matmul({ output: make([2, 3]), left: a, right: a }))).toMatchInlineSnapshot(
        `"MTL_SHAPE: matmul: left [2, 3] has 3 columns, right [2, 3] has 2 rows: 3 is not 2; transposeRight: true fits; transposeLeft: true fits"`,
      );
      expect(
        refusal(() => matmul({ output: make([2, 2]), left: a, right: make([3, 2], 'bfloat16') })),
      ).toMatchInlineSnapshot(`"MTL_DTYPE: matmul: right is bfloat16, expected float32"`);
      expect(
        refusal(() => matmul({ output: make([2, 2]), left: a, right: b, bias: make([3]) })),
      ).toMatchInlineSnapshot(`"MTL_SHAPE: matmul: bias has shape [3], expected [2]"`);
      const elsewhere = Tensor.zeros({ shape: [2, 3], dtype: 'float32', device: 'reference' });
      expect(refusal(() => add({ output: a, left: elsewhere, right: a }))).toMatchInlineSnapshot(
        `"MTL_DEVICE: add: left is on device reference, the tensors before it on cpu"`,
      );
      expect(refusal(() => runOperation('subtract', { output: a, left: a, right: a }))).toMatchInlineSnapshot(
        `"MTL_UNSUPPORTED: the native kernels have no operation subtract"`,
      );
      const wide = make([2, 3], 'float64');
      expect(refusal(() => add({ output: wide, left: wide, right: wide }))).toMatchInlineSnapshot(
        `"MTL_DTYPE: float64 is computed on the reference device only"`,
      );
      const statistics = { mean: make([2]), rstd: make([2]) };
      const inputs = { outputGradient: a, input: a, weight: make([3]), ...statistics };
      expect(refusal(() => layerNormBackward(inputs))).toMatchInlineSnapshot(
        `"MTL_ARGUMENT: layer_norm_backward: neither inputGradient nor weightGradient and biasGradient are given"`,
      );
    });
  });
});

describe('tensors that cannot be', () => {
  it('shapes, views and host arrays that do not fit', () => {
    tidy(() => {
      const tensor = make([2, 3]);
      expect(refusal(() => make([-1]))).toMatchInlineSnapshot(
        `"MTL_ARGUMENT: dimension 0 of a shape is -1, expected a non-negative integer"`,
      );
      expect(refusal(() => make([1.5]))).toMatchInlineSnapshot(
        `"MTL_ARGUMENT: dimension 0 of a shape is 1.5, expected a non-negative integer"`,
      );
      expect(refusal(() => make([1, 1, 1, 1, 1, 1, 1]))).toMatchInlineSnapshot(
        `"MTL_ARGUMENT: 7 elements given, expected 6 at most"`,
      );
      expect(refusal(() => make([2 ** 40, 2 ** 40]))).toMatchInlineSnapshot(
        `"MTL_SHAPE: a tensor of 1.21e+24 elements is too large"`,
      );
      expect(refusal(() => make([2 ** 40, 2 ** 40, 0]))).toMatchInlineSnapshot(
        `"MTL_SHAPE: a tensor of 1.21e+24 elements is too large"`,
      );
      expect(refusal(() => tensor.view({ offset: 4, shape: [3] }))).toMatchInlineSnapshot(
        `"MTL_SHAPE: a view of 3 elements from 4 on does not fit a tensor of 6"`,
      );
      expect(refusal(() => tensor.view({ offset: -1, shape: [3] }))).toMatchInlineSnapshot(
        `"MTL_SHAPE: a view from element -1 on, expected a non-negative integer"`,
      );
      expect(refusal(() => tensor.view({ offset: 0.5, shape: [3] }))).toMatchInlineSnapshot(
        `"MTL_SHAPE: a view from element 0.5 on, expected a non-negative integer"`,
      );
      expect(refusal(() => tensor.view({ offset: Number.NaN, shape: [3] }))).toMatchInlineSnapshot(
        `"MTL_SHAPE: a view from element nan on, expected a non-negative integer"`,
      );
      expect(refusal(() => tensor.rows(1, 3))).toMatchInlineSnapshot(
        `"MTL_SHAPE: a view of 6 elements from 3 on does not fit a tensor of 6"`,
      );
      expect(refusal(() => tensor.reshape([4]))).toMatchInlineSnapshot(
        `"MTL_SHAPE: cannot reshape [2, 3] to [4]"`,
      );
      expect(refusal(() => tensor.dim(2))).toMatchInlineSnapshot(
        `"MTL_SHAPE: dimension 2 of a tensor of shape [2, 3]"`,
      );
      expect(refusal(() => tensor.item())).toMatchInlineSnapshot(
        `"MTL_SHAPE: item() of a tensor of 6 elements"`,
      );
      expect(refusal(() => tensor.write(new Float32Array(5)))).toMatchInlineSnapshot(
        `"MTL_SHAPE: Float32Array of 5 elements for a tensor of shape [2, 3] and dtype float32"`,
      );
      expect(
        refusal(() => Tensor.zeros({ shape: [1], dtype: 'float32', device: 'cuda' })),
      ).toMatchInlineSnapshot(`"MTL_DEVICE: device cuda is not open in this process"`);
    });
  });
});

describe('what would give other numbers than were meant', () => {
  it('a typed array of another kind, whose bits would be read', () => {
    tidy(() => {
      const tensor = make([2]);
      expect(refusal(() => tensor.write(Int32Array.of(1, 2)))).toMatchInlineSnapshot(
        `"MTL_DTYPE: Int32Array for a tensor of float32"`,
      );
      expect(refusal(() => tensor.readInto(new Int32Array(2)))).toContain('MTL_DTYPE');
      const bits = make([2], 'bfloat16');
      expect(() => bits.write(Float32Array.of(1))).toThrow(
        expect.objectContaining({ expected: 'Uint16Array of its bits' }),
      );
      expect(refusal(() => tensor.write([1, 2] as unknown as Float32Array))).toMatchInlineSnapshot(
        `"MTL_DTYPE: an array for a tensor of float32"`,
      );
      // a Uint8Array is taken as the bytes of any dtype
      tensor.write(new Uint8Array(Float32Array.of(3, 4).buffer));
      expect(tensor.toArray()).toEqual([3, 4]);
    });
    // a call that is rejected outside of a scope leaves no tensor
    expect(refusal(() => Tensor.from(Int32Array.of(1), { shape: [1], dtype: 'float32' }))).toContain(
      'MTL_DTYPE',
    );
  });

  it('names of dtypes and devices that there are not', () => {
    expect(() => make([1], 'fp32' as DType)).toThrow(
      expect.objectContaining({ code: 'MTL_DTYPE', expected: expect.stringContaining('float32, bfloat16') }),
    );
    const gpu = 'gpu' as 'cuda';
    expect(refusal(() => Tensor.empty({ shape: [1], dtype: 'float32', device: gpu }))).toBe(
      'MTL_DEVICE: unknown device gpu',
    );
    expect(refusal(() => openDevice(gpu))).toBe('MTL_DEVICE: unknown device gpu');
  });

  it('a matmul into one of its operands', () => {
    tidy(() => {
      const [left, right] = [make([2, 2]), make([2, 2])];
      for (const output of [left, right])
        expect(refusal(() => matmul({ output, left, right }))).toMatch(
          /^MTL_SHAPE: matmul: output and (left|right) overlap in memory/,
        );
      // an output that shares only a part of a factor is rejected, too
      const room = make([12]);
      const [output, factor] = [room.view({ shape: [2, 2] }), room.view({ offset: 3, shape: [2, 2] })];
      expect(refusal(() => matmul({ output, left, right: factor }))).toContain('output and right overlap');
    });
  });

  it.each(['cpu', 'reference', 'meta', 'meta-cuda'] as const)(
    'a linear layer into its residual or another operand on %s',
    (device) => {
      tidy(() => {
        const numbers = Tensor.zeros({ shape: [12], dtype: 'float32', device });
        const part = (offset: number, shape: readonly number[]): Tensor => numbers.view({ offset, shape });
        const operands = {
          output: part(0, [2, 1, 2]),
          residual: part(4, [2, 1, 2]),
          input: Tensor.zeros({ shape: [2, 1, 3], dtype: 'float32', device }),
          weight: Tensor.zeros({ shape: [2, 3], dtype: 'float32', device }),
          bias: part(8, [2]),
        };
        linearResidualForward(operands);
        const shared = { residual: [3, 2, 1, 2], input: [2, 2, 1, 3], weight: [3, 2, 3], bias: [2, 2] };
        for (const [name, [offset, ...shape]] of Object.entries(shared))
          expect(refusal(() => linearResidualForward({ ...operands, [name]: part(offset!, shape) }))).toBe(
            `MTL_SHAPE: linear_residual_forward: output and ${name} overlap in memory, expected an output of its own`,
          );
      });
    },
  );

  it('a scope whose body goes on after it', async () => {
    let settle = (): void => {};
    const later = new Promise<void>((resolve) => {
      settle = resolve;
    });
    const body = async (): Promise<number> => {
      const tensor = make([1]);
      await later;
      return tensor.item(); // rejects without a handler: it must not end the process
    };
    expect(refusal(() => tidy(body))).toBe('MTL_TIDY: the body of tidy returned a promise');
    settle();
    await later;
  });
});

describe('memory', () => {
  const kibibyte = 1024;

  it('beyond the limit is refused, and what fits still works', () => {
    const { bytesInUse } = memoryStatistics('cpu');
    limitMemory('cpu', bytesInUse + 8 * kibibyte);
    try {
      const first = make([kibibyte]);
      expect(refusal(() => make([2 * kibibyte]))).toMatch(
        /^MTL_OUT_OF_MEMORY: allocation of 8192 bytes exceeds the limit of \d+ bytes \(\d+ in use\)$/,
      );
      expect(() => make([2 * kibibyte])).toThrow(
        expect.objectContaining({ remedy: expect.stringContaining('smaller batches') }),
      );
      make([kibibyte]).dispose();
      first.dispose();
    } finally {
      limitMemory('cpu', 0);
    }
    make([2 * kibibyte]).dispose();
  });

  it('is counted in use, at its peak and in blocks', () => {
    trimMemory('cpu');
    const before = memoryStatistics('cpu');
    resetPeakMemory('cpu');
    const [a, b] = [make([kibibyte]), make([kibibyte])];
    expect(memoryStatistics('cpu').bytesInUse - before.bytesInUse).toBe(8 * kibibyte);
    expect(memoryStatistics('cpu').numAllocations - before.numAllocations).toBe(2);
    a.dispose();
    const c = make([kibibyte]); // takes the block of `a`: no new memory, no new peak
    expect(memoryStatistics('cpu').peakBytes - before.bytesInUse).toBe(8 * kibibyte);
    expect(memoryStatistics('cpu').bytesReserved - before.bytesReserved).toBe(8 * kibibyte);
    b.dispose();
    c.dispose();
    expect(memoryStatistics('cpu').bytesInUse).toBe(before.bytesInUse);
    resetPeakMemory('cpu');
    expect(memoryStatistics('cpu').peakBytes).toBe(before.bytesInUse);
    trimMemory('cpu');
    expect(memoryStatistics('cpu').bytesReserved).toBe(before.bytesReserved);
  });

  it('lives as long as the last view of it, which sees what the others write', () => {
    const { numAllocations } = memoryStatistics('cpu');
    const base = Tensor.from([0, 1, 2, 3, 4, 5], { shape: [2, 3], dtype: 'float32' });
    const row = base.rows(1, 2);
    const last = row.view({ offset: 2, shape: [] });
    base.write(new Float32Array([9, 8, 7, 6, 5, 4]));
    base.dispose();
    row.dispose();
    expect(memoryStatistics('cpu').numAllocations - numAllocations).toBe(1);
    expect(last.item()).toBe(4);
    last.dispose();
    expect(memoryStatistics('cpu').numAllocations).toBe(numAllocations);
  });

  it('is filled with NaN when poisoned', () => {
    setPoison(true);
    try {
      for (const dtype of ['float32', 'bfloat16', 'float16', 'float64'] as const) {
        const tensor = Tensor.empty({ shape: [3], dtype });
        expect(tensor.toArray()).toEqual([Number.NaN, Number.NaN, Number.NaN]);
        tensor.dispose();
      }
    } finally {
      setPoison(false);
    }
  });
});

describe('tidy', () => {
  it('keeps what is returned, at any depth, and disposes of the rest', () => {
    let lost: Tensor | undefined;
    const kept = tidy(() => {
      lost = make([1]);
      return { one: make([1]), more: [make([2])], number: 3 };
    });
    expect(lost!.isDisposed).toBe(true);
    expect([kept.one.isDisposed, kept.more[0]!.isDisposed, kept.number]).toEqual([false, false, 3]);
    kept.one.dispose();
    kept.more[0]!.dispose();
  });

  it('hands what an inner scope returns to the outer one', () => {
    let inner: Tensor | undefined;
    tidy(() => {
      inner = tidy(() => make([1]));
      expect(inner.isDisposed).toBe(false);
    });
    expect(inner!.isDisposed).toBe(true);
  });

  it('disposes of everything when the body throws, and of a view apart from its base', () => {
    const base = make([4]);
    expect(() =>
      tidy(() => {
        base.reshape([2, 2]);
        make([8]);
        throw new Error('boom');
      }),
    ).toThrow('boom');
    expect(base.isDisposed).toBe(false);
    base.dispose();
  });

  it('leaves alone what was made outside, and what is disposed of inside', () => {
    const outside = make([1]);
    tidy(() => {
      make([1]).dispose();
      return outside;
    });
    expect(outside.isDisposed).toBe(false);
    outside[Symbol.dispose]();
    expect(outside.isDisposed).toBe(true);
  });
});
