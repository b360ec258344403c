import { UsageError } from '@mtl/errors';
import {
  add,
  checkedOperation,
  groupedMatmul,
  groupedWeightGradient,
  scale,
  type Tensor,
} from '@mtl/kernels';
import { plainPrecision } from '../matmul-precision.js';
import { type Parameter, trainedParameters } from '../parameter.js';
import type { Tape } from '../tape.js';
import { Variable } from '../variable.js';

export interface GroupedLinearOptions {
  /** `[R, 1, K]` (or more dimensions that fold to R rows): sorted by group */
  readonly input: Variable;
  /** `[G, ..., K]`: a matrix of N outputs for each group; the dimensions between fold to N. */
  readonly weight: Parameter;
  /** `[G + 1]` int32: the rows of group g are `offsets[g]` to `offsets[g + 1]`, exclusive. */
  readonly offsets: Variable;
}

/** Runs `body` with a view of [G, ..., K] as [G, N, K]. */
function withMatrices<Result>(tensor: Tensor, body: (matrices: Tensor) => Result): Result {
  const [groups, inputs] = [tensor.dim(0), tensor.dim(-1)];
  const view = tensor.reshape([groups, tensor.size / (groups * inputs), inputs]);
  try {
    return body(view);
  } finally {
    view.dispose();
  }
}

/** @throws UsageError MTL_UNSUPPORTED for a weight whose matmuls compute in another precision */
function expectPlainPrecision({ name, precision }: Parameter): void {
  if (precision === plainPrecision) return;
  throw new UsageError(
    'MTL_UNSUPPORTED',
    `groupedLinear: ${name} computes its matmuls in another precision`,
    {
      expected: 'a weight in the dtype of the activations: grouped matmuls have no other precision',
    },
  );
}

/**
 * Computes output[r] = input[r] weight[g]^T for the rows r of group g, [R, 1, N]; rows behind the last group
 * become zeros. The weight gradient is added to the main gradient by the matmul itself, in float32 whatever
 * the compute dtype; the gradient of a group without rows is unchanged.
 *
 * @throws KernelError `MTL_SHAPE` or `MTL_DTYPE` for tensors that do not fit, `MTL_INDEX` for offsets that
 *   are none
 * @throws UsageError `MTL_UNSUPPORTED` for a weight whose matmuls compute in another precision
 */
export const groupedLinear = checkedOperation(
  'groupedLinear',
  (tape: Tape, { input, weight, offsets }: GroupedLinearOptions): Variable => {
    expectPlainPrecision(weight);
    const output = withMatrices(weight.data, (weights) =>
      groupedMatmul({
        input: input.tensor,
        weights,
        offsets: offsets.tensor,
        transposeWeights: true,
      }),
    );
    const trained = trainedParameters(weight);
    const result = tape.result(output, { requiresGradient: input.requiresGradient || trained.length > 0 });
    tape.record(result, () => {
      const savedInput = weight.isFrozen ? undefined : tape.save(input);
      const savedOffsets = tape.save(offsets);
      return {
        name: `groupedLinear ${weight.name}`,
        inputs: [input],
        parameters: trained,
        saved: [savedInput, savedOffsets].filter((saved) => saved !== undefined),
        backward: ({ parts, outputGradient }) => {
          const operands = { outputGradient: outputGradient!, offsets: savedOffsets.tensor };
          let inputGradient: Tensor | undefined;
          if (parts.input && input.requiresGradient) {
            inputGradient = withMatrices(weight.data, (weights) =>
              groupedMatmul({ input: outputGradient!, weights, offsets: savedOffsets.tensor }),
            );
          }
          if (parts.weight && savedInput !== undefined) {
            const { gradient, accumulate } = weight.takeMainGradient();
            withMatrices(gradient, (weightGradient) =>
              groupedWeightGradient({
                weightGradient,
                ...operands,
                input: savedInput.tensor,
                accumulate,
              }),
            );
          }
          return [inputGradient];
        },
      };
    });
    return result;
  },
);

/** A low-rank adapter of each group of a grouped linear layer (LoRA, Hu et al. 2021). */
export interface GroupedAdapter {
  /** A of each group, [G, r, K] */
  readonly down: Parameter;
  /** B of each group, [G, ..., r]: the dimensions between are the outputs, as in the layer's weight. */
  readonly up: Parameter;
  /** The factor of the adapter's output: alpha / r. */
  readonly scale: number;
}

export interface AdaptedGroupedLinearOptions extends GroupedLinearOptions {
  readonly adapter: GroupedAdapter;
}

