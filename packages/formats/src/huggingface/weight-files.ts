import type { Dtype } from '@mtl/checkpoint';
import { CheckpointError } from '@mtl/errors';
import type { ValueRange } from './value-runs.js';

/** Open files that contain a model's tensors: a `SafetensorsDirectory`, or a reader of a different format. */
export interface WeightFiles {
  readonly path: string;
  readonly tensors: ReadonlyMap<
    string,
    { readonly shape: readonly number[]; readonly dtype: Dtype; readonly bytes: number }
  >;
  /** True if `read` supports `range`. If absent, `read` always returns complete tensors. */
  readonly readsRanges?: boolean;
  /**
   * Returns the row-major, little-endian bytes of a tensor, or of a range of its values. If `target` is
   * given, it receives the bytes.
   */
  read(options: {
    readonly name: string;
    readonly range?: ValueRange;
    readonly target?: Uint8Array;
    readonly requireFinite?: boolean;
  }): Promise<Uint8Array>;
  /** The wording of error messages about the weights. Default: the wording for Hugging Face directories. */
  readonly terms?: WeightTerms;
}

/** The wording of error messages about weight files. */
export interface WeightTerms {
  readonly code: `MTL_${string}`;
  /** The name of the file that describes the architecture. */
  readonly configuration: string;
  readonly remedy: string;
  /** The setting with which the input embedding and the output layer are separate. */
  readonly untied: string;
}

const huggingFaceTerms: WeightTerms = {
  code: 'MTL_HUGGING_FACE_WEIGHTS',
  configuration: 'config.json',
  remedy: 'use the weights and the config.json of one and the same model',
  untied: 'tie_word_embeddings false',
};

/** Returns the wording of error messages about the given weight files. */
export const chooseTerms = ({ terms = huggingFaceTerms }: Pick<WeightFiles, 'terms'>): WeightTerms => terms;

/** Returns the error for weights that do not match the architecture. */
export function weightsRefused(
  weights: Pick<WeightFiles, 'path' | 'terms'>,
  problem: string,
  expected?: string,
): CheckpointError {
  const { code, remedy } = chooseTerms(weights);
  return new CheckpointError(code, `${weights.path}: ${problem}`, {
    ...(expected === undefined ? {} : { expected }),
    remedy,
    exitCode: 2,
  });
}
