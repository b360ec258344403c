import type { ParallelFlags, RecomputeFlags, TrackingFlags } from '@mtl/configuration/flags';
import type { LayerNormPlacement } from '@mtl/models';
import type { LearningRateDecayStyle } from '@mtl/optimizer';
import type { TokenizerOptions } from '@mtl/tokenizers';

/** The supported fine-tuning tasks; the papers on BERT and Megatron-LM report results on these tasks. */
export const fineTuningTaskNames = ['mnli', 'qqp', 'race', 'squad'] as const;
export type FineTuningTaskName = (typeof fineTuningTaskNames)[number];

/** Paths of the files of a task. */
export interface TaskDataConfiguration {
  /** The training data: a GLUE or SQuAD file, or a split of RACE. */
  readonly train: string;
  /** The files that are evaluated after every epoch. */
  readonly valid: readonly string[];
  /** The files whose examples are predicted at the end of the run. They need no labels. */
  readonly test: readonly string[];
}

/** The architecture of a model that starts from scratch. */
interface ScratchConfiguration {
  readonly numLayers: number;
  readonly hiddenSize: number;
  readonly numAttentionHeads: number;
  readonly layerNormPlacement: LayerNormPlacement;
}

/**
 * The model from which fine-tuning starts: `load` or `loadHuggingFace`, with or without its weights, or
 * `scratch`.
 */
export interface StartConfiguration {
  readonly load: string | undefined;
  readonly checkpointStep: number | undefined;
  readonly loadHuggingFace: string | undefined;
  /**
   * True if the weights of the named model are the initial weights. Otherwise only its architecture and
   * tokenizer are used.
   */
  readonly initialWeights: boolean;
  readonly scratch: ScratchConfiguration | undefined;
  /** The tokenizer that replaces the model's tokenizer; required for `scratch`. */
  readonly tokenizer: TokenizerOptions | undefined;
}

/** Settings for splitting SQuAD's contexts into windows, and for searching for answers in them. */
export interface SpanConfiguration {
  readonly documentStride: number;
  readonly maximumQueryLength: number;
  readonly maximumAnswerLength: number;
}

/** All settings of a fine-tuning. */
export interface FineTuningConfiguration {
  readonly task: FineTuningTaskName;
  readonly data: TaskDataConfiguration;
  readonly start: StartConfiguration;
  /**
   * The sequence length in tokens. Undefined: the usual length for the task, but at most the model's number
   * of position embeddings.
   */
  readonly sequenceLength: number | undefined;
  readonly spans: SpanConfiguration;
  readonly epochs: number;
  readonly globalBatchSize: number;
  readonly microBatchSize: number;
  readonly optimizer: {
    readonly learningRate: number;
    readonly minLearningRate: number;
    readonly decayStyle: Extract<LearningRateDecayStyle, 'constant' | 'linear' | 'cosine'>;
    /** Fraction of the steps that are warm-up. */
    readonly warmupFraction: number;
    readonly weightDecay: number;
    readonly clipGrad: number;
  };
  /**
   * The dropout probability for hidden states and for attention. Undefined: the model's own probabilities.
   */
  readonly dropout: number | undefined;
  readonly precision: 'fp32' | 'bf16' | 'fp16';
  /** The device and the layout, as values of training flags. The model determines which flags are valid. */
  readonly parallel: ParallelFlags;
  /** The activations that the backward pass recomputes, also as values of training flags. */
  readonly recompute: RecomputeFlags;
  readonly checkpoint: {
    /** The folder for checkpoints, results and predictions. Each seed gets its own subfolder. */
    readonly save: string | undefined;
    /**
     * The directory for the fine-tuned model in the format of the transformers library. With several seeds,
     * each seed has a separate subfolder.
     */
    readonly saveHuggingFace: string | undefined;
    /** Steps between checkpoints; undefined: after every epoch. */
    readonly saveInterval: number | undefined;
    /** Number of checkpoints that are kept. */
    readonly keepLast: number;
    /** True if the run resumes from the checkpoints in `save`. */
    readonly resume: boolean;
  };
  /** Steps between lines of progress. */
  readonly logInterval: number;
  readonly metricsJsonl: string | undefined;
  /** The tracking services to which the metrics of each seed are sent, as values of training flags. */
  readonly tracking: TrackingFlags;
  /** The run ends after the first step whose iteration is a multiple of this value. */
  readonly exitInterval: number | undefined;
  /** The random seeds. Each seed gets its own training run. */
  readonly seeds: readonly number[];
  /** Flags that reproduce the run, for the run's record. */
  readonly flags: Readonly<Record<string, unknown>>;
}
