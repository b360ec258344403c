import {
  type ExpertActivationOptions as ActivationOptions,
  checkedOperation,
  expertActivationBackward,
  expertActivationForward,
  groupedBiasBackward,
  groupedBiasForward,
  groupedSumRows,
  Tensor,
} from '@mtl/kernels';
import { type Parameter, trainedParameters } from '../parameter.js';
import type { Tape } from '../tape.js';
import type { Variable } from '../variable.js';

export interface ExpertActivationOptions extends ActivationOptions {
  /** [R, 1, W] (or more dimensions). W is 2F for gated activations (F gates, then F values), F for others. */
  readonly input: Variable;
  /** [G, W], or [G, ...] whose other dimensions can be flattened to W, such as gates and values */
  readonly bias?: Parameter | undefined;
  /** float32, R elements: the factor of each row. Its gradient trains the router. */
  readonly probabilities?: Variable | undefined;
  /** int32 [G + 1]: group g has the rows from `offsets[g]` up to, but not including, `offsets[g + 1]`. */
  readonly offsets: Variable;
}

/**
 * Computes `act(input[r] + bias[g]) * probabilities[r]` for each row r of group g, [R, 1, F]; rows after the
 * last group become zeros. If the tape rematerializes, backward computes the output again instead of keeping
 * it.
 *
 * @throws KernelError `MTL_SHAPE`, `MTL_DTYPE` or `MTL_ARGUMENT` for operands that do not fit, `MTL_INDEX`
 *   for invalid offsets
 */
export const expertActivation = checkedOperation(
  'expertActivation',
  (tape: Tape, options: ExpertActivationOptions): Variable => {
    const { input, bias, probabilities, offsets, activation, clamp, linearOffset } = options;
    const kind = { activation, clamp, linearOffset };
    const compute = (): Tensor =>
      withRows(probabilities?.tensor, (factors) =>
        withVectors(bias?.data, (vectors) =>
          expertActivationForward({
            input: input.tensor,
            bias: vectors,
            probabilities: factors,
            offsets: offsets.tensor,
            ...kind,
          }),
        ),
      );
    const trained = trainedParameters(bias);
    const isProbabilityTrained = probabilities?.requiresGradient === true;
    const dependencies = [input, probabilities, offsets].filter((each) => each !== undefined);
    const result = tape.result(compute(), {
      requiresGradient: input.requiresGradient || isProbabilityTrained || trained.length > 0,
      recipe: { dependencies, compute },
    });
    tape.record(result, () => {
      const [savedInput, savedOffsets] = [tape.save(input), tape.save(offsets)];
      const savedFactors = probabilities && tape.save(probabilities);
      /**
       * Returns the input's gradient. If `ofFactors` is given, also writes the gradient of the factors to it.
       */
      const differentiate = (outputGradient: Tensor, ofFactors?: Tensor): Tensor =>
        withRows(savedFactors?.tensor, (factors) =>
          withVectors(bias?.data, (vectors) =>
            expertActivationBackward({
              probabilitiesGradient: ofFactors,
              outputGradient,
              input: savedInput.tensor,
              bias: vectors,
              probabilities: factors,
              offsets: savedOffsets.tensor,
              ...kind,
            }),
          ),
        );
      return {
        name: 'expertActivation',
        inputs: probabilities === undefined ? [input] : [input, probabilities],
        parameters: trained,
        saved: [savedInput, savedOffsets, savedFactors].filter((saved) => saved !== undefined),
        backward: ({ parts, outputGradient }) => {
          const ofFactors =
            parts.input && isProbabilityTrained ? Tensor.empty(probabilities.tensor) : undefined;
          const inputGradient = withRows(ofFactors, (rows) => differentiate(outputGradient!, rows));
          if (parts.weight && trained.length > 0) {
            withVectors(bias!.mainGradient, (output) =>
              groupedSumRows({
                output: output!,
                input: inputGradient,
                offsets: savedOffsets.tensor,
                accumulate: true,
              }),
            );
          }
          if (parts.input && input.requiresGradient) return [inputGradient, ofFactors];
          inputGradient.dispose();
          return [undefined, ofFactors];
        },
      };
    });
    return result;
  },
);

