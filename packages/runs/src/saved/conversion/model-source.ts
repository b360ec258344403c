import { type OptionChecks, required, textOption } from '@mtl/errors/options';
import { iterationOption } from '../option-checks.js';

/** A checkpoint that is written in another format. */
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

/** A model of the transformers library that is written in another format. */
export interface HuggingFaceSource {
  /** A directory of the transformers library, or `org/name` on the Hub. */
  readonly loadHuggingFace: string;
  /** Adapters of the model, in the format of PEFT, which are merged. Default: none. */
  readonly loadLora?: string | undefined;
}

export const huggingFaceSourceChecks: OptionChecks<HuggingFaceSource> = {
  loadHuggingFace: required(textOption),
  loadLora: textOption,
};
