import { Variable } from '@mtl/autograd';
import { type Device, Tensor } from '@mtl/kernels';

/** One micro-batch of token sequences on the host; arrays are [B, S], row by row. What @mtl/data's loader yields. */
export interface TokenBatch {
  readonly batchSize: number;
  readonly sequenceLength: number;
  readonly tokens: Int32Array;
  /** The token after each position. */
  readonly labels: Int32Array;
  /** 1 where the loss counts, 0 where it does not (padding, tokens after the end of a document). */
  readonly lossMask: Float32Array;
  readonly positionIds: Int32Array;
  /** [B]: global sample numbers (exact integers), which random masks depend on. */
  readonly sampleNumbers: Float64Array;
  /** First visible key of each position, where attention stops at document boundaries. */
  readonly keyStart: Int32Array | undefined;
}

/** The tokens of a batch whose loss counts. */
export function numLossTokens({ lossMask }: TokenBatch): number {
  return lossMask.reduce((sum, value) => sum + value, 0);
}

type Transposable = Int32Array | Float32Array;

/** [B, S] to [S, B]: activations are sequence first. */
function transposed<A extends Transposable>(values: A, batch: number, sequence: number): A {
  const result = new (values.constructor as new (size: number) => A)(values.length);
  for (let b = 0; b < batch; b++) {
    for (let s = 0; s < sequence; s++) result[s * batch + b] = values[b * sequence + s]!;
  }
  return result;
}

/** A batch on the device; [S, B] except `samples` [B] and `keyStart` [B, S]. */
export interface DeviceBatch {
  readonly tokens: Variable;
  readonly positionIds: Variable;
  readonly labels: Variable;
  /** float32: loss mask times the loss factor. */
  readonly weights: Variable;
  readonly samples: Variable;
  readonly keyStart: Variable | undefined;
  release(): void;
}

/** Copies a batch to the device. */
export function toDevice(
  batch: TokenBatch,
  { device, lossFactor }: { device: Device; lossFactor: number },
): DeviceBatch {
  const { batchSize: b, sequenceLength: s } = batch;
  const constant = (tensor: Tensor): Variable => new Variable(tensor, { requiresGradient: false });
  const ids = (values: Int32Array): Variable =>
    constant(Tensor.from(transposed(values, b, s), { shape: [s, b], dtype: 'int32', device }));
  const weights = transposed(batch.lossMask, b, s).map((mask) => mask * lossFactor);
  const variables = {
    tokens: ids(batch.tokens),
    positionIds: ids(batch.positionIds),
    labels: ids(batch.labels),
    weights: constant(Tensor.from(weights, { shape: [s, b], dtype: 'float32', device })),
    samples: constant(
      Tensor.from(BigInt64Array.from(Array.from(batch.sampleNumbers, BigInt)), {
        shape: [b],
        dtype: 'int64',
        device,
      }),
    ),
    keyStart:
      batch.keyStart === undefined
        ? undefined
        : constant(Tensor.from(batch.keyStart, { shape: [b, s], dtype: 'int32', device })),
  };
  return {
    ...variables,
    release: () => {
      for (const variable of Object.values(variables)) variable?.release();
    },
  };
}
