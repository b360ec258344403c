import {
  attentionBackward,
  attentionForward,
  attentionRowSums,
  checkedOperation,
  type AttentionOptions as KernelOptions,
  type PackedSamples,
  Tensor,
  tidy,
  type Visibility,
} from '@mtl/kernels';
import type { Tape } from '../tape.js';
import { type SavedTensor, Variable } from '../variable.js';
import { type AttentionSinks, SinksOfCall } from './attention-sinks.js';
import type { Dropout } from './bias-dropout-residual.js';
import type { Heads } from './split-projection.js';

/** Samples that are stored one after the other, without padding. `starts` is int32 [N + 1]. */
export type PackedRows = Omit<PackedSamples, 'starts' | 'queries' | 'first'> & { readonly starts: Variable };

/**
 * The keys that each query can attend to (see `Visibility` of @mtl/kernels). Here, the masks are variables
 * instead of tensors.
 */
export interface VisibilityOptions extends Pick<Visibility, 'causal' | 'windowSize'> {
  /** int32 [B, S]: the first key that each query may see (document boundaries). */
  readonly keyStart?: Variable | undefined;
  /** uint8 [B, S]: 1 for real keys, 0 for padding. */
  readonly keyMask?: Variable | undefined;
  /**
   * Packed samples. A query attends only to keys of its own sample. Must not be combined with `keyStart` or
   * `keyMask`.
   */
  readonly packed?: PackedRows | undefined;
}

/**
 * S: sequence length. B: micro-batch size. T: rows of packed samples. `Heads` describes the shapes of the
 * heads. A = G * R is the number of this process's query heads.
 */
export interface AttentionOptions extends Heads<Variable> {
  /** Default: every query sees all keys. */
  readonly visibility?: VisibilityOptions | undefined;
  /** The factor by which scores are multiplied. Default: 1 / sqrt(D). */
  readonly scale?: number | undefined;
  /** The cap `c`: each score `s` becomes `c * tanh(s / c)`. Default: no cap. */
  readonly softCap?: number | undefined;
  /** float32 [A]: a running maximum of each head's highest score. It is not differentiated. */
  readonly highestScores?: Tensor | undefined;
  /**
   * The dropout of the attention probabilities. `samples` is int64 [B]; for packed samples, [N]. Default:
   * none.
   */
  readonly dropout?: Omit<Dropout, 'positions'> | undefined;
  /** The global index of this process's first head. Default: 0. */
  readonly headOffset?: number | undefined;
  /** The attention sinks. Default: none. */
  readonly sinks?: AttentionSinks | undefined;
}

/** The tensors that a call reads in addition to the heads. Each may be absent. */
type Masks<Held> = Readonly<Record<'keyStart' | 'keyMask' | 'starts' | 'samples', Held | undefined>>;

const collectMasks = ({ visibility, dropout }: AttentionOptions): Masks<Variable> => ({
  keyStart: visibility?.keyStart,
  keyMask: visibility?.keyMask,
  starts: visibility?.packed?.starts,
  samples: dropout?.samples,
});

/** Returns the kernel options that forward and backward have in common. */
function describeCall(options: AttentionOptions, masks: Masks<Variable | SavedTensor>): KernelOptions {
  const { keyStart, keyMask, starts, samples } = masks;
  const { visibility = {}, scale, softCap, dropout, headOffset = 0 } = options;
  const { causal, windowSize, packed } = visibility;
  return {
    visibility: {
      causal,
      windowSize,
      keyStart: keyStart?.tensor,
      keyMask: keyMask?.tensor,
      packed: packed && { ...packed, starts: starts!.tensor },
    },
    ...(scale !== undefined && { scale }),
    softCap,
    dropout: dropout && {
      probability: dropout.probability,
      keyLow: dropout.key[0],
      keyHigh: dropout.key[1],
      samples: samples!.tensor,
      headOffset,
    },
  };
}

/**
 * Returns the sizes and shapes of the call's tensors. The rows of packed samples may have several dimensions,
 * such as [T, 1].
 */
function describeShapes({ query, value, visibility }: AttentionOptions) {
  const [groups, headsPerGroup, headSize] = query.tensor.shape.slice(-3) as [number, number, number];
  const outer = query.tensor.shape.slice(0, -3);
  const isPacked = visibility?.packed !== undefined;
  const rows = isPacked ? [outer.reduce((product, size) => product * size, 1)] : outer;
  const [heads, valueSize] = [groups * headsPerGroup, value.tensor.dim(-1)];
  return {
    query: [...rows, groups, headsPerGroup, headSize],
    key: [...rows, groups, headSize],
    value: [...rows, groups, valueSize],
    output: [...rows, heads, valueSize],
    flatOutput: [...outer, heads * valueSize],
    logSumExp: isPacked ? [heads, rows[0]!] : [outer[1]!, heads, outer[0]!],
  };
}

