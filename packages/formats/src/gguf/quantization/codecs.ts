import { decodeFloats, encodeFloats } from '../../huggingface/float-bytes.js';
import type { TensorType } from '../tensor-types.js';
import { type Codec, maxFloat16 } from './codec.js';
import { q4Zero } from './q4-0.js';
import { q4K } from './q4-k.js';
import { q5Zero } from './q5-0.js';
import { q5One } from './q5-1.js';
import { q5K } from './q5-k.js';
import { q6K } from './q6-k.js';
import { q8Zero } from './q8-0.js';

const plain = (type: 'F32' | 'F16' | 'BF16', maxAbsolute: number): Codec => ({
  maxAbsolute,
  encode: (values) => encodeFloats(values, type),
  decode: (bytes, values) => values.set(decodeFloats(bytes, type)),
});

const maxFloat32 = (2 - 2 ** -23) * 2 ** 127;
const maxBfloat16 = (2 - 2 ** -7) * 2 ** 127;

/** The codec of each tensor type. */
export const codecs: Readonly<Record<TensorType, Codec>> = {
  F32: plain('F32', maxFloat32),
  F16: plain('F16', maxFloat16),
  BF16: plain('BF16', maxBfloat16),
  Q8_0: q8Zero,
  Q4_0: q4Zero,
  Q5_0: q5Zero,
  Q5_1: q5One,
  Q4_K: q4K,
  Q5_K: q5K,
  Q6_K: q6K,
};
