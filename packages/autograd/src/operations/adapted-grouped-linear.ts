import { UsageError } from '@mtl/errors';
import {
  add,
  checkedOperation,
  groupedMatmul,
  groupedWeightGradient,
  scale,
  type Tensor,
} from '@mtl/kernels';
import type { Parameter } from '../parameter.js';
import type { Tape } from '../tape.js';
import { trainedParameters } from '../trained-parameters.js';
import { Variable } from '../variable.js';
import { expectPlainPrecision, type GroupedLinearOptions, withMatrices } from './grouped-linear.js';

/** A low-rank adapter of each group of a grouped linear layer (LoRA, Hu et al. 2021). */
export interface GroupedAdapter {
  /** A of each group, [G, r, K] */
  readonly down: Parameter;
  /** B of each group, [G, ..., r]: the dimensions between are the outputs, as those of the layer's weight. */
  readonly up: Parameter;
  /** The factor of what they add: alpha / r. */
  readonly scale: number;
}

export interface AdaptedGroupedLinearOptions extends GroupedLinearOptions {
  readonly adapter: GroupedAdapter;
}

/**
 * `groupedLinear` with an adapter: output[r] = input[r] (weight[g] + scale * up[g] down[g])^T for the rows r
 * of group g, [R, 1, N]; rows behind the last group become zeros. Where the layer's weight is sharded, each
 * process adds what its slices of the adapter give, so that nothing more is communicated, and the gradient of
 * the factor that is replicated is a partial sum.
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
          // of what is multiplied with B, then of what A gives
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

/** The output on the tape, and [R, 1, r]: scale times what A projects the input to. */
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

/** A new tensor: each row times the transposed matrix of its group. */
const timesTransposed = (input: Tensor, { data }: Parameter, offsets: Tensor): Tensor =>
  withMatrices(data, (weights) => groupedMatmul({ input, weights, offsets, transposeWeights: true }));

/** A new tensor: each row times the matrix of its group. */
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
