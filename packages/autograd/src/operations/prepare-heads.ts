import { UsageError } from '@mtl/errors';
import {
  cast,
  checkedOperation,
  layerNormBackward,
  layerNormForward,
  queriesAndKeys,
  rmsNormBackward,
  rmsNormForward,
  rotaryEmbedding,
  splitProjection,
  Tensor,
  tidy,
} from '@mtl/kernels';
import { type Parameter, trainedParameters } from '../parameter.js';
import type { Tape } from '../tape.js';
import { type SavedTensor, Variable } from '../variable.js';

/**
 * A norm over the features of every query and every key: layer norm if biases are given, otherwise RMSNorm.
 */
export interface HeadNorm {
  /** [D] */
  readonly queryWeight: Parameter;
  /** [D]; must be given if and only if `keyBias` is given */
  readonly queryBias?: Parameter | undefined;
  /** [D] */
  readonly keyWeight: Parameter;
  /** [D] */
  readonly keyBias?: Parameter | undefined;
  readonly epsilon: number;
}

/** The operands of a norm that is applied to all queries, or to all keys. */
interface NormOperands {
  readonly weight: Parameter;
  readonly bias: Parameter | undefined;
  /** [rows] */
  readonly rstd: Tensor;
  /** [rows]; layer norm only. */
  readonly mean: Tensor | undefined;
}

/** Copies the elements of a strided view to a new tensor. */
function copied(view: Tensor): Tensor {
  const copy = emptyLike(view);
  cast({ output: copy, input: view });
  return copy;
}

const emptyLike = ({ shape, dtype, device }: Tensor): Tensor => Tensor.empty({ shape, dtype, device });

/**
 * Normalizes the queries or keys in packed projections, given as strided views. RMSNorm supports views. Layer
 * norm does not, so the views are copied before and after it.
 */
function headNormForward(
  { weight, bias, rstd, mean }: NormOperands,
  { output, input, epsilon }: { readonly output: Tensor; readonly input: Tensor; readonly epsilon: number },
): void {
  if (bias === undefined) {
    rmsNormForward({ output, rstd, input, weight: weight.data, epsilon });
    return;
  }
  tidy(() => {
    const [whole, normalized] = [copied(input), emptyLike(input)];
    layerNormForward({
      output: normalized,
      mean: mean!,
      rstd,
      input: whole,
      weight: weight.data,
      bias: bias.data,
      epsilon,
    });
    cast({ output, input: normalized });
  });
}

/** Computes the gradients of `headNormForward`. */
function headNormBackward(
  { weight, bias, rstd, mean }: NormOperands,
  views: {
    /**
     * If undefined, only the gradients of the parameters are computed. May be the same tensor as
     * `outputGradient`.
     */
    readonly inputGradient: Tensor | undefined;
    readonly outputGradient: Tensor;
    readonly input: Tensor;
    /** True to add the parameters' gradients to their main gradients, unless the parameters are frozen. */
    readonly addsToParameters: boolean;
  },
): void {
  const { inputGradient, outputGradient, input, addsToParameters } = views;
  const chooseGradient = (parameter: Parameter): Tensor | undefined =>
    addsToParameters && !parameter.isFrozen ? parameter.mainGradient : undefined;
  const weightGradient = chooseGradient(weight);
  if (bias === undefined) {
    const operands = { inputGradient, weightGradient, outputGradient, input };
    rmsNormBackward({ ...operands, rstd, weight: weight.data });
    return;
  }
  tidy(() => {
    const gradient = copied(outputGradient);
    layerNormBackward({
      inputGradient: inputGradient && gradient,
      weightGradient,
      biasGradient: chooseGradient(bias),
      outputGradient: gradient,
      input: copied(input),
      mean: mean!,
      rstd,
      weight: weight.data,
    });
    if (inputGradient !== undefined) cast({ output: inputGradient, input: gradient });
  });
}

/** Rotary position embedding (see `rotaryEmbedding` of @mtl/kernels). */
export interface HeadRotation {
  /** int32, with the shape of `qkv` without its last dimension: the position of every row. */
  readonly positions: Variable;
  /** float32 [P, R], from `rotaryTable`. The table must live as long as the tape. */
  readonly table: Tensor;
  readonly interleaved?: boolean;
}

