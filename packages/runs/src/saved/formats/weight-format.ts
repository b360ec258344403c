import type { BegunCheckpoint } from '../conversion/to-checkpoint.js';

type Notices = { readonly onNotice: (notice: string) => void };

/** The result of a conversion: what was converted, and the dtype of the written weights by its name. */
export interface WrittenWeights {
  readonly source: string;
  /** The path of what was written, if it is not the path that was given. */
  readonly target?: string | undefined;
  readonly dtype?: string | undefined;
}

/** Where to write, and how. */
interface Target extends Notices {
  /** A new or empty directory, or a new file. */
  readonly path: string;
  /**
   * One of the format's dtypes, or several with commas between them. Default: the dtype of the weights.
   */
  readonly dtype?: string | undefined;
}

/** A checkpoint to write in a format. */
export interface CheckpointToWrite extends Target {
  readonly load: string;
  /** The iteration. Default: the newest whole checkpoint. */
  readonly checkpointStep?: number | undefined;
}

/** A directory of the transformers library to write in a format. */
export interface HuggingFaceToWrite extends Target {
  readonly loadHuggingFace: string;
  /** Adapters in the format of PEFT. Default: none. */
  readonly loadLora?: string | undefined;
}

/** A model in a format, and the new directory of checkpoints to begin with it. */
export interface ModelToRead extends Notices {
  readonly path: string;
  readonly directory: string;
  /** The iteration, where the format has several. Default: the latest. */
  readonly step?: number | undefined;
  /** Number of real tokens, where the format may not state it. */
  readonly vocabularySize?: number | undefined;
  /** False: only the weights. Default: true. */
  readonly loadOptimizer?: boolean | undefined;
}

/** The use of adapters by `fromHuggingFace`: needed, or merged if they are given. */
export type AdapterUse = 'required' | 'possible';

/** A format of the weights of a model. */
export interface WeightFormat {
  /** The name that --to and --from take. */
  readonly name: string;
  /** One line for help. */
  readonly description: string;
  readonly path: 'DIR' | 'FILE';
  /** The names that --dtype takes when this format is written; empty if it has one dtype only. */
  readonly dtypes: readonly string[];
  /** True if --dtype takes several of the names, with commas: a file for each. Default: one of them. */
  readonly severalDtypes?: true;
  /** The flags that are the same as --to NAME and --from NAME, by their keys. */
  readonly flags?: { readonly write?: 'saveHf' | 'saveLora'; readonly read?: 'loadHf' };
  /** Writes a checkpoint; absent: not possible. */
  fromCheckpoint?(options: CheckpointToWrite): Promise<WrittenWeights>;
  /** Writes a directory of the transformers library; absent: not possible. */
  readonly fromHuggingFace?: {
    readonly adapters: AdapterUse;
    write(options: HuggingFaceToWrite): Promise<WrittenWeights>;
  };
  /** Begins a directory of checkpoints; absent: not possible. */
  readonly toCheckpoint?: {
    /** The options of `ModelToRead` that the format has a use for. */
    readonly options: readonly ('step' | 'vocabularySize' | 'loadOptimizer')[];
    read(options: ModelToRead): Promise<BegunCheckpoint & { readonly source: string }>;
  };
}