/**
 * Computes `softmax(q * k^T / sqrt(D)) * v` for every head. The result is [S, B, A * E], or [T, ..., A * E]
 * for packed samples. Probabilities are never stored: backward recomputes them from the log-sum-exp of each
 * row (FlashAttention), so selective recomputation is not needed. `splitProjection` returns the heads of a
 * packed projection.
 *
 * @throws UsageError or KernelError `MTL_SHAPE`, `MTL_DTYPE` or `MTL_ARGUMENT` for operands that do not fit
 */
export const attention = checkedOperation('attention', (tape: Tape, options: AttentionOptions): Variable => {
  const heads = [options.query, options.key, options.value] as const;
  const { dtype, device } = options.query.tensor;
  const shapes = describeShapes(options);
  const inRows = ([query, key, value]: readonly Tensor[]): Heads<Tensor> => ({
    query: query!.reshape(shapes.query),
    key: key!.reshape(shapes.key),
    value: value!.reshape(shapes.value),
  });
  const sinks = options.sinks && new SinksOfCall(options.sinks);
  const parameters = sinks?.parameters ?? [];
  const output = tape.result(Tensor.empty({ shape: shapes.flatOutput, dtype, device }), {
    requiresGradient: parameters.length > 0 || heads.some(({ requiresGradient }) => requiresGradient),
  });
  const statistics = dtype === 'float64' ? 'float64' : 'float32';
  const logSumExp = new Variable(Tensor.empty({ shape: shapes.logSumExp, dtype: statistics, device }), {
    requiresGradient: false,
  });
  tidy(() => {
    const results = { output: output.tensor.reshape(shapes.output), logSumExp: logSumExp.tensor };
    attentionForward({
      ...results,
      highestScores: options.highestScores,
      ...inRows(heads.map(({ tensor }) => tensor)),
      ...describeCall(options, collectMasks(options)),
    });
    sinks?.addTo(results);
  });

  tape.record(output, () => {
    const savedHeads = heads.map((variable) => tape.save(variable));
    const saved = { output: tape.save(output), logSumExp: tape.save(logSumExp) };
    const { keyStart, keyMask, starts, samples } = collectMasks(options);
    const save = (mask: Variable | undefined): SavedTensor | undefined => mask && tape.save(mask);
    const masks = {
      keyStart: save(keyStart),
      keyMask: save(keyMask),
      starts: save(starts),
      samples: save(samples),
    };
    const saves = Object.values(masks).filter((one) => one !== undefined);
    return {
      name: 'attention',
      inputs: heads,
      parameters,
      saved: [...savedHeads, ...Object.values(saved), ...saves, ...(sinks === undefined ? [] : [sinks])],
      backward: ({ parts, outputGradient }) => {
        if (!parts.input) {
          sinks?.addGradient();
          return [];
        }
        const gradients = heads.map((variable) => variable.newGradient());
        sinks?.startGradient();
        // these reads are outside of `tidy`, because recomputed tensors belong to their variables and must
        // not be disposed of here
        const [result, lse] = [saved.output.tensor, saved.logSumExp.tensor];
        const kept = savedHeads.map(({ tensor }) => tensor);
        const call = describeCall(options, masks);
        tidy(() => {
          const { query: queryGradient, key: keyGradient, value: valueGradient } = inRows(gradients);
          const ofOutput = outputGradient!.reshape(shapes.output);
          const rowSums = attentionRowSums({
            output: result.reshape(shapes.output),
            outputGradient: ofOutput,
          });
          attentionBackward({
            queryGradient,
            keyGradient,
            valueGradient,
            outputGradient: ofOutput,
            rowSums,
            logSumExp: lse,
            ...inRows(kept),
            ...call,
          });
          sinks?.differentiate({ rowSums, logSumExp: lse });
        });
        if (parts.weight) sinks?.addGradient();
        return gradients.map((gradient, at) => {
          if (heads[at]!.requiresGradient) return gradient;
          gradient.dispose();
          return undefined;
        });
      },
    };
  });
  logSumExp.release();
  return output;
});
