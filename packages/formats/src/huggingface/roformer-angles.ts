import type { TensorSource } from '@mtl/checkpoint';
import type { BertModelConfiguration } from '@mtl/models';
import { encodeFloats, type WritableDtype } from './float-bytes.js';

/**
 * The sines of the angles of a RoFormer, [P, D], and in the second half of each row their cosines:
 * transformers computes them itself, and still reports them as missing where a file lacks them.
 */
export function roformerAngles(
  { maxPositionEmbeddings, hiddenSize, numAttentionHeads }: BertModelConfiguration,
  dtype: WritableDtype,
): TensorSource {
  const headSize = hiddenSize / numAttentionHeads;
  const numPairs = headSize / 2;
  const values = new Float32Array(maxPositionEmbeddings * headSize);
  for (let position = 0; position < maxPositionEmbeddings; position++) {
    for (let pair = 0; pair < numPairs; pair++) {
      const angle = position / 10_000 ** (pair / numPairs);
      values[position * headSize + pair] = Math.sin(angle);
      values[position * headSize + numPairs + pair] = Math.cos(angle);
    }
  }
  return {
    name: 'roformer.encoder.embed_positions.weight',
    dtype,
    shape: [maxPositionEmbeddings, headSize],
    read: () => encodeFloats(values, dtype),
  };
}