export interface PrepareHeadsOptions {
  /** [S, B, W] or [T, W], W = G * (R + 2) * D: the R queries, the key and the value of each group. */
  readonly qkv: Variable;
  /** G */
  readonly numGroups: number;
  /** D */
  readonly headSize: number;
  readonly norm?: HeadNorm | undefined;
  readonly rotation?: HeadRotation | undefined;
}

/** The parts of a packed projection to which a norm is applied. */
const normalizedParts = ['query', 'key'] as const;
type NormalizedPart = (typeof normalizedParts)[number];

/**
 * The statistics that norms keep for backward: the reciprocal standard deviation (rstd) of every query and
 * key. Layer norm also keeps the means.
 */
interface HeadStatistics<Value> {
  readonly rstd: Readonly<Record<NormalizedPart, Value>>;
  readonly mean: Readonly<Record<NormalizedPart, Value>> | undefined;
}

function flattenStatistics<Value>(statistics: HeadStatistics<Value> | undefined): readonly Value[] {
  return statistics === undefined
    ? []
    : [statistics.rstd, statistics.mean].flatMap((of) => (of === undefined ? [] : [of.query, of.key]));
}

const collectParameters = ({ queryWeight, queryBias, keyWeight, keyBias }: HeadNorm) => ({
  query: { weight: queryWeight, bias: queryBias },
  key: { weight: keyWeight, bias: keyBias },
});

/** Views packed projections as [rows, 1, G, R + 2, D], and runs operations on these views. */
class Heads {
  readonly #options: PrepareHeadsOptions;
  readonly #shape: readonly number[];

  constructor(options: PrepareHeadsOptions) {
    const { qkv, numGroups, headSize } = options;
    const width = qkv.tensor.dim(-1);
    this.#options = options;
    this.#shape = [qkv.tensor.size / width, 1, numGroups, width / (numGroups * headSize), headSize];
  }

