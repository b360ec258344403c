import {
  attentionBackward,
  attentionForward,
  checkedOperation,
  splitProjection,
  Tensor,
  tidy,
} from '@mtl/kernels';
import type { Tape } from '../tape.js';
import { Variable } from '../variable.js';
import type { Dropout } from './bias-dropout-residual.js';

export interface AttentionOptions {
  /**
   * `[S, B, (A + 2 G) * D]`: for each group its A / G queries, then its key and its value; where every head
   * is a group, for each head its query, key and value.
   */
  readonly qkv: Variable;
  /** A: query heads of this process. */
  readonly numHeads: number;
  /** G: groups of heads that share a key and a value. Default: as many as heads. */
  readonly numGroups?: number | undefined;
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
  const { qkv, numHeads, numGroups = numHeads, causal, keyStart, keyMask, dropout, headOffset = 0 } = options;
  const { dtype, device, shape } = qkv.tensor;
  const [sequence, batch, width] = shape as [number, number, number];
  const headSize = width / (numHeads + 2 * numGroups);
  const qkvShape = [sequence, batch, numGroups, numHeads / numGroups + 2, headSize];
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
  tidy(() =>
    attentionForward({
      output: output.tensor.reshape(outputShape),
      logSumExp: logSumExp.tensor,
      ...splitProjection(qkv.tensor.reshape(qkvShape)),
      ...call(dropout?.samples.tensor, keyStart?.tensor, keyMask?.tensor),
    }),
  );

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
        const qkvGradient = Tensor.empty({ shape, dtype, device });
        // outside of tidy: what is recomputed here belongs to its variable
        const [result, statistics, projection] = [
          saved.output.tensor,
          saved.logSumExp.tensor,
          saved.qkv.tensor,
        ];
        const masks = call(samples?.tensor, start?.tensor, mask?.tensor);
        tidy(() => {
          const gradients = splitProjection(qkvGradient.reshape(qkvShape));
          attentionBackward({
            queryGradient: gradients.query,
            keyGradient: gradients.key,
            valueGradient: gradients.value,
            outputGradient: outputGradient!.reshape(outputShape),
            output: result.reshape(outputShape),
            logSumExp: statistics,
            ...splitProjection(projection.reshape(qkvShape)),
            ...masks,
          });
        });
        return [qkvGradient];
      },
    };
  });
  logSumExp.release();
  return output;
});
