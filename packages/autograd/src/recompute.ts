import { Tape } from './tape.js';
import type { Variable } from './variable.js';

/**
 * Runs `body` and keeps only its input. Backward runs `body` again (full activation recomputation, Chen et
 * al. 2016). Random numbers are counter-based, so the second run gives the same bits.
 */
export function recompute(
  tape: Tape,
  input: Variable,
  body: (tape: Tape, input: Variable) => Variable,
): Variable {
  if (!tape.recording) return body(tape, input);
  const silent = new Tape({ recording: false });
  const silentInput = silent.input(input.tensor.view({ shape: input.tensor.shape }));
  const output = silent.scope(() => body(silent, silentInput));
  silentInput.release();
  const result = tape.result(output.tensor, { requiresGradient: true });
  tape.record(result, () => {
    const savedInput = tape.save(input);
    let inner: Tape | undefined;
    return {
      name: 'recompute',
      inputs: [input],
      // the list is empty, because the inner tape itself adds the gradients of the parameters in `body`, and
      // reports when they are ready
      parameters: [],
      saved: [savedInput, { release: () => inner?.dispose() }],
      hasWeightPart: true,
      backward: ({ parts, outputGradient }) => {
        if (!parts.input) {
          inner!.backwardWeight();
          return [];
        }
        inner = new Tape({ rematerialize: tape.rematerialize });
        const again = inner.input(savedInput.tensor.view({ shape: savedInput.tensor.shape }), {
          requiresGradient: input.requiresGradient,
        });
        const root = inner.scope(() => body(inner!, again));
        again.release();
        root.release();
        if (parts.weight) inner.backward(root, outputGradient);
        else inner.backwardInput(root, outputGradient);
        return [inner.takeGradient(again)];
      },
    };
  });
  return result;
}
