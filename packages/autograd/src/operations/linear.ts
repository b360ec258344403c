import {
  add,
  biasGeluBackward,
  biasGeluForward,
  biasSquaredReluBackward,
  checkedOperation,
  type GeluKind,
  sumRows,
  Tensor,
} from '@mtl/kernels';
import type { Collective, MatmulCollectives, PendingTensor } from '../collective.js';
import { type Parameter, trainedParameters } from '../parameter.js';
import type { Tape } from '../tape.js';
import type { Activation, Variable } from '../variable.js';
import { recordGelu } from './activations.js';

export interface LinearOptions {
  /** [..., I] */
  readonly input: Variable;
  /** [O, I], or more dimensions that can be flattened to it */
  readonly weight: Parameter;
  /** [O], or more dimensions that can be flattened to it */
  readonly bias?: Parameter | undefined;
  /** The collectives of layers that are sharded over processes (see @mtl/tensor-parallel). */
  readonly collectives?: MatmulCollectives | undefined;
}

export interface LinearGeluOptions extends LinearOptions {
  readonly bias: Parameter;
  readonly kind: GeluKind;
  readonly collectives?: Omit<MatmulCollectives, 'reduceOutput' | 'gatherOutputGradient'> | undefined;
}

export interface LinearResidualOptions extends LinearOptions {
  /** [S, B, O] */
  readonly residual: Variable;
  /** Not supported: a sum over processes would add the residual once per process. */
  readonly collectives?: undefined;
}

/**
 * Runs `body` with the tensor in the given shape: the tensor itself if it already has the right number of
 * dimensions, otherwise a temporary view.
 */
function withShape(tensor: Tensor, shape: readonly number[], body: (shaped: Tensor) => void): void {
  if (tensor.shape.length === shape.length) {
    body(tensor);
    return;
  }
  const view = tensor.reshape(shape);
  try {
    body(view);
  } finally {
    view.dispose();
  }
}

/** Runs `body` with the bias viewed as [O], or with undefined if there is no bias. */
function withRow(bias: Parameter | undefined, body: (row: Tensor | undefined) => void): void {
  if (bias === undefined) body(undefined);
  else withShape(bias.data, [bias.size], body);
}

/** Runs `body` with the tensor viewed as [O, I]: all dimensions except the last are output features. */
function withMatrix(tensor: Tensor, body: (matrix: Tensor) => void): void {
  const inputs = tensor.dim(-1);
  withShape(tensor, [tensor.size / inputs, inputs], body);
}

/**
 * Computes `input * weight^T + bias`, [..., O]. The matmul adds the weight gradient directly to the main
 * gradient, always in float32. In backward, the collective of one matmul overlaps with the other matmul.
 */
export const linear = checkedOperation('linear', (tape: Tape, options: LinearOptions): Variable => {
  return record(tape, options, forward(options));
});

/**
 * Computes `gelu(input * weight^T + bias)`, [..., O]. If the device supports it, the matmul of this layer
 * also computes the GELU in the same pass over memory, and the backward matmul of the next layer computes
 * GELU's derivative.
 */
export const linearGelu = checkedOperation(
  'linearGelu',
  (tape: Tape, options: LinearGeluOptions): Variable => {
    return tape.scope(() => {
      const { output, preactivation } = forwardGelu(options);
      const input = record(tape, options, preactivation);
      return recordGelu(tape, { input, output, kind: options.kind });
    });
  },
);

/**
 * Computes `residual + input * weight^T + bias`, [S, B, O], in one pass if the device's matmuls support it.
 * Backward is the same as in `linear`. The residual's gradient is the output's gradient.
 */
export const linearResidual = checkedOperation(
  'linearResidual',
  (tape: Tape, options: LinearResidualOptions): Variable => {
    const { input, weight, bias, residual } = options;
    const { dtype, device, shape } = residual.tensor;
    const output = Tensor.empty({ shape, dtype, device });
    const operands = { output, input: input.tensor };
    const { fused } = weight.precision;
    withMatrix(weight.data, (matrix) =>
      withRow(bias, (row) => {
        const call = { ...operands, weight: matrix, bias: row };
        if (fused !== undefined) {
          fused.residual({ ...call, residual: residual.tensor });
          return;
        }
        weight.precision.forward(call);
        add({ output, left: residual.tensor, right: output });
      }),
    );
    return record(tape, { input, weight, bias, residual }, output);
  },
);

