import { UsageError } from '@mtl/errors';
import {
  cast,
  checkedOperation,
  queriesAndKeys,
  rmsNormBackward,
  rmsNormForward,
  rotaryEmbedding,
  splitProjection,
  Tensor,
  tidy,
} from '@mtl/kernels';
import type { Parameter } from '../parameter.js';
import type { Tape } from '../tape.js';
import { trainedParameters } from '../trained-parameters.js';
import { type SavedTensor, Variable } from '../variable.js';

/** RMSNorm over the features of every query and every key. */
export interface HeadNorm {
  /** [D] */
  readonly queryWeight: Parameter;
  /** [D] */
  readonly keyWeight: Parameter;
  readonly epsilon: number;
}

/** Rotary position embedding (see `rotaryEmbedding` of @mtl/kernels). */
export interface HeadRotation {
  /** int32, of the shape of `qkv` without its last dimension: the position of every row. */
  readonly positions: Variable;
  /** float32 [P, R], made by `rotaryTable`; it must live as long as the tape. */
  readonly table: Tensor;
  readonly interleaved?: boolean;
}

export interface PrepareHeadsOptions {
  /** [S, B, W] or [T, W], W = G * (R + 2) * D: for each group its R queries, its key and its value. */
  readonly qkv: Variable;
  /** G */
  readonly numGroups: number;
  /** D */
  readonly headSize: number;
  readonly norm?: HeadNorm | undefined;
  readonly rotation?: HeadRotation | undefined;
}

/** rstd of every query and of every key. */
interface HeadStatistics {
  readonly query: Variable;
  readonly key: Variable;
}

/** What is done with packed projections, as tensors [rows, 1, G, R + 2, D]. */
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

  /** New statistics, one for each query and each key. */
  statistics(): HeadStatistics {
    const { dtype, device } = this.#options.qkv.tensor;
    const [rows, , groups, parts] = this.#shape as [number, number, number, number];
    const make = (size: number): Variable =>
      new Variable(
        Tensor.empty({ shape: [size], dtype: dtype === 'float64' ? 'float64' : 'float32', device }),
        { requiresGradient: false },
      );
    return { query: make(rows * groups * (parts - 2)), key: make(rows * groups) };
  }

  /** Rotates the queries and keys of `input` into `output`, which may be `input`. */
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

/** A new tensor: `qkv` with its queries and keys normalized, then rotated. */
function prepare(options: PrepareHeadsOptions, heads: Heads, statistics: HeadStatistics | undefined): Tensor {
  const { qkv, norm, rotation } = options;
  const result = Tensor.empty(qkv.tensor);
  tidy(() => {
    const [output, input] = [heads.packed(result), heads.packed(qkv.tensor)];
    heads.copyValues(output, input);
    if (norm !== undefined) {
      const [to, from] = [splitProjection(output), splitProjection(input)];
      const { queryWeight, keyWeight, epsilon } = norm;
      const [query, key] = [statistics!.query.tensor, statistics!.key.tensor];
      rmsNormForward({ output: to.query, rstd: query, input: from.query, weight: queryWeight.data, epsilon });
      rmsNormForward({ output: to.key, rstd: key, input: from.key, weight: keyWeight.data, epsilon });
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
  readonly query: SavedTensor | undefined;
  readonly key: SavedTensor | undefined;
}

/** The gradient of `qkv`, a new tensor; with a norm, adds to the gradients of its weights. */
function backward(
  { options, heads, saved }: { options: PrepareHeadsOptions; heads: Heads; saved: SavedForBackward },
  outputGradient: Tensor,
  parts: { readonly input: boolean; readonly weight: boolean },
): Tensor {
  const result = Tensor.empty(outputGradient);
  // outside of tidy: what is recomputed here belongs to its variable
  const [qkv, positions] = [saved.qkv?.tensor, saved.positions?.tensor];
  tidy(() => {
    const [gradient, of] = [heads.packed(result), heads.packed(outputGradient)];
    if (parts.input) heads.copyValues(gradient, of);
    if (positions !== undefined) heads.rotate({ output: gradient, input: of, positions, inverse: true });
    if (options.norm === undefined) return;
    const { queryWeight, keyWeight } = options.norm;
    const [to, input] = [splitProjection(gradient), splitProjection(heads.packed(qkv!))];
    const from = positions === undefined ? splitProjection(of) : to;
    for (const [part, weight] of [
      ['query', queryWeight],
      ['key', keyWeight],
    ] as const) {
      rmsNormBackward({
        inputGradient: parts.input ? to[part] : undefined,
        weightGradient: parts.weight && !weight.isFrozen ? weight.mainGradient : undefined,
        outputGradient: from[part],
        input: input[part],
        rstd: saved[part]!.tensor,
        weight: weight.data,
      });
    }
  });
  return result;
}

/**
 * What queries and keys go through before attention: RMSNorm of every head (query/key norm), then the rotary
 * position embedding; one of them may be left out. Returns a packed projection of the shape of `qkv`, with
 * its values unchanged. With a norm the result is computed again in backward rather than kept, where the tape
 * rematerializes.
 *
 * @throws KernelError or UsageError `MTL_SHAPE` or `MTL_DTYPE` for operands that do not fit, `MTL_INDEX` for
 *   a position that the table does not have, `MTL_ARGUMENT` without norm and rotation
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
    const statistics = norm && heads.statistics();
    const parameters = trainedParameters(norm?.queryWeight, norm?.keyWeight);
    const compute = (): Tensor => prepare(options, heads, statistics);
    const dependencies = [qkv, statistics?.query, statistics?.key, rotation?.positions].filter(
      (variable) => variable !== undefined,
    );
    const result = tape.result(compute(), {
      requiresGradient: qkv.requiresGradient || parameters.length > 0,
      // without a norm, backward does not need `qkv`: keeping the result costs no memory
      ...(norm === undefined ? {} : { recipe: { dependencies, compute } }),
    });
    tape.record(result, () => {
      const save = (variable: Variable | undefined): SavedTensor | undefined =>
        variable && tape.save(variable);
      const saved: SavedForBackward = {
        qkv: norm && tape.save(qkv),
        positions: save(rotation?.positions),
        query: save(statistics?.query),
        key: save(statistics?.key),
      };
      return {
        name: 'prepareHeads',
        inputs: [qkv],
        parameters,
        saved: Object.values(saved).filter((one) => one !== undefined),
        backward: ({ parts, outputGradient }) => {
          const needed = { input: parts.input && qkv.requiresGradient, weight: parts.weight };
          const gradient = backward({ options, heads, saved }, outputGradient!, needed);
          if (needed.input) return [gradient];
          gradient.dispose();
          return [undefined];
        },
      };
    });
    statistics?.query.release();
    statistics?.key.release();
    return result;
  },
);
