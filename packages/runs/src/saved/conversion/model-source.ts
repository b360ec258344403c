import { type OptionChecks, required, textOption } from '@mtl/errors/options';
import { iterationOption } from '../option-checks.js';

/** A checkpoint to write in another format. */
export interface CheckpointSource {
  /** A directory of checkpoints. */
  readonly load: string;
  /** The iteration. Default: the newest complete checkpoint. */
  readonly checkpointStep?: number | undefined;
}

export const checkpointSourceChecks: OptionChecks<CheckpointSource> = {
  load: required(textOption),
  checkpointStep: iterationOption,
};

/** A model of the transformers library to write in another format. */
export interface HuggingFaceSource {
  /** A transformers directory, or a model name on the Hub (`org/name`). */
  readonly loadHuggingFace: string;
  /** A directory with the model's adapters in PEFT's format, which are merged. Default: none. */
  readonly loadLora?: string | undefined;
}

export const huggingFaceSourceChecks: OptionChecks<HuggingFaceSource> = {
  loadHuggingFace: required(textOption),
  loadLora: textOption,
};
