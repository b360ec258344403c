import type { BegunCheckpoint } from '../conversion/to-checkpoint.js';

type Notices = { readonly onNotice: (notice: string) => void };

/** The result of a conversion: a description of the source, and the dtype of the written weights. */
export interface WrittenWeights {
  readonly source: string;
  /** The path of the written files, if it differs from the path in the options. */
  readonly target?: string | undefined;
  readonly dtype?: string | undefined;
}

/** The path to write to, and the dtype of the written weights. */
interface Target extends Notices {
  /** The path of a new or empty directory, or of a new file. */
  readonly path: string;
  /**
   * The name of a dtype that the format supports, or several names separated by commas. Default: the dtype of
   * the weights.
   */
  readonly dtype?: string | undefined;
}

/** A checkpoint, and the path for its weights in another format. */
export interface CheckpointToWrite extends Target {
  readonly load: string;
  /** The iteration. Default: the newest complete checkpoint. */
  readonly checkpointStep?: number | undefined;
}

/** A directory of the transformers library, and the path for its weights in another format. */
export interface HuggingFaceToWrite extends Target {
  readonly loadHuggingFace: string;
  /** A directory with adapters in PEFT's format. Default: none. */
  readonly loadLora?: string | undefined;
}

/** A model in this format, and the new directory of checkpoints for the converted model. */
export interface ModelToRead extends Notices {
  readonly path: string;
  readonly directory: string;
  /** The iteration to read, if the format stores several. Default: the latest. */
  readonly step?: number | undefined;
  /** The number of tokens without padding, for formats that may not store it. */
  readonly vocabularySize?: number | undefined;
  /** If false, only the weights are loaded, without the optimizer's state. Default: true. */
  readonly loadOptimizer?: boolean | undefined;
}

/**
 * How `fromHuggingFace` uses adapters: `required`, they must be given; `possible`, they are merged if given.
 */
export type AdapterUse = 'required' | 'possible';

/** A file format for the weights of a model. */
export interface WeightFormat {
  /** The name of the format in --to and --from. */
  readonly name: string;
  /** A description of one line, for help. */
  readonly description: string;
  readonly path: 'DIR' | 'FILE';
  /**
   * The names that --dtype accepts when this format is written. The list is empty if the format has only one
   * dtype.
   */
  readonly dtypes: readonly string[];
  /**
   * True if --dtype accepts several names, separated by commas, and each name results in a file. Default:
   * --dtype accepts one name.
   */
  readonly severalDtypes?: true;
  /** Flags that mean the same as `--to NAME` and `--from NAME`, by their keys in the parsed options. */
  readonly flags?: { readonly write?: 'saveHf' | 'saveLora'; readonly read?: 'loadHf' };
  /** Writes the weights of a checkpoint in this format. Absent if not supported. */
  fromCheckpoint?(options: CheckpointToWrite): Promise<WrittenWeights>;
  /** Writes a model of the transformers library in this format. Absent if not supported. */
  readonly fromHuggingFace?: {
    readonly adapters: AdapterUse;
    write(options: HuggingFaceToWrite): Promise<WrittenWeights>;
  };
  /** Reads a model in this format into a new directory of checkpoints. Absent if not supported. */
  readonly toCheckpoint?: {
    /** The options in `ModelToRead` that have an effect for this format. */
    readonly options: readonly ('step' | 'vocabularySize' | 'loadOptimizer')[];
    read(options: ModelToRead): Promise<BegunCheckpoint & { readonly source: string }>;
  };
}
