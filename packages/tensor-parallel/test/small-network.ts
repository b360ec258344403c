import {
  allocateParameters,
  type Dropout,
  gelu,
  initializeParameter,
  type LinearAdapter,
  Parameter,
  type ParameterOptions,
  Tape,
} from '@mtl/autograd';
import { Tensor } from '@mtl/kernels';
import type { Slice } from '@mtl/layout';
import {
  columnParallelAdapter,
  columnParallelLinear,
  rowParallelAdapter,
  rowParallelLinear,
  sliceOfRank,
  type TensorParallel,
  vocabularyParallelCrossEntropy,
  vocabularyParallelEmbedding,
} from '../src/index.js';

// S: sequence, B: micro-batch, H: hidden, F: feed-forward, V: vocabulary (37 tokens and 3 rows of padding)
export const [S, B, H, F, V] = [8, 2, 12, 16, 40];

export interface NetworkResult {
  /**
   * Activations after the embedding and after the feed-forward network: [S, B, H], or a shard [S / t, B, H].
   */
  readonly embedded: readonly number[];
  readonly narrowed: readonly number[];
  /** [S * B] */
  readonly losses: readonly number[];
  readonly gradients: readonly { readonly parameter: Parameter; readonly values: readonly number[] }[];
}

/**
 * Runs an embedding, a feed-forward network and a loss, with every operation of the package, unsharded or
 * sharded over processes. `isAdapted`: the linear layers have adapters and frozen weights.
 */
export function runNetwork(
  tensorParallel: TensorParallel | undefined,
  options: {
    readonly token?: number;
    readonly label?: number;
    readonly ignoreIndex?: number;
    readonly isAdapted?: boolean;
  } = {},
): NetworkResult {
  const own = (size: number) => sliceOfRank(tensorParallel, { size, what: 'something' });
  const positions = tensorParallel?.sequenceParallel === true ? own(S) : { start: 0, end: S };
  const base = makeParameters(tensorParallel);
  const { words, places, up, upBias, down, downBias, head } = base;
  const { token = 0, label = 5, ignoreIndex, isAdapted = false } = options;
  const adapters = isAdapted ? makeAdapters({ up, down, tensorParallel }) : undefined;
  const trained = [...Object.values(base), ...(adapters?.parameters ?? [])];
  if (adapters !== undefined) for (const each of [up, upBias, down]) each.freeze();
  const storage = allocateParameters(trained, { device: 'cpu', dtype: 'float32', mainGradients: true });
  for (const each of trained) initializeParameter(each, each.data, 3);
  for (const each of adapters?.ups ?? []) writeSines(each);
  const parameters = trained.filter(({ isFrozen }) => !isFrozen);

  const tape = new Tape();
  const inputs = makeInputs(tape, { token, label, positions });
  const dropout = (firstColumn: number): Dropout => ({
    probability: 0.4,
    key: [1, 2],
    samples: inputs.samples,
    positions: inputs.allPlaces,
    firstColumn,
  });
  const embedded = vocabularyParallelEmbedding(tape, {
    tokens: { ids: inputs.tokens, table: words, vocabularySize: 37 },
    others: [{ ids: inputs.placeIds, table: places }],
    tensorParallel,
  });
  const widened = columnParallelLinear(tape, {
    input: embedded,
    weight: up,
    bias: upBias,
    adapters: adapters && { adapters: adapters.ofUp, scale: 0.5, dropout: dropout(0) },
    tensorParallel,
  });
  const activated = gelu(tape, { input: widened, kind: 'tanh' });
  const narrowed = rowParallelLinear(tape, {
    input: activated,
    weight: down,
    bias: downBias,
    residual: embedded,
    adapters: adapters && { adapters: adapters.ofDown, scale: 2, dropout: dropout(own(F).start) },
    tensorParallel,
  });
  const losses = vocabularyParallelCrossEntropy(tape, {
    input: narrowed,
    weight: head,
    vocabularySize: 37,
    labels: inputs.labels,
    weights: inputs.weights,
    tensorParallel,
    // small, so that there are several chunks of a few rows each
    chunkBytes: 400,
    ignoreIndex,
  });
  tape.backward(losses);
  const result = {
    embedded: embedded.tensor.toArray(),
    narrowed: narrowed.tensor.toArray(),
    losses: losses.tensor.toArray(),
    gradients: parameters.map((each) => ({ parameter: each, values: each.mainGradient.toArray() })),
  };
  for (const variable of [embedded, widened, activated, narrowed, losses, ...Object.values(inputs)]) {
    variable.release();
  }
  tape.dispose();
  storage.dispose();
  return result;
}

