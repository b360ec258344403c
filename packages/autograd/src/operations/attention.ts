import { attentionBackward, attentionForward, checkedOperation, Tensor } from '@mtl/kernels';
import type { Tape } from '../tape.js';
import { Variable } from '../variable.js';
import type { Dropout } from './bias-dropout-residual.js';

export interface AttentionOptions {
  /** `[S, B, A * 3 * D]`: for each head its query, key and value. */
  readonly qkv: Variable;
  readonly numHeads: number;
  readonly causal: boolean;
  /** int32 [B, S]: the first key that a query may see (document boundaries). */
  readonly keyStart?: Variable | undefined;
  /** uint8 [B, S]: 1 for real keys, 0 for padding. */
  readonly keyMask?: Variable | undefined;
  readonly dropout?: Dropout | undefined;
  /** Global number of the first head of this process. */
  readonly headOffset?: number;
}

/**
 * softmax(q k^T / sqrt(D)) v for every head: [S, B, A * D]. Probabilities are never stored: backward computes
 * them again from the log-sum-exp of each row (FlashAttention), which is what selective recomputation is for.
 */
export const attention = checkedOperation('attention', (tape: Tape, options: AttentionOptions): Variable => {
  const { qkv, numHeads, causal, keyStart, keyMask, dropout, headOffset = 0 } = options;
  const { dtype, device, shape } = qkv.tensor;
  const [sequence, batch, width] = shape as [number, number, number];
  const headSize = width / (3 * numHeads);
  const qkvShape = [sequence, batch, numHeads, 3, headSize];
  const outputShape = [sequence, batch, numHeads, headSize];
  const flatShape = [sequence, batch, numHeads * headSize];
  const call = (samples: Tensor | undefined, start: Tensor | undefined, mask: Tensor | undefined) => ({
    causal,
    keyStart: start,
    keyMask: mask,
    dropout:
      dropout === undefined
        ? undefined
        : {
            probability: dropout.probability,
            keyLow: dropout.key[0],
            keyHigh: dropout.key[1],
            samples: samples!,
            headOffset,
          },
  });

  const output = tape.result(Tensor.empty({ shape: flatShape, dtype, device }), {
    requiresGradient: qkv.requiresGradient,
  });
  const logSumExp = new Variable(
    Tensor.empty({
      shape: [batch, numHeads, sequence],
      dtype: dtype === 'float64' ? 'float64' : 'float32',
      device,
    }),
    { requiresGradient: false },
  );
  const views = [output.tensor.reshape(outputShape), qkv.tensor.reshape(qkvShape)] as const;
  attentionForward({
    output: views[0],
    logSumExp: logSumExp.tensor,
    qkv: views[1],
    ...call(dropout?.samples.tensor, keyStart?.tensor, keyMask?.tensor),
  });
  for (const view of views) view.dispose();

  tape.record(output, () => {
    const saved = { qkv: tape.save(qkv), output: tape.save(output), logSumExp: tape.save(logSumExp) };
    const [samples, start, mask] = [dropout?.samples, keyStart, keyMask].map((variable) =>
      variable === undefined ? undefined : tape.save(variable),
    );
    return {
      name: 'attention',
      inputs: [qkv],
      parameters: [],
      saved: [...Object.values(saved), ...[samples, start, mask].filter((one) => one !== undefined)],
      backward: ({ outputGradient }) => {
        const qkvGradient = Tensor.empty({ shape: qkvShape, dtype, device });
        const gradient = outputGradient!.reshape(outputShape);
        const result = saved.output.tensor.reshape(outputShape);
        const qkvView = saved.qkv.tensor.reshape(qkvShape);
        attentionBackward({
          qkvGradient,
          outputGradient: gradient,
          output: result,
          logSumExp: saved.logSumExp.tensor,
          qkv: qkvView,
          ...call(samples?.tensor, start?.tensor, mask?.tensor),
        });
        const flat = qkvGradient.reshape(shape);
        for (const view of [gradient, result, qkvView, qkvGradient]) view.dispose();
        return [flat];
      },
    };
  });
  logSumExp.release();
  return output;
});
