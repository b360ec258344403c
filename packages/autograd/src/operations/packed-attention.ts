import {
  attentionBackward,
  attentionForward,
  checkedOperation,
  type PackedSamples,
  splitProjection,
  Tensor,
  tidy,
} from '@mtl/kernels';
import type { Tape } from '../tape.js';
import { Variable } from '../variable.js';
import type { Dropout } from './bias-dropout-residual.js';

export interface PackedAttentionOptions {
  /** [T, ..., (A + 2 G) * D], T rows of samples one after the other, features as those of `attention`. */
  readonly qkv: Variable;
  /** A: query heads of this process. */
  readonly numHeads: number;
  /** G: groups of heads that share a key and a value. Default: as many as heads. */
  readonly numGroups?: number | undefined;
  /** `starts` is int32 [N + 1]. */
  readonly packed: Omit<PackedSamples, 'starts'> & { readonly starts: Variable };
  /** `samples` is int64 [N]. */
  readonly dropout?: Omit<Dropout, 'positions'> | undefined;
  /** Global number of the first head of this process. */
  readonly headOffset?: number;
}

/**
 * Attention of samples without padding: [T, ..., A * D], every position over all positions of its sample.
 * Keeps what `attention` keeps: no probabilities.
 */
export const packedAttention = checkedOperation(
  'packedAttention',
  (tape: Tape, options: PackedAttentionOptions): Variable => {
    const { qkv, numHeads, numGroups = numHeads, packed, dropout, headOffset = 0 } = options;
    const { dtype, device, shape } = qkv.tensor;
    const headSize = shape.at(-1)! / (numHeads + 2 * numGroups);
    const rows = qkv.tensor.size / shape.at(-1)!;
    const qkvShape = [rows, numGroups, numHeads / numGroups + 2, headSize];
    const outputShape = [rows, numHeads, headSize];
    const call = (starts: Tensor, samples: Tensor | undefined) => ({
      packed: { ...packed, starts },
      dropout: dropout && {
        probability: dropout.probability,
        keyLow: dropout.key[0],
        keyHigh: dropout.key[1],
        samples: samples!,
        headOffset,
      },
    });

    const flatShape = [...shape.slice(0, -1), numHeads * headSize];
    const output = tape.result(Tensor.empty({ shape: flatShape, dtype, device }), {
      requiresGradient: qkv.requiresGradient,
    });
    const statistics = dtype === 'float64' ? 'float64' : 'float32';
    const logSumExp = new Variable(Tensor.empty({ shape: [numHeads, rows], dtype: statistics, device }), {
      requiresGradient: false,
    });
    tidy(() =>
      attentionForward({
        output: output.tensor.reshape(outputShape),
        logSumExp: logSumExp.tensor,
        ...splitProjection(qkv.tensor.reshape(qkvShape)),
        ...call(packed.starts.tensor, dropout?.samples.tensor),
      }),
    );

    tape.record(output, () => {
      const saved = { qkv: tape.save(qkv), output: tape.save(output), logSumExp: tape.save(logSumExp) };
      const starts = tape.save(packed.starts);
      const samples = dropout && tape.save(dropout.samples);
      return {
        name: 'packedAttention',
        inputs: [qkv],
        parameters: [],
        saved: [...Object.values(saved), starts, ...(samples === undefined ? [] : [samples])],
        backward: ({ outputGradient }) => {
          const qkvGradient = Tensor.empty({ shape, dtype, device });
          // outside of tidy: what is recomputed here belongs to its variable
          const [result, statistics, projection] = [
            saved.output.tensor,
            saved.logSumExp.tensor,
            saved.qkv.tensor,
          ];
          const options = call(starts.tensor, samples?.tensor);
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
              ...options,
            });
          });
          return [qkvGradient];
        },
      };
    });
    logSumExp.release();
    return output;
  },
);