function record(
  tape: Tape,
  options: LinearOptions & { readonly residual?: Variable | undefined },
  output: Tensor,
): Variable {
  const { input, weight, bias, residual, collectives = {} } = options;
  const trained = trainedParameters(weight, bias);
  const requiresGradient =
    input.requiresGradient || trained.length > 0 || residual?.requiresGradient === true;
  const result = tape.result(output, { requiresGradient });
  const { shape } = output;
  // a gradient that is summed over processes must be the gradient of the input itself, not of the input's
  // activation
  const activation = collectives.reduceInputGradient === undefined ? input.activation : undefined;
  tape.record(result, () => {
    const savedInput = weight.isFrozen ? undefined : tape.save(input);
    const preactivation = activation && tape.save(activation.input);
    return {
      name: `linear ${weight.name}`,
      inputs: [activation?.input ?? input, ...(residual === undefined ? [] : [residual])],
      parameters: trained,
      saved: [savedInput, preactivation].filter((saved) => saved !== undefined),
      backward: ({ parts, outputGradient }) => {
        const gathered = collectives.gatherOutputGradient?.(outputGradient!).wait();
        const gradient = gathered ?? outputGradient!;
        const wholeInput = parts.weight && savedInput && collectives.gatherInput?.(savedInput.tensor);
        let inputGradient: PendingTensor | undefined;
        if (parts.input && input.requiresGradient) {
          const own = computeInputGradient(
            weight,
            gradient,
            activation && { ...activation, preactivation: preactivation!.tensor },
          );
          inputGradient = communicated(collectives.reduceInputGradient, own);
        }
        if (parts.weight) {
          const whole = wholeInput ? wholeInput.wait() : undefined;
          addGradients({ weight, bias }, gradient, whole ?? savedInput?.tensor);
          whole?.dispose();
        }
        gathered?.dispose();
        return [
          inputGradient?.wait(),
          parts.input && residual?.requiresGradient ? outputGradient!.view({ shape }) : undefined,
        ];
      },
    };
  });
  return result;
}

function forward({ input, weight, bias, collectives = {} }: LinearOptions): Tensor {
  const numOutputs = weight.size / weight.shape.at(-1)!;
  const { dtype, device } = input.tensor;
  const whole = collectives.gatherInput?.(input.tensor).wait();
  const left = whole ?? input.tensor;
  const output = Tensor.empty({ shape: [...left.shape.slice(0, -1), numOutputs], dtype, device });
  multiplyByWeight({ output, left, weight, bias });
  whole?.dispose();
  return communicated(collectives.reduceOutput, output).wait();
}

/** Computes output [..., O] = left weight^T + bias. */
export function multiplyByWeight(
  options: Pick<LinearOptions, 'weight' | 'bias'> & { readonly output: Tensor; readonly left: Tensor },
): void {
  const { output, left, weight, bias } = options;
  withMatrix(weight.data, (matrix) =>
    withRow(bias, (row) => weight.precision.forward({ output, input: left, weight: matrix, bias: row })),
  );
}

function forwardGelu(options: LinearGeluOptions): { output: Tensor; preactivation: Tensor } {
  const { input, weight, bias, kind, collectives = {} } = options;
  const numOutputs = weight.size / weight.shape.at(-1)!;
  const { dtype, device } = input.tensor;
  const whole = collectives.gatherInput?.(input.tensor).wait();
  const left = whole ?? input.tensor;
  const shape = [...left.shape.slice(0, -1), numOutputs];
  const preactivation = Tensor.empty({ shape, dtype, device });
  const output = Tensor.empty({ shape, dtype, device });
  const { fused } = weight.precision;
  withMatrix(weight.data, (matrix) =>
    withShape(bias.data, [numOutputs], (row) => {
      const call = { input: left, weight: matrix, bias: row };
      if (fused !== undefined) {
        fused.gelu({ ...call, output, preactivation, kind });
        return;
      }
      weight.precision.forward({ ...call, output: preactivation });
      biasGeluForward({ output, input: preactivation, kind });
    }),
  );
  whole?.dispose();
  return { output, preactivation };
}

