import { describe, expect, it } from 'vitest';
import { compareKernels, formatKernels } from './compare-kernels.mjs';

const peer = {
  attention: [{ shape: [2048, 4, 16, 128], causal: true, forward_s: 2e-3, backward_s: 5e-3 }],
  products: [{ n: 8192, tflops: 800 }],
  copies: [{ bytes: 2 ** 31, gb_per_s: 4000 }],
};
const row = (more) => ({
  name: 'gelu',
  dtype: 'bfloat16',
  operation: 'bias_gelu_forward',
  rate: '',
  peer: '',
  ratio: 0.9,
  bestSeconds: 1e-3,
  bytes: 3.6e9,
  flops: undefined,
  ...more,
});
const attention = (more) =>
  row({
    operation: 'attention_forward',
    name: 'attention_forward causal [2048,4,16,128]',
    flops: 1e9,
    qkv: [2048, 4, 16, 3, 128],
    ...more,
  });
const judged = (one, by = peer) => {
  const [{ ratio, reached }] = compareKernels({ rows: [one], peer: by ?? undefined });
  return [ratio === null ? null : Number(ratio.toFixed(3)), reached];
};

describe('compareKernels', () => {
  it('compares with the faster of our copy and PyTorch’s', () => {
    expect(judged(row({}))).toEqual([0.9, true]);
    expect(judged(row({ bytes: 2e9 }))).toEqual([0.5, false]);
    expect(judged(row({ ratio: 0.7 }))).toEqual([0.7, false]);
    expect(judged(row({ bytes: 2e9 }), null)).toEqual([0.9, true]);
  });

  it('compares matmuls with the faster large matmul, in bfloat16 only', () => {
    const matmul = { operation: 'matmul', flops: 0.6e12 };
    expect(judged(row(matmul))).toEqual([0.75, false]);
    expect(judged(row({ ...matmul, dtype: 'float32' }))).toEqual([0.9, true]);
  });

  it('compares attention with PyTorch’s of the same shape, mask and direction', () => {
    expect(judged(attention({}))).toEqual([2, true]);
    expect(judged(attention({ bestSeconds: 4e-3 }))).toEqual([0.5, false]);
    expect(judged(attention({ operation: 'attention_backward', bestSeconds: 4e-3 }))).toEqual([1.25, true]);
    // kernels for any GPU, which are timed in addition to the Hopper kernels
    const forAnyGpu = { name: 'attention_forward causal [2048,4,16,128] mma.sync', bestSeconds: 4e-3 };
    expect(judged(attention(forAnyGpu))).toEqual([0.5, null]);
    for (const other of [
      { dtype: 'float32' },
      { qkv: [8192, 16, 3, 128] },
      { qkv: [1024, 4, 16, 3, 128] },
      { name: 'attention_forward bidirectional [2048,4,16,128]' },
      { name: 'attention_forward dropout causal [2048,4,16,128]' },
    ]) {
      expect(judged(attention(other))).toEqual([null, null]);
    }
    expect(formatKernels(compareKernels({ rows: [attention({ dtype: 'float32' })], peer }))).toContain(
      '| - | - |',
    );
  });
});
