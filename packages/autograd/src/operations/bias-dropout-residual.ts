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
 * The dropout of one random site (see `siteKey`). The mask depends only on the key and on global coordinates.
 * Calls without dropout omit this object.
 */
export interface Dropout {
  /** The probability with which a value is dropped, in (0, 1). */
  readonly probability: number;
  readonly key: readonly [low: number, high: number];
  /** int64: the global sample index of each column, [B]; if `positions` is given, of every row, [S, B]. */
  readonly samples: Variable;
  /**
   * int32 [S, B]: the position of every row in its sample. Required if samples are packed or the sequence is
   * sharded. Default: the index in S.
   */
  readonly positions?: Variable | undefined;
  /** The global index of the first column, if the features are sharded. Default: 0. */
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

/** Returns the dropout mask of a random site. The coordinates may be tensors that were saved for backward. */
export function makeMask(
  { probability, key, firstColumn }: Dropout,
  { samples, positions }: MaskCoordinates,
): DropoutMask {
  return { probability, key, firstColumn, samples: samples.tensor, positions: positions?.tensor };
}

/**
 * Computes residual + dropout(input + bias). Only the coordinates of the mask are kept; backward computes the
 * mask again.
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
      // without dropout, the gradient is passed on as a view, without a copy
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