/**
 * Makes the network's parameters: vocabulary and features are sharded, with sequence parallelism also the
 * positions.
 */
function makeParameters(tensorParallel: TensorParallel | undefined) {
  const isCut = tensorParallel?.sequenceParallel === true;
  const own = (size: number) => sliceOfRank(tensorParallel, { size, what: 'something' });
  const all = (size: number) => ({ start: 0, end: size });
  const parameter = (name: string, options: Pick<ParameterOptions, 'globalShape' | 'slices' | 'placement'>) =>
    new Parameter({ name, ...options, initialization: { kind: 'normal', standardDeviation: 0.7 } });
  const whole = isCut ? { placement: { rows: ['tp'] as const } } : {};
  return {
    words: parameter('words', { globalShape: [V, H], slices: [own(V), all(H)] }),
    places: parameter('places', { globalShape: [S, H], ...whole }),
    up: parameter('up', { globalShape: [F, H], slices: [own(F), all(H)] }),
    upBias: parameter('upBias', { globalShape: [F], slices: [own(F)] }),
    down: parameter('down', { globalShape: [H, F], slices: [all(H), own(F)] }),
    downBias: parameter('downBias', { globalShape: [H], ...whole }),
    head: parameter('head', { globalShape: [V, H], slices: [own(V), all(H)] }),
  };
}

/** Creates the batch as variables of a tape; `positions` is this process's part of the learned positions. */
function makeInputs(
  tape: Tape,
  { token, label, positions }: { readonly token: number; readonly label: number; readonly positions: Slice },
) {
  const ids = (values: readonly number[]) =>
    tape.input(Tensor.from(values, { shape: [values.length / B, B], dtype: 'int32' }));
  const indices = Array.from({ length: S * B }, (_, index) => index);
  const tokens = ids(indices.map((index) => (index === 0 ? token : (index * 11) % 37)));
  const labels = ids(indices.map((index) => (index === 7 ? label : (index * 23 + 5) % 37)));
  const placeIds = ids(
    indices.slice(positions.start * B, positions.end * B).map((index) => Math.floor(index / B)),
  );
  const samples = tape.input(
    Tensor.from(
      indices.map((index) => 100 + (index % B)),
      { shape: [S, B], dtype: 'int64' },
    ),
  );
  const allPlaces = ids(indices.map((index) => Math.floor(index / B)));
  const weights = tape.input(
    Tensor.from(
      indices.map((index) => (index % 6 === 5 ? 0 : 1 / 14)),
      { shape: [S, B], dtype: 'float32' },
    ),
  );
  return { tokens, labels, placeIds, allPlaces, samples, weights };
}

/** Makes two adapters of the first layer and one of the second, of different ranks. */
function makeAdapters(options: {
  readonly up: Parameter;
  readonly down: Parameter;
  readonly tensorParallel: TensorParallel | undefined;
}) {
  const { up, down, tensorParallel } = options;
  const ofUp: LinearAdapter[] = [
    columnParallelAdapter({ name: 'up.one', weight: up, rank: 3, tensorParallel }),
    columnParallelAdapter({ name: 'up.two', weight: up, rank: 2, tensorParallel }),
  ];
  const ofDown = [rowParallelAdapter({ name: 'down', weight: down, rank: 2, tensorParallel })];
  const all = [...ofUp, ...ofDown];
  const ups = all.map((adapter) => adapter.up);
  return { ofUp, ofDown, ups, parameters: [...all.map((adapter) => adapter.down), ...ups] };
}

/**
 * Fills parameters with values that depend on the global row and column. Adapters begin with zeros, which
 * would make the gradient of their other factor zero.
 */
function writeSines({ data, slices, globalShape }: Parameter): void {
  const [rows, columns] = slices as [{ start: number; end: number }, { start: number; end: number }];
  const values = new Float32Array(data.size);
  for (let at = 0, row = rows.start; row < rows.end; row++) {
    for (let column = columns.start; column < columns.end; column++) {
      values[at++] = Math.sin(row * globalShape[1]! + column);
    }
  }
  data.write(values);
}
