import { like, returningOperation } from '../returning-operation.js';
import { runOperation } from '../run-operation.js';
import type { Tensor } from '../tensor.js';

export interface RotaryEmbeddingOptions {
  /** The shape of `input`, and its memory or other memory. */
  readonly output: Tensor;
  /**
   * [S, B, ..., D] or [T, ..., D]: heads, in any number of dimensions; a strided view or not. One call
   * rotates the queries and keys of a packed projection with the view `queriesAndKeys` of it.
   */
  readonly input: Tensor;
  /** int32 [S, B] or [T]: the position of every row of heads, from 0 to P - 1. */
  readonly positions: Tensor;
  /** float32 [P, R], made by `rotaryTable`; elements of a head from R on are copied. */
  readonly table: Tensor;
  /** Rotates elements 2i and 2i + 1 of a head instead of i and i + R / 2. Default: false. */
  readonly interleaved?: boolean;
  /** Rotates by the negative angles: the gradient of the input from that of the output. Default: false. */
  readonly inverse?: boolean;
}

/**
 * Rotary position embedding (RoPE, Su et al. 2021): the pair (a, b) of a head at position p becomes
 * (a cos - b sin, a sin + b cos), with the angle of row p of the table.
 *
 * @throws KernelError `MTL_SHAPE` or `MTL_DTYPE` for tensors that do not fit, `MTL_INDEX` for a position that
 *   the table does not have
 */
export const rotaryEmbedding = returningOperation<RotaryEmbeddingOptions, 'output'>(
  'rotaryEmbedding',
  { output: ({ input }) => like(input) },
  (options) => {
    const { output, input, positions, table, interleaved = false, inverse = false } = options;
    runOperation('rotary_embedding', { output, input, positions, table, interleaved, inverse });
  },
);
