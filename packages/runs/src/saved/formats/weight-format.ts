import type { BegunCheckpoint } from '../conversion/to-checkpoint.js';

type Notices = { readonly onNotice: (notice: string) => void };

/** The result of a conversion: a description of the source, and the dtype of the written weights. */
export interface WrittenWeights {
  readonly source: string;
  /** The path of the written files, if it differs from the path in the options. */
  readonly target?: string | undefined;
  readonly dtype?: string | undefined;
}

/** The path to write to, and the dtype. */
interface Target extends Notices {
  /** The path of a new or empty directory, or of a new file. */
  readonly path: string;
  /**
   * The name of one of the format's dtypes, or several names with commas. Default: the dtype of the weights.
   */
  readonly dtype?: string | undefined;
}

/** A checkpoint, and the place for its weights in another format. */
export interface CheckpointToWrite extends Target {
  readonly load: string;
  /** The iteration. Default: the newest complete checkpoint. */
  readonly checkpointStep?: number | undefined;
}

/** A directory of the transformers library, and the place for its weights in another format. */
export interface HuggingFaceToWrite extends Target {
  readonly loadHuggingFace: string;
  /** A directory with adapters in PEFT's format. Default: none. */
  readonly loadLora?: string | undefined;
}

/** A model in the format, and the new directory of checkpoints for it. */
export interface ModelToRead extends Notices {
  readonly path: string;
  readonly directory: string;
  /** The iteration, if the format stores several. Default: the latest. */
  readonly step?: number | undefined;
  /** The number of real tokens, if the format may lack it. */
  readonly vocabularySize?: number | undefined;
  /** False loads only the weights, without the optimizer's state. Default: true. */
  readonly loadOptimizer?: boolean | undefined;
}

/** The use of adapters in `fromHuggingFace`: they are required, or merged if given. */
export type AdapterUse = 'required' | 'possible';

/** A file format for the weights of a model. */
export interface WeightFormat {
  /** The name of the format in --to and --from. */
  readonly name: string;
  /** A description of one line, for help. */
  readonly description: string;
  readonly path: 'DIR' | 'FILE';
  /** The valid names in --dtype for writing this format; empty if the format has only one dtype. */
  readonly dtypes: readonly string[];
  /**
   * True if --dtype takes several names, with commas, and each name results in a file. Default: --dtype takes
   * one name.
   */
  readonly severalDtypes?: true;
  /** Flags with the same meaning as --to NAME and --from NAME, by their keys in the parsed options. */
  readonly flags?: { readonly write?: 'saveHf' | 'saveLora'; readonly read?: 'loadHf' };
  /** Writes the weights of a checkpoint in this format. Absent: not supported. */
  fromCheckpoint?(options: CheckpointToWrite): Promise<WrittenWeights>;
  /** Writes a model of the transformers library in this format. Absent: not supported. */
  readonly fromHuggingFace?: {
    readonly adapters: AdapterUse;
    write(options: HuggingFaceToWrite): Promise<WrittenWeights>;
  };
  /** Reads a model in this format into a new directory of checkpoints. Absent: not supported. */
  readonly toCheckpoint?: {
    /** The options of `ModelToRead` that have an effect for this format. */
    readonly options: readonly ('step' | 'vocabularySize' | 'loadOptimizer')[];
    read(options: ModelToRead): Promise<BegunCheckpoint & { readonly source: string }>;
  };
}
