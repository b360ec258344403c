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
  /** [R, 1, K] (or more dimensions that can be flattened to R rows), sorted by group */
  readonly input: Variable;
  /**
   * `[G, ..., K]`: a matrix with N outputs for each group;
   * the dimensions in the middle can be flattened to N.
   */
  readonly weight: Parameter;
  /** int32 [G + 1]: group g has the rows from `offsets[g]` up to, but not including, `offsets[g + 1]`. */
  readonly offsets: Variable;
}

/** Runs `body` with the tensor [G, ..., K] viewed as [G, N, K]. */
function withMatrices<Result>(tensor: Tensor, body: (matrices: Tensor) => Result): Result {
  const [groups, inputs] = [tensor.dim(0), tensor.dim(-1)];
  const view = tensor.reshape([groups, tensor.size / (groups * inputs), inputs]);
  try {
    return body(view);
  } finally {
    view.dispose();
  }
}

/** @throws UsageError MTL_UNSUPPORTED for a weight whose precision is not `plainPrecision` */
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
 * Computes `output[r] = input[r] * weight[g]^T` for each row r of group g, [R, 1, N]; rows after the last
 * group become zeros. The matmul adds the weight gradient directly to the main gradient, always in float32.
 * The gradient of a group without rows does not change.
 *
 * @throws KernelError `MTL_SHAPE` or `MTL_DTYPE` for tensors that do not fit, `MTL_INDEX` for invalid offsets
 * @throws UsageError `MTL_UNSUPPORTED` for a weight whose precision is not `plainPrecision`
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

/** Low-rank adapters of a grouped linear layer, one for each group (LoRA, Hu et al. 2021). */
export interface GroupedAdapter {
  /** A of all groups, [G, r, K] */
  readonly down: Parameter;
  /**
   * The matrices B of all groups, [G, ..., r]; the dimensions in the middle are the outputs, as in the
   * layer's weight.
   */
  readonly up: Parameter;
  /** The factor by which the adapters' output is multiplied: alpha / r. */
  readonly scale: number;
}

export interface AdaptedGroupedLinearOptions extends GroupedLinearOptions {
  readonly adapter: GroupedAdapter;
}

/**
 * Computes `groupedLinear` with an adapter: `output[r] = input[r] * (weight[g] + scale * up[g] * down[g])^T`
 * for each row r of group g, [R, 1, N]; rows after the last group become zeros. If the layer's weight is
 * sharded, each process adds the terms of its slices of the adapter. No further communication is needed, and
 * the gradient of the replicated factor (A or B) is a partial sum.
 *
 * Only the adapter is trained. The weight must be frozen.
 *
 * @throws KernelError `MTL_SHAPE` or `MTL_DTYPE` for tensors that do not fit, `MTL_INDEX` for invalid offsets
 * @throws UsageError `MTL_UNSUPPORTED` for a weight whose precision is not `plainPrecision`, `MTL_FROZEN` for
 *   a weight that is trained
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
          // `lowGradient` contains first the gradient of B's output, then the gradient of A's output
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

/**
 * Computes the tape's output. Also returns `low`, the input projected by A and multiplied by the scale, [R,
 * 1, r].
 */
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

/** Multiplies each row by the transposed matrix of the row's group. Returns a new tensor. */
const timesTransposed = (input: Tensor, { data }: Parameter, offsets: Tensor): Tensor =>
  withMatrices(data, (weights) => groupedMatmul({ input, weights, offsets, transposeWeights: true }));

/** Multiplies each row by the matrix of the row's group. Returns a new tensor. */
const times = (input: Tensor, { data }: Parameter, offsets: Tensor): Tensor =>
  withMatrices(data, (weights) => groupedMatmul({ input, weights, offsets }));

/** Adds the gradient of an adapter's factor to its main gradient, if the factor is trained. */
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