/**
 * Computes `groupedLinear` with an adapter: output[r] = input[r] (weight[g] + scale * up[g] down[g])^T for
 * the rows r of group g, [R, 1, N]; rows behind the last group become zeros. Where the layer's weight is
 * sharded, each process adds the terms of its slices of the adapter, so that no further communication is
 * needed, and the gradient of the factor that is replicated is a partial sum.
 *
 * Only the adapter is trained: the weight is frozen.
 *
 * @throws KernelError `MTL_SHAPE` or `MTL_DTYPE` for tensors that do not fit, `MTL_INDEX` for offsets that
 *   are none
 * @throws UsageError `MTL_UNSUPPORTED` for a weight whose matmuls compute in another precision, `MTL_FROZEN`
 *   for one that is trained
 */
export const adaptedGroupedLinear = checkedOperation(
  'adaptedGroupedLinear',
  (tape: Tape, options: AdaptedGroupedLinearOptions): Variable => {
    const { input, weight, offsets, adapter } = options;
    const { down, up, scale: factor } = adapter;
    for (const parameter of [weight, down, up]) expectPlainPrecision(parameter);
    if (!weight.isFrozen) throw notFrozen(weight);
    const { output, low } = forward(options);
    const parameters = trainedParameters(down, up);
    const result = tape.result(output, {
      requiresGradient: input.requiresGradient || parameters.length > 0,
    });
    tape.record(result, () => {
      const [savedInput, savedLow, savedOffsets] = [tape.save(input), tape.save(low), tape.save(offsets)];
      return {
        name: `adaptedGroupedLinear ${weight.name}`,
        inputs: [input],
        parameters,
        saved: [savedInput, savedLow, savedOffsets],
        backward: ({ parts, outputGradient }) => {
          const bounds = savedOffsets.tensor;
          // first the gradient of B's output, then the gradient of A's output
          const lowGradient = times(outputGradient!, up, bounds);
          scale({ output: lowGradient, input: lowGradient, factor });
          let inputGradient: Tensor | undefined;
          if (parts.input && input.requiresGradient) {
            inputGradient = times(outputGradient!, weight, bounds);
            using ofAdapter = times(lowGradient, down, bounds);
            add({ output: inputGradient, left: inputGradient, right: ofAdapter });
          }
          if (parts.weight) {
            addGradient(down, { outputGradient: lowGradient, input: savedInput.tensor, offsets: bounds });
            addGradient(up, { outputGradient: outputGradient!, input: savedLow.tensor, offsets: bounds });
          }
          lowGradient.dispose();
          return [inputGradient];
        },
      };
    });
    low.release();
    return result;
  },
);

const notFrozen = ({ name }: Parameter): UsageError =>
  new UsageError('MTL_FROZEN', `parameter ${name} is trained, and its layer has adapters`, {
    expected: 'a frozen weight: adapters are trained in its place',
    remedy: 'freeze it before the optimizer is built',
  });

/** Computes the output on the tape, and [R, 1, r]: scale times the input that A has projected. */
function forward({ input, weight, offsets, adapter }: AdaptedGroupedLinearOptions): {
  readonly output: Tensor;
  readonly low: Variable;
} {
  const low = timesTransposed(input.tensor, adapter.down, offsets.tensor);
  scale({ output: low, input: low, factor: adapter.scale });
  const output = timesTransposed(input.tensor, weight, offsets.tensor);
  using added = timesTransposed(low, adapter.up, offsets.tensor);
  add({ output, left: output, right: added });
  return { output, low: new Variable(low, { requiresGradient: false }) };
}

/** Returns a new tensor: each row times the transposed matrix of its group. */
const timesTransposed = (input: Tensor, { data }: Parameter, offsets: Tensor): Tensor =>
  withMatrices(data, (weights) => groupedMatmul({ input, weights, offsets, transposeWeights: true }));

/** Returns a new tensor: each row times the matrix of its group. */
const times = (input: Tensor, { data }: Parameter, offsets: Tensor): Tensor =>
  withMatrices(data, (weights) => groupedMatmul({ input, weights, offsets }));

/** Adds to the main gradient of a factor that is trained. */
function addGradient(
  parameter: Parameter,
  operands: { readonly outputGradient: Tensor; readonly input: Tensor; readonly offsets: Tensor },
): void {
  if (parameter.isFrozen) return;
  const { gradient, accumulate } = parameter.takeMainGradient();
  withMatrices(gradient, (weightGradient) =>
    groupedWeightGradient({ weightGradient, ...operands, accumulate }),
  );
}