/**
 * Computes `outputGradient * weight`: [..., I] from [..., O]. If the input is the output of an activation,
 * the result is the gradient of the activation's input.
 */
export function computeInputGradient(
  weight: Parameter,
  outputGradient: Tensor,
  activation?: { readonly preactivation: Tensor; readonly kind: Activation['kind'] } | undefined,
): Tensor {
  const { dtype, device, shape } = outputGradient;
  const output = Tensor.empty({ shape: [...shape.slice(0, -1), weight.shape.at(-1)!], dtype, device });
  const { precision } = weight;
  withMatrix(weight.data, (matrix) => {
    const call = { inputGradient: output, outputGradient, weight: matrix };
    if (activation === undefined) {
      precision.inputGradient(call);
      return;
    }
    const { preactivation, kind } = activation;
    if (kind !== 'squaredRelu' && precision.fused !== undefined) {
      precision.fused.geluGradient({ ...call, preactivation, kind });
      return;
    }
    precision.inputGradient(call);
    const inPlace = { inputGradient: output, outputGradient: output, input: preactivation };
    if (kind === 'squaredRelu') biasSquaredReluBackward(inPlace);
    else biasGeluBackward({ ...inPlace, kind });
  });
  return output;
}

interface WeightGradientOptions {
  readonly gradient: Tensor;
  readonly accumulate: boolean;
  readonly outputGradient: Tensor;
  readonly input: Tensor;
}

/**
 * Adds the gradients of a trained weight and bias, in one pass if the device supports it.
 *
 * @param input the input of a weight that is trained; undefined for a frozen weight
 */
function addGradients(
  { weight, bias }: Pick<LinearOptions, 'weight' | 'bias'>,
  outputGradient: Tensor,
  input: Tensor | undefined,
): void {
  const isBiasTrained = bias !== undefined && !bias.isFrozen;
  if (input === undefined) {
    if (isBiasTrained) addBiasGradient(bias, outputGradient);
    return;
  }
  if (!isBiasTrained) {
    addWeightGradient(weight, outputGradient, input);
    return;
  }
  const { gradient, accumulate } = weight.takeMainGradient();
  const { fused } = weight.precision;
  if (!accumulate || fused === undefined) {
    multiplyForWeight(weight, { gradient, accumulate, outputGradient, input });
    addBiasGradient(bias, outputGradient);
    return;
  }
  withMatrix(gradient, (weightGradient) =>
    withShape(bias.mainGradient, [bias.size], (biasGradient) =>
      fused.weightAndBiasGradient({ weightGradient, biasGradient, outputGradient, input }),
    ),
  );
}

/**
 * Starts the given collective on a tensor and takes ownership of the tensor. If `collective` is undefined,
 * the result is the tensor itself.
 */
export function communicated(collective: Collective | undefined, tensor: Tensor): PendingTensor {
  if (collective === undefined) return { wait: () => tensor };
  const pending = collective(tensor);
  tensor.dispose();
  return pending;
}

/**
 * Adds `outputGradient^T * input`, summed over all leading dimensions, to the main gradient [O, I]. If the
 * main gradient is known to be zero, overwrites it instead.
 */
export function addWeightGradient(weight: Parameter, outputGradient: Tensor, input: Tensor): void {
  multiplyForWeight(weight, { ...weight.takeMainGradient(), outputGradient, input });
}

function multiplyForWeight({ precision }: Parameter, { gradient, ...operands }: WeightGradientOptions): void {
  withMatrix(gradient, (weightGradient) => precision.weightGradient({ weightGradient, ...operands }));
}

/** Adds the column sums of `outputGradient` to the main gradient [O]. */
export function addBiasGradient(bias: Parameter, outputGradient: Tensor): void {
  withShape(bias.mainGradient, [bias.size], (output) =>
    sumRows({ output, input: outputGradient, accumulate: true }),
  );
}
