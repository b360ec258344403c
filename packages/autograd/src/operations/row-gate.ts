import { checkedOperation, rowGateBackward, rowGateForward } from '@mtl/kernels';
import type { Tape } from '../tape.js';
import type { Variable } from '../variable.js';

export interface RowGateOptions {
  /** [..., H] */
  readonly input: Variable;
  /** float32 [rows], or float64 for a float64 input */
  readonly logits: Variable;
}

/**
 * Multiplies each row by the sigmoid of its logit, [..., H]. This is the gate of the shared experts in
 * Qwen2-MoE.
 */
export const rowGate = checkedOperation(
  'rowGate',
  (tape: Tape, { input, logits }: RowGateOptions): Variable => {
    const result = tape.result(rowGateForward({ input: input.tensor, logits: logits.tensor }), {
      requiresGradient: input.requiresGradient || logits.requiresGradient,
    });
    tape.record(result, () => {
      const [savedInput, savedLogits] = [tape.save(input), tape.save(logits)];
      return {
        name: 'rowGate',
        inputs: [input, logits],
        parameters: [],
        saved: [savedInput, savedLogits],
        backward: ({ outputGradient }) => {
          const { inputGradient, logitsGradient } = rowGateBackward({
            outputGradient: outputGradient!,
            input: savedInput.tensor,
            logits: savedLogits.tensor,
          });
          return [inputGradient, logitsGradient];
        },
      };
    });
    return result;
  },
);
