import { checkValues, type Dtype, dtypeBytes } from '@mtl/checkpoint';
import { CheckpointError } from '@mtl/errors';
import { countElements } from '@mtl/kernels';
import type { WeightFiles, WeightTerms } from '../huggingface/weight-files.js';
import type { LayersName } from './megatron-names.js';

/** The model properties that determine the layout of the stored tensors. */
export interface StoredArchitecture {
  readonly layers: LayersName;
  readonly isGated: boolean;
  /** The number of experts E; undefined if the model has no experts. */
  readonly numExperts: number | undefined;
  /** The size of a head, D. */
  readonly headSize: number;
  /**
   * The vocabulary size without padding rows. The embedding's rows after the vocabulary are padding, which is
   * not read.
   */
  readonly vocabularySize: number;
}

/** A Megatron-LM checkpoint, in any of its formats. */
export interface MegatronFiles {
  readonly path: string;
  /** The checkpoint's args after unpickling. */
  readonly arguments: unknown;
  readonly iteration: number;
  /** The names of the model's tensors in the files. */
  readonly names: readonly string[];
  /** Returns the model's complete tensors, with our names. */
  weights(architecture: StoredArchitecture): WeightFiles;
  /** The optimizer state, if the format stores separate tensors for each weight. */
  readonly optimizer?: MegatronOptimizerFiles | undefined;
  close(): Promise<void>;
}

/**
 * Megatron-LM's names for the states of AdamW: the two moments, and the float32 weights that AdamW updates.
 */
export type MegatronOptimizerState = 'exp_avg' | 'exp_avg_sq' | 'fp32_param';

/** The stored tensors of an optimizer. There is one tensor per weight and state. */
export interface MegatronOptimizerFiles {
  readonly steps: number;
  has(state: MegatronOptimizerState): boolean;
  /** Returns the values of one state as tensors that have the names of the weights. */
  state(state: MegatronOptimizerState, architecture: StoredArchitecture): WeightFiles;
}

const megatronTerms: WeightTerms = {
  code: 'MTL_MEGATRON_WEIGHTS',
  configuration: 'its args',
  remedy: 'use the files of one checkpoint, complete and unchanged; weights of other features are not read',
  untied: 'untie_embeddings_and_output_weights in its args',
};

const vocabularyTables = /^(embedding\.word_embeddings\.weight|output_layer\.(weight|bias))$/;

/** Returns a tensor's shape without the vocabulary's padding. */
export function withoutPadding(
  name: string,
  shape: readonly number[],
  { vocabularySize }: StoredArchitecture,
): readonly number[] {
  const [rows, ...rest] = shape;
  if (rows === undefined || !vocabularyTables.test(name)) return shape;
  return [Math.min(rows, vocabularySize), ...rest];
}

/** Returns a count that a checkpoint contains, such as its iteration; 0 if the value is not a valid count. */
export const readCount = (value: unknown): number =>
  Number.isSafeInteger(value) && (value as number) >= 0 ? (value as number) : 0;

interface WholeTensor {
  readonly shape: readonly number[];
  readonly dtype: Dtype;
}

/**
 * Returns a checkpoint's weights as complete tensors. When a tensor is read, `fill` merges it from its
 * shards.
 *
 * @param options.tensors the tensors, by our names
 */
export function wholeWeights(options: {
  readonly path: string;
  readonly tensors: ReadonlyMap<string, WholeTensor>;
  fill(name: string, target: Uint8Array): Promise<void>;
}): WeightFiles {
  const { path, fill } = options;
  const tensors = new Map(
    [...options.tensors].map(([name, { shape, dtype }]) => {
      return [name, { shape, dtype, bytes: countElements(shape) * dtypeBytes[dtype] }] as const;
    }),
  );
  return {
    path,
    terms: megatronTerms,
    tensors,
    read: async ({ name, target, requireFinite = false }) => {
      const { shape, dtype, bytes } = tensors.get(name)!;
      const whole = target ?? new Uint8Array(bytes);
      await fill(name, whole);
      if (requireFinite) {
        const slices = shape.map((end) => ({ start: 0, end }));
        const remedy = 'take an earlier checkpoint: the values of this one are not finite';
        checkValues(whole, { dtype, check: { place: path, name, slices, remedy, exitCode: 2 } });
      }
      return whole;
    },
  };
}

/** Makes the error for a Megatron-LM checkpoint that cannot be used. */
export function megatronError(
  path: string,
  problem: string,
  { expected, remedy }: { readonly expected?: string | undefined; readonly remedy?: string } = {},
): CheckpointError {
  return new CheckpointError('MTL_MEGATRON_CHECKPOINT', `${path}: ${problem}`, {
    ...(expected === undefined ? {} : { expected }),
    remedy: remedy ?? 'pass the directory that Megatron-LM saved to (its --save), complete and unchanged',
    exitCode: 2,
  });
}