/** Runs `body` with the tensor viewed as [R], or with undefined if `tensor` is undefined. */
export const withRows = <Result>(
  tensor: Tensor | undefined,
  body: (rows: Tensor | undefined) => Result,
): Result => withShape(tensor, tensor === undefined ? [] : [tensor.size], body);

/** Runs `body` with the tensor [G, ...] viewed as [G, W], or with undefined if `tensor` is undefined. */
const withVectors = <Result>(
  tensor: Tensor | undefined,
  body: (vectors: Tensor | undefined) => Result,
): Result =>
  withShape(tensor, tensor === undefined ? [] : [tensor.dim(0), tensor.size / tensor.dim(0)], body);

function withShape<Result>(
  tensor: Tensor | undefined,
  shape: readonly number[],
  body: (view: Tensor | undefined) => Result,
): Result {
  if (tensor === undefined) return body(undefined);
  const view = tensor.reshape(shape);
  try {
    return body(view);
  } finally {
    view.dispose();
  }
}

export interface GroupedBiasOptions {
  /** [R, 1, N] (or more dimensions that can be flattened to R rows) */
  readonly input: Variable;
  /** [G, N] */
  readonly bias: Parameter;
  /** float32, R elements: the factor of each row's bias. Default: 1. */
  readonly probabilities?: Variable | undefined;
  /** int32 [G + 1]: group g has the rows from `offsets[g]` up to, but not including, `offsets[g + 1]`. */
  readonly offsets: Variable;
}

/**
 * Computes `input[r] + probabilities[r] * bias[g]` for each row r of group g, in the input's shape; rows
 * after the last group become zeros.
 *
 * @throws KernelError `MTL_SHAPE` or `MTL_DTYPE` for tensors that do not fit, `MTL_INDEX` for invalid offsets
 */
export const groupedBias = checkedOperation(
  'groupedBias',
  (tape: Tape, { input, bias, probabilities, offsets }: GroupedBiasOptions): Variable => {
    const output = withRows(probabilities?.tensor, (factors) =>
      groupedBiasForward({
        input: input.tensor,
        bias: bias.data,
        probabilities: factors,
        offsets: offsets.tensor,
      }),
    );
    const trained = trainedParameters(bias);
    const isProbabilityTrained = probabilities?.requiresGradient === true;
    const result = tape.result(output, {
      requiresGradient: input.requiresGradient || isProbabilityTrained || trained.length > 0,
    });
    const { shape } = output;
    tape.record(result, () => {
      const savedOffsets = tape.save(offsets);
      const savedFactors = trained.length > 0 && probabilities ? tape.save(probabilities) : undefined;
      return {
        name: `groupedBias ${bias.name}`,
        inputs: probabilities === undefined ? [input] : [input, probabilities],
        parameters: trained,
        saved: [savedOffsets, savedFactors].filter((saved) => saved !== undefined),
        backward: ({ parts, outputGradient }) => {
          const operands = { outputGradient: outputGradient!, offsets: savedOffsets.tensor };
          if (parts.weight && trained.length > 0) {
            withRows(savedFactors?.tensor, (weights) =>
              groupedSumRows({
                output: bias.mainGradient,
                input: outputGradient!,
                weights,
                offsets: savedOffsets.tensor,
                accumulate: true,
              }),
            );
          }
          let ofFactors: Tensor | undefined;
          if (parts.input && isProbabilityTrained) {
            ofFactors = Tensor.empty(probabilities.tensor);
            withRows(ofFactors, (rows) =>
              groupedBiasBackward({ probabilitiesGradient: rows!, bias: bias.data, ...operands }),
            );
          }
          const inputGradient =
            parts.input && input.requiresGradient ? outputGradient!.view({ shape }) : undefined;
          return [inputGradient, ofFactors];
        },
      };
    });
    return result;
  },
);
