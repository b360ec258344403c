import {
  attentionBackward,
  attentionForward,
  attentionRowSums,
  checkedOperation,
  type PackedSamples,
  splitProjection,
  Tensor,
  tidy,
} from '@mtl/kernels';
import type { Tape } from '../tape.js';
import { type SavedTensor, Variable } from '../variable.js';
import type { Dropout } from './bias-dropout-residual.js';

/** Samples one after the other, without padding: `starts` is int32 [N + 1]. */
export type PackedRows = Omit<PackedSamples, 'starts'> & { readonly starts: Variable };

export interface AttentionOptions {
  /**
   * `[S, B, (A + 2 G) * D]`: for each group its A / G queries, then its key and its value; if every head is a
   * group, the query, key and value of each head. With `packed` [T, ..., (A + 2 G) * D].
   */
  readonly qkv: Variable;
  /** A: query heads of this process. */
  readonly numHeads: number;
  /** G: groups of heads that share a key and a value. Default: `numHeads`. */
  readonly numGroups?: number | undefined;
  /** A query sees keys up to its own position only. Default: false. */
  readonly causal?: boolean | undefined;
  /** The number of positions before its own that a query also sees; causal only. Default: all. */
  readonly windowSize?: number | undefined;
  /** int32 [B, S]: the first key that a query may see (document boundaries). */
  readonly keyStart?: Variable | undefined;
  /** uint8 [B, S]: 1 for real keys, 0 for padding. */
  readonly keyMask?: Variable | undefined;
  /** A query sees keys of its own sample only. Not with `keyStart` and `keyMask`. */
  readonly packed?: PackedRows | undefined;
  /** `samples` is int64 [B], packed [N]. */
  readonly dropout?: Omit<Dropout, 'positions'> | undefined;
  /** Global number of the first head of this process. */
  readonly headOffset?: number;
}

/** The tensors that a call reads in addition to qkv; some may be absent. */
type Masks<Held> = Readonly<Record<'keyStart' | 'keyMask' | 'starts' | 'samples', Held | undefined>>;

const masksOf = ({ keyStart, keyMask, packed, dropout }: AttentionOptions): Masks<Variable> => ({
  keyStart,
  keyMask,
  starts: packed?.starts,
  samples: dropout?.samples,
});

/** Returns the options of both directions in addition to their operands. */
function callOf(options: AttentionOptions, masks: Masks<Variable | SavedTensor>) {
  const { keyStart, keyMask, starts, samples } = masks;
  const { causal = false, windowSize, packed, dropout, headOffset = 0 } = options;
  return {
    causal,
    windowSize,
    keyStart: keyStart?.tensor,
    keyMask: keyMask?.tensor,
    packed: packed && { ...packed, starts: starts!.tensor },
    dropout: dropout && {
      probability: dropout.probability,
      keyLow: dropout.key[0],
      keyHigh: dropout.key[1],
      samples: samples!.tensor,
      headOffset,
    },
  };
}

/** Returns the shapes of a call, derived from the shape of its projection. */
function shapesOf({ qkv, numHeads, numGroups = numHeads, packed }: AttentionOptions) {
  const { shape, size } = qkv.tensor;
  const width = shape.at(-1)!;
  const headSize = width / (numHeads + 2 * numGroups);
  const rows = packed === undefined ? shape.slice(0, -1) : [size / width];
  return {
    qkv: [...rows, numGroups, numHeads / numGroups + 2, headSize],
    output: [...rows, numHeads, headSize],
    flatOutput: [...shape.slice(0, -1), numHeads * headSize],
    logSumExp: packed === undefined ? [shape[1]!, numHeads, shape[0]!] : [numHeads, rows[0]!],
  };
}

/**
 * Computes softmax(q k^T / sqrt(D)) v for every head: [S, B, A * D], packed [T, ..., A * D]. Probabilities
 * are never stored: backward computes them again from the log-sum-exp of each row (FlashAttention), which
 * is the purpose of selective recomputation.
 */
export const attention = checkedOperation('attention', (tape: Tape, options: AttentionOptions): Variable => {
  const { qkv } = options;
  const { dtype, device, shape } = qkv.tensor;
  const shapes = shapesOf(options);
  const output = tape.result(Tensor.empty({ shape: shapes.flatOutput, dtype, device }), {
    requiresGradient: qkv.requiresGradient,
  });
  const statistics = dtype === 'float64' ? 'float64' : 'float32';
  const logSumExp = new Variable(Tensor.empty({ shape: shapes.logSumExp, dtype: statistics, device }), {
    requiresGradient: false,
  });
  tidy(() =>
    attentionForward({
      output: output.tensor.reshape(shapes.output),
      logSumExp: logSumExp.tensor,
      ...splitProjection(qkv.tensor.reshape(shapes.qkv)),
      ...callOf(options, masksOf(options)),
    }),
  );

  tape.record(output, () => {
    const saved = { qkv: tape.save(qkv), output: tape.save(output), logSumExp: tape.save(logSumExp) };
    const { keyStart, keyMask, starts, samples } = masksOf(options);
    const save = (mask: Variable | undefined): SavedTensor | undefined => mask && tape.save(mask);
    const masks = {
      keyStart: save(keyStart),
      keyMask: save(keyMask),
      starts: save(starts),
      samples: save(samples),
    };
    return {
      name: 'attention',
      inputs: [qkv],
      parameters: [],
      saved: [...Object.values(saved), ...Object.values(masks).filter((one) => one !== undefined)],
      backward: ({ outputGradient }) => {
        const qkvGradient = Tensor.empty({ shape, dtype, device });
        // outside of tidy: recomputed tensors belong to their variables
        const [result, lse, projection] = [saved.output.tensor, saved.logSumExp.tensor, saved.qkv.tensor];
        const call = callOf(options, masks);
        tidy(() => {
          const gradients = splitProjection(qkvGradient.reshape(shapes.qkv));
          const ofOutput = outputGradient!.reshape(shapes.output);
          attentionBackward({
            queryGradient: gradients.query,
            keyGradient: gradients.key,
            valueGradient: gradients.value,
            outputGradient: ofOutput,
            rowSums: attentionRowSums({
              output: result.reshape(shapes.output),
              outputGradient: ofOutput,
            }),
            logSumExp: lse,
            ...splitProjection(projection.reshape(shapes.qkv)),
            ...call,
          });
        });
        return [qkvGradient];
      },
    };
  });
  logSumExp.release();
  return output;
});
