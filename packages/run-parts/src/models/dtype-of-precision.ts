import type { DType } from '@mtl/kernels';

/** What a model computes in, by the name of its precision. */
export const dtypeOfPrecision: Readonly<Record<'fp32' | 'bf16' | 'fp16', DType>> = {
  fp32: 'float32',
  bf16: 'bfloat16',
  fp16: 'float16',
};
