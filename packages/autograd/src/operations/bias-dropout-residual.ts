import {
  biasDropoutResidualBackward,
  biasDropoutResidualForward,
  checkedOperation,
  type DropoutMask,
  Tensor,
} from '@mtl/kernels';
import { type Parameter, trainedParameters } from '../parameter.js';
import type { Tape } from '../tape.js';
import type { Variable } from '../variable.js';
import { addBiasGradient } from './linear.js';

/**
 * Dropout at one site: the mask depends on key and global coordinates only. Absent where nothing is dropped.
 */
export interface Dropout {
  /** The probability to drop a value, in (0, 1). */
  readonly probability: number;
  readonly key: readonly [low: number, high: number];
  /** int64 [B]: global sample numbers; with `positions` [S, B], of every row. */
  readonly samples: Variable;
  /**
   * int32 [S, B]: the position of every row in its sample; default: its index in S. Needed where samples are
   * packed or the sequence is sharded.
   */
  readonly positions?: Variable | undefined;
  /** The first column of a slice of the features. Default: 0. */
  readonly firstColumn?: number | undefined;
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

export interface MaskCoordinates {
  readonly samples: { readonly tensor: Tensor };
  readonly positions?: { readonly tensor: Tensor } | undefined;
}

/** Returns the mask of a site, whose coordinates may be saved ones. */
export function makeMask(
  { probability, key, firstColumn }: Dropout,
  { samples, positions }: MaskCoordinates,
): DropoutMask {
  return { probability, key, firstColumn, samples: samples.tensor, positions: positions?.tensor };
}

/**
 * Computes residual + dropout(input + bias). The mask is made again in backward; only its coordinates are
 * kept.
 */
export const biasDropoutResidual = checkedOperation(
  'biasDropoutResidual',
  (tape: Tape, options: BiasDropoutResidualOptions): Variable => {
    const { input, bias, residual, dropout } = options;
    const { dtype, device, shape } = input.tensor;
    const output = Tensor.empty({ shape, dtype, device });
    biasDropoutResidualForward({
      output,
      input: input.tensor,
      bias: bias?.data,
      residual: residual?.tensor,
      dropout: dropout === undefined ? undefined : makeMask(dropout, dropout),
    });
    const trained = trainedParameters(bias);
    const requiresGradient =
      input.requiresGradient || trained.length > 0 || residual?.requiresGradient === true;
    const result = tape.result(output, { requiresGradient });
    tape.record(result, () => {
      const coordinates = dropout && {
        samples: tape.save(dropout.samples),
        positions: dropout.positions && tape.save(dropout.positions),
      };
      // without dropout the gradient passes through: a view, no copy
      const computeInputGradient = (outputGradient: Tensor): Tensor => {
        if (dropout === undefined) return outputGradient.view({ shape });
        const inputGradient = Tensor.empty({ shape, dtype, device });
        biasDropoutResidualBackward({
          inputGradient,
          outputGradient,
          dropout: makeMask(dropout, coordinates!),
        });
        return inputGradient;
      };
      return {
        name: 'biasDropoutResidual',
        inputs: residual === undefined ? [input] : [input, residual],
        parameters: trained,
        saved: Object.values(coordinates ?? {}).filter((saved) => saved !== undefined),
        backward: ({ parts, outputGradient }) => {
          const inputGradient = computeInputGradient(outputGradient!);
          if (parts.weight) for (const one of trained) addBiasGradient(one, inputGradient);
          if (!parts.input || !input.requiresGradient) inputGradient.dispose();
          return [
            parts.input && input.requiresGradient ? inputGradient : undefined,
            parts.input && residual?.requiresGradient ? outputGradient!.view({ shape }) : undefined,
          ];
        },
      };
    });
    return result;
  },
);
