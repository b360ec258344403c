import {
  cast,
  checkedOperation,
  rmsNormBackward,
  rmsNormForward,
  rowProducts,
  splitProjection,
  Tensor,
  tidy,
} from '@mtl/kernels';
import { type Collective, startCollective } from '../collective.js';
import { type Parameter, trainedParameters } from '../parameter.js';
import type { Tape } from '../tape.js';
import { type SavedTensor, Variable } from '../variable.js';

export interface WholeHeadNormOptions {
  /** [S, B, W] or [T, W], W = G * (R + 2) * D: the R queries, the key and the value of each group. */
  readonly qkv: Variable;
  /** G, the number of groups on this process. */
  readonly numGroups: number;
  /** D */
  readonly headSize: number;
  /** [G * R * D] */
  readonly queryWeight: Parameter;
  /** [G * D] */
  readonly keyWeight: Parameter;
  readonly epsilon: number;
  /** The number of processes over which the heads are evenly sharded. Default: 1. */
  readonly numShards?: number | undefined;
  /**
   * Sums values, in place, over the processes over which the heads are sharded. Default: this process has all
   * heads.
   */
  readonly sum?: Collective | undefined;
}

const parts = ['query', 'key'] as const;
type Part = (typeof parts)[number];
type OfBoth<Value> = Readonly<Record<Part, Value>>;

const ofBoth = <Value>(make: (part: Part) => Value): OfBoth<Value> => ({
  query: make('query'),
  key: make('key'),
});

/**
 * Returns a view of the statistics of queries or keys within all statistics [2 * rows]: first all queries,
 * then all keys.
 */
const viewStatistics = (statistics: Tensor, part: Part): Tensor => {
  const rows = statistics.size / 2;
  return statistics.view({ offset: part === 'query' ? 0 : rows, shape: [rows] });
};

function newStatistics({ tensor: { size, dtype, device }, rowSize }: { tensor: Tensor; rowSize: number }) {
  const statistics = dtype === 'float64' ? 'float64' : 'float32';
  return Tensor.empty({ shape: [(2 * size) / rowSize], dtype: statistics, device });
}

/**
 * Splits packed projections into views, and copies the queries or the keys of all rows to contiguous memory.
 */
class Projection {
  readonly #shape: readonly number[];
  readonly rows: number;

  constructor({ qkv, numGroups, headSize }: WholeHeadNormOptions) {
    const width = qkv.tensor.dim(-1);
    this.rows = qkv.tensor.size / width;
    this.#shape = [this.rows, 1, numGroups, width / (numGroups * headSize), headSize];
  }