  packed(tensor: Tensor): Tensor {
    return tensor.reshape(this.#shape);
  }

  /** Allocates statistics for each query and each key. */
  statistics({ queryBias }: HeadNorm): HeadStatistics<Variable> {
    const { dtype, device } = this.#options.qkv.tensor;
    const [rows, , groups, parts] = this.#shape as [number, number, number, number];
    const make = (size: number): Variable =>
      new Variable(
        Tensor.empty({ shape: [size], dtype: dtype === 'float64' ? 'float64' : 'float32', device }),
        { requiresGradient: false },
      );
    const both = () => ({ query: make(rows * groups * (parts - 2)), key: make(rows * groups) });
    return { rstd: both(), mean: queryBias === undefined ? undefined : both() };
  }

  /**
   * Applies the rotation to the queries and keys of `input` and writes the result to `output`, which may be
   * `input`.
   */
  rotate(operands: { output: Tensor; input: Tensor; positions: Tensor; inverse?: boolean }): void {
    const { output, input, positions, inverse = false } = operands;
    const { table, interleaved = false } = this.#options.rotation!;
    rotaryEmbedding({
      output: queriesAndKeys(output),
      input: queriesAndKeys(input),
      positions: positions.reshape([this.#shape[0]!, 1]),
      table,
      interleaved,
      inverse,
    });
  }

  copyValues(output: Tensor, input: Tensor): void {
    cast({ output: splitProjection(output).value, input: splitProjection(input).value });
  }
}

/** Returns a new tensor with the values of `qkv`, but with normalized and then rotated queries and keys. */
function prepare(
  options: PrepareHeadsOptions,
  heads: Heads,
  statistics: HeadStatistics<Variable> | undefined,
): Tensor {
  const { qkv, norm, rotation } = options;
  const result = Tensor.empty(qkv.tensor);
  tidy(() => {
    const [output, input] = [heads.packed(result), heads.packed(qkv.tensor)];
    heads.copyValues(output, input);
    if (norm !== undefined) {
      const [to, from] = [splitProjection(output), splitProjection(input)];
      const parameters = collectParameters(norm);
      for (const part of normalizedParts) {
        const [rstd, mean] = [statistics!.rstd[part].tensor, statistics!.mean?.[part].tensor];
        headNormForward(
          { ...parameters[part], rstd, mean },
          { output: to[part], input: from[part], epsilon: norm.epsilon },
        );
      }
    }
    if (rotation !== undefined)
      heads.rotate({
        output,
        input: norm === undefined ? input : output,
        positions: rotation.positions.tensor,
      });
  });
  return result;
}

interface SavedForBackward {
  readonly qkv: SavedTensor | undefined;
  readonly positions: SavedTensor | undefined;
  readonly statistics: HeadStatistics<SavedTensor> | undefined;
}

/**
 * Returns the gradient of `qkv` as a new tensor. If there is a norm, also adds to the gradients of the norm's
 * weights.
 */
function backward(
  { options, heads, saved }: { options: PrepareHeadsOptions; heads: Heads; saved: SavedForBackward },
  outputGradient: Tensor,
  parts: { readonly input: boolean; readonly weight: boolean },
): Tensor {
  const result = Tensor.empty(outputGradient);
  // these reads are outside of `tidy`, because recomputed tensors belong to their variables and must not be
  // disposed of here
  const [qkv, positions] = [saved.qkv?.tensor, saved.positions?.tensor];
  tidy(() => {
    const [gradient, of] = [heads.packed(result), heads.packed(outputGradient)];
    if (parts.input) heads.copyValues(gradient, of);
    if (positions !== undefined) heads.rotate({ output: gradient, input: of, positions, inverse: true });
    if (options.norm === undefined) return;
    const parameters = collectParameters(options.norm);
    const { rstd, mean } = saved.statistics!;
    const [to, input] = [splitProjection(gradient), splitProjection(heads.packed(qkv!))];
    const from = positions === undefined ? splitProjection(of) : to;
    for (const part of normalizedParts) {
      headNormBackward(
        { ...parameters[part], rstd: rstd[part].tensor, mean: mean?.[part].tensor },
        {
          inputGradient: parts.input ? to[part] : undefined,
          outputGradient: from[part],
          input: input[part],
          addsToParameters: parts.weight,
        },
      );
    }
  });
  return result;
}

/**
 * Prepares queries and keys for attention: a norm of every head (query/key norm), then the rotary position
 * embedding. Either may be omitted. Returns a packed projection with the shape of `qkv` and unchanged
 * attention values. If there is a norm and the tape rematerializes, backward computes the result again
 * instead of keeping it.
 *
 * @throws KernelError or UsageError `MTL_SHAPE` or `MTL_DTYPE` for operands that do not fit, `MTL_INDEX` for
 *   a position beyond the table, `MTL_ARGUMENT` if neither norm nor rotation is given
 */
export const prepareHeads = checkedOperation(
  'prepareHeads',
  (tape: Tape, options: PrepareHeadsOptions): Variable => {
    const { qkv, norm, rotation } = options;
    if (norm === undefined && rotation === undefined) {
      throw new UsageError('MTL_ARGUMENT', 'prepareHeads: neither norm nor rotation is given', {
        remedy: 'leave the operation out where queries and keys are attended to as they are',
      });
    }
    const heads = new Heads(options);
    const statistics = norm && heads.statistics(norm);
    const parameters = trainedParameters(norm?.queryWeight, norm?.queryBias, norm?.keyWeight, norm?.keyBias);
    const compute = (): Tensor => prepare(options, heads, statistics);
    const dependencies = [qkv, ...flattenStatistics(statistics), rotation?.positions].filter(
      (variable) => variable !== undefined,
    );
    const result = tape.result(compute(), {
      requiresGradient: qkv.requiresGradient || parameters.length > 0,
      // without a norm, backward does not need `qkv`, so that keeping the result costs no more memory than
      // keeping `qkv`
      ...(norm === undefined ? {} : { recipe: { dependencies, compute } }),
    });
    tape.record(result, () => {
      const both = (of: HeadStatistics<Variable>['rstd']) => ({
        query: tape.save(of.query),
        key: tape.save(of.key),
      });
      const kept = statistics && {
        rstd: both(statistics.rstd),
        mean: statistics.mean && both(statistics.mean),
      };
      const saved: SavedForBackward = {
        qkv: norm && tape.save(qkv),
        positions: rotation && tape.save(rotation.positions),
        statistics: kept,
      };
      return {
        name: 'prepareHeads',
        inputs: [qkv],
        parameters,
        saved: [saved.qkv, saved.positions, ...flattenStatistics(kept)].filter((one) => one !== undefined),
        backward: ({ parts, outputGradient }) => {
          const needed = { input: parts.input && qkv.requiresGradient, weight: parts.weight };
          const gradient = backward({ options, heads, saved }, outputGradient!, needed);
          if (needed.input) return [gradient];
          gradient.dispose();
          return [undefined];
        },
      };
    });
    for (const statistic of flattenStatistics(statistics)) statistic.release();
    return result;
  },
);
