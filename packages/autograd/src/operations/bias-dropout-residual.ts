import {
  biasDropoutResidualBackward,
  biasDropoutResidualForward,
  type DropoutMask,
  Tensor,
} from '@mtl/kernels';
import type { Parameter } from '../parameter.js';
import type { Tape } from '../tape.js';
import type { Variable } from '../variable.js';
import { addBiasGradient } from './linear.js';

/** A dropout site: the mask depends on key and global coordinates only. Left out where nothing is dropped. */
export interface Dropout {
  /** In (0, 1). */
  readonly probability: number;
  readonly key: readonly [low: number, high: number];
  /** int64 [B]: global sample numbers. */
  readonly samples: Variable;
  readonly sequenceOffset?: number;
}

export interface BiasDropoutResidualOptions {
  /** [S, B, H] */
  readonly input: Variable;
  /** [H] */
  readonly bias?: Parameter | undefined;
  /** [S, B, H] */
  readonly residual?: Variable | undefined;
  readonly dropout?: Dropout | undefined;
}

function maskOf({ probability, key, sequenceOffset = 0 }: Dropout, samples: Tensor): DropoutMask {
  return { probability, key, samples, sequenceOffset };
}

/** residual + dropout(input + bias). The mask is made again in backward; nothing but the sample numbers is kept. */
export function biasDropoutResidual(tape: Tape, options: BiasDropoutResidualOptions): Variable {
  const { input, bias, residual, dropout } = options;
  const { dtype, device, shape } = input.tensor;
  const output = Tensor.empty({ shape, dtype, device });
  biasDropoutResidualForward({
    output,
    input: input.tensor,
    bias: bias?.data,
    residual: residual?.tensor,
    dropout: dropout === undefined ? undefined : maskOf(dropout, dropout.samples.tensor),
  });
  const requiresGradient =
    input.requiresGradient || bias !== undefined || residual?.requiresGradient === true;
  const result = tape.result(output, { requiresGradient });
  tape.record(result, () => {
    const samples = dropout === undefined ? undefined : tape.save(dropout.samples);
    // without dropout the gradient passes through: a view, no copy
    const inputGradientOf = (outputGradient: Tensor): Tensor => {
      if (dropout === undefined) return outputGradient.view({ shape });
      const inputGradient = Tensor.empty({ shape, dtype, device });
      biasDropoutResidualBackward({
        inputGradient,
        outputGradient,
        dropout: maskOf(dropout, samples!.tensor),
      });
      return inputGradient;
    };
    return {
      name: 'biasDropoutResidual',
      inputs: residual === undefined ? [input] : [input, residual],
      parameters: bias === undefined ? [] : [bias],
      saved: samples === undefined ? [] : [samples],
      backward: ({ parts, outputGradient }) => {
        const inputGradient = inputGradientOf(outputGradient!);
        if (parts.weight && bias !== undefined) addBiasGradient(bias, inputGradient);
        if (!parts.input || !input.requiresGradient) inputGradient.dispose();
        return [
          parts.input && input.requiresGradient ? inputGradient : undefined,
          parts.input && residual?.requiresGradient ? outputGradient!.view({ shape }) : undefined,
        ];
      },
    };
  });
  return result;
}
