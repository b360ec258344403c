import { Variable } from '@mtl/autograd';
import { type Device, type DType, Tensor, type TypedArray } from '@mtl/kernels';

// S sequence, R rows: one for each sample, or several where a sample has several sequences.

/** Token sequences on the host; tokens lie sequence first: token s of row r has the flat index s * R + r. */
export interface TokenSequences {
  readonly numRows: number;
  readonly sequenceLength: number;
  /** int32 [S, R], padding at the end */
  readonly tokens: Int32Array;
  /** int32 [S, R] */
  readonly tokenTypes: Int32Array;
  /** int32 [R]: tokens of each row before its padding, at least one. */
  readonly lengths: Int32Array;
  /** [R]: numbers (exact integers) that tell rows of a training apart; random masks depend on them. */
  readonly rowNumbers: Float64Array;
}

/** What the embeddings and the layers of a BERT read, on the device. */
export interface DeviceSequences {
  /** int32 [S, R] */
  readonly tokens: Variable;
  readonly tokenTypes: Variable;
  readonly positionIds: Variable;
  /** uint8 [R, S]: 1 for tokens, 0 for padding; undefined where there is none. */
  readonly keyMask: Variable | undefined;
  /** int32 [R]: the flat indices of each row's first token, which is pooled. */
  readonly firstPositions: Variable;
  /** int64 [R] */
  readonly samples: Variable;
  release(): void;
}

/** A constant on the device. */
export function uploadConstant(
  values: TypedArray,
  { shape, dtype, device }: { shape: readonly number[]; dtype: DType; device: Device },
): Variable {
  return new Variable(Tensor.from(values, { shape, dtype, device }), { requiresGradient: false });
}

/** Copies sequences to the device; the caller's to release. */
export function sequencesToDevice(
  batch: TokenSequences,
  { device }: { readonly device: Device },
): Omit<DeviceSequences, 'release'> {
  const { numRows: r, sequenceLength: s, rowNumbers } = batch;
  const ids = (values: Int32Array, shape: readonly number[]): Variable =>
    uploadConstant(values, { shape, dtype: 'int32', device });
  const samples = BigInt64Array.from(Array.from(rowNumbers, BigInt));
  const counting = Int32Array.from({ length: s * r }, (_, index) => Math.floor(index / r));
  return {
    tokens: ids(batch.tokens, [s, r]),
    tokenTypes: ids(batch.tokenTypes, [s, r]),
    positionIds: ids(counting, [s, r]),
    keyMask: keyMaskOf(batch, device),
    firstPositions: ids(
      Int32Array.from({ length: r }, (_, index) => index),
      [r],
    ),
    samples: uploadConstant(samples, { shape: [r], dtype: 'int64', device }),
  };
}

function keyMaskOf({ numRows, sequenceLength, lengths }: TokenSequences, device: Device) {
  if (lengths.every((length) => length >= sequenceLength)) return undefined;
  const mask = new Uint8Array(numRows * sequenceLength);
  lengths.forEach((length, row) => {
    mask.fill(1, row * sequenceLength, row * sequenceLength + length);
  });
  return uploadConstant(mask, { shape: [numRows, sequenceLength], dtype: 'uint8', device });
}