  split(tensor: Tensor) {
    return splitProjection(tensor.reshape(this.#shape));
  }

  /** Returns a contiguous copy [rows, width] of the queries or keys. */
  copied(view: Tensor): Tensor {
    const { shape, dtype, device } = view;
    const copy = Tensor.empty({ shape, dtype, device });
    cast({ output: copy, input: view });
    return copy.reshape([this.rows, view.size / Math.max(this.rows, 1)]);
  }

  /** Copies queries or keys [rows, width] back into the projection. */
  put(view: Tensor, copy: Tensor): void {
    cast({ output: view, input: copy.reshape(view.shape) });
  }
}

/**
 * Sums one value per row for queries and for keys, [2 * rows], over the heads of all processes, with a single
 * collective. Returns undefined if this process has all heads.
 */
function sumOfAll(
  { sum }: WholeHeadNormOptions,
  { into, own }: { readonly into: Tensor; readonly own: (part: Part, output: Tensor) => void },
): Tensor | undefined {
  if (sum === undefined) return undefined;
  for (const part of parts) own(part, viewStatistics(into, part));
  return startCollective(sum, into).wait();
}

interface Statistics {
  readonly rstd: Variable;
  /** The sums of squares over the heads of all processes; undefined if this process has all heads. */
  readonly squares: Variable | undefined;
}

/** Returns a new tensor with the values of `qkv`, but with normalized queries and keys. */
function forward(
  options: WholeHeadNormOptions,
  { projection, statistics, isFirst }: { projection: Projection; statistics: Statistics; isFirst: boolean },
): Tensor {
  const { qkv, queryWeight, keyWeight, epsilon, numShards = 1 } = options;
  const weights = { query: queryWeight, key: keyWeight };
  const result = Tensor.empty(qkv.tensor);
  tidy(() => {
    const [to, from] = [projection.split(result), projection.split(qkv.tensor)];
    cast({ output: to.value, input: from.value });
    const inputs = ofBoth((part) => projection.copied(from[part]));
    const squares = statistics.squares?.tensor;
    if (isFirst && squares !== undefined) {
      const own = (part: Part, output: Tensor): void =>
        rowProducts({ output, left: inputs[part], right: inputs[part] });
      const total = sumOfAll(options, { into: squares, own })!;
      if (total !== squares) cast({ output: squares, input: total });
    }
    for (const part of parts) {
      const output = Tensor.empty(inputs[part]);
      rmsNormForward({
        output,
        rstd: viewStatistics(statistics.rstd.tensor, part),
        input: inputs[part],
        weight: weights[part].data,
        epsilon,
        squares: squares && viewStatistics(squares, part),
        width: numShards * inputs[part].dim(-1),
      });
      projection.put(to[part], output);
    }
  });
  return result;
}

/** Returns the gradient of `qkv`, a new tensor; also adds to the gradients of the weights. */
function backward(
  options: WholeHeadNormOptions,
  call: {
    readonly projection: Projection;
    readonly outputGradient: Tensor;
    readonly qkv: SavedTensor;
    readonly rstd: SavedTensor;
    readonly needed: { readonly input: boolean; readonly weight: boolean };
  },
): Tensor {
  const { projection, outputGradient, needed } = call;
  const { queryWeight, keyWeight, numShards = 1 } = options;
  const weights = { query: queryWeight, key: keyWeight };
  const result = Tensor.empty(outputGradient);
  // these reads are outside of `tidy`, because recomputed tensors belong to their variables and must not be
  // disposed of here
  const [qkv, rstd] = [call.qkv.tensor, call.rstd.tensor];
  tidy(() => {
    const [to, of, from] = [result, outputGradient, qkv].map((tensor) => projection.split(tensor)) as [
      ReturnType<typeof splitProjection>,
      ReturnType<typeof splitProjection>,
      ReturnType<typeof splitProjection>,
    ];
    if (needed.input) cast({ output: to.value, input: of.value });
    const gradients = ofBoth((part) => projection.copied(of[part]));
    const inputs = ofBoth((part) => projection.copied(from[part]));
    const products = needed.input
      ? sumOfAll(options, {
          into: Tensor.empty(rstd),
          own: (part, output) =>
            rowProducts({ output, left: gradients[part], right: inputs[part], weight: weights[part].data }),
        })
      : undefined;
    for (const part of parts) {
      const weight = weights[part];
      const weightGradient = needed.weight && !weight.isFrozen ? weight.mainGradient : undefined;
      if (!needed.input && weightGradient === undefined) continue;
      rmsNormBackward({
        inputGradient: needed.input ? gradients[part] : undefined,
        weightGradient,
        outputGradient: gradients[part],
        input: inputs[part],
        rstd: viewStatistics(rstd, part),
        weight: weight.data,
        ...(products !== undefined && {
          products: viewStatistics(products, part),
          width: numShards * inputs[part].dim(-1),
        }),
      });
      if (needed.input) projection.put(to[part], gradients[part]);
    }
  });
  return result;
}

/**
 * Applies one RMSNorm to the queries of all heads together, and a second RMSNorm to the keys of all groups
 * together (OLMoE, Muennighoff et al. 2024); other models have a norm per head. If the heads are sharded over
 * processes, a collective sums the squares in forward, and a collective sums the products of gradients and
 * inputs in backward. Returns a packed projection with the shape of `qkv` and unchanged attention values. If
 * the tape rematerializes, backward computes the result again instead of keeping it.
 *
 * @throws KernelError or UsageError `MTL_SHAPE` or `MTL_DTYPE` for operands that do not fit
 */
export const wholeHeadNorm = checkedOperation(
  'wholeHeadNorm',
  (tape: Tape, options: WholeHeadNormOptions): Variable => {
    const { qkv, queryWeight, keyWeight, sum } = options;
    const projection = new Projection(options);
    const rowSize = qkv.tensor.dim(-1);
    const make = (): Variable =>
      new Variable(newStatistics({ tensor: qkv.tensor, rowSize }), { requiresGradient: false });
    const statistics: Statistics = { rstd: make(), squares: sum === undefined ? undefined : make() };
    const all = [statistics.rstd, statistics.squares].filter((variable) => variable !== undefined);
    let isFirst = true;
    const compute = (): Tensor => {
      const result = forward(options, { projection, statistics, isFirst });
      isFirst = false;
      return result;
    };
    const parameters = trainedParameters(queryWeight, keyWeight);
    const result = tape.result(compute(), {
      requiresGradient: qkv.requiresGradient || parameters.length > 0,
      recipe: { dependencies: [qkv, ...all], compute },
    });
    tape.record(result, () => {
      const [savedQkv, ...saved] = [qkv, ...all].map((variable) => tape.save(variable));
      return {
        name: 'wholeHeadNorm',
        inputs: [qkv],
        parameters,
        saved: [savedQkv!, ...saved],
        backward: ({ parts: asked, outputGradient }) => {
          const needed = { input: asked.input && qkv.requiresGradient, weight: asked.weight };
          const gradient = backward(options, {
            projection,
            outputGradient: outputGradient!,
            qkv: savedQkv!,
            rstd: saved[0]!,
            needed,
          });
          if (needed.input) return [gradient];
          gradient.dispose();
          return [undefined];
        },
      };
    });
    for (const variable of all) variable.release();
    return result;
  },
);
