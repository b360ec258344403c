import type { ParallelFlags, RecomputeFlags, TrackingFlags } from '@mtl/configuration/flags';
import type { LayerNormPlacement } from '@mtl/models';
import type { LearningRateDecayStyle } from '@mtl/optimizer';
import type { TokenizerOptions } from '@mtl/tokenizers';

/** The tasks that BERTs are fine-tuned for here, as the papers report them. */
export const fineTuningTaskNames = ['mnli', 'qqp', 'race', 'squad'] as const;
export type FineTuningTaskName = (typeof fineTuningTaskNames)[number];

/** The places of the files of a task. */
export interface TaskDataConfiguration {
  /** A GLUE or SQuAD file, or a part of RACE. */
  readonly train: string;
  /** Evaluated after every epoch. */
  readonly valid: readonly string[];
  /** Predicted at the end; labels are not needed. */
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
 * The source of a model: one of `load` and `loadHuggingFace` with or without its weights, or `scratch`.
 */
export interface StartConfiguration {
  readonly load: string | undefined;
  readonly checkpointStep: number | undefined;
  readonly loadHuggingFace: string | undefined;
  /** Take architecture and tokenizer of the named model, and its weights as initial weights. */
  readonly initialWeights: boolean;
  readonly scratch: ScratchConfiguration | undefined;
  /** In place of the tokenizer that came with the model; needed for `scratch`. */
  readonly tokenizer: TokenizerOptions | undefined;
}

/** The settings by which windows of SQuAD are made and searched. */
export interface SpanConfiguration {
  readonly documentStride: number;
  readonly maximumQueryLength: number;
  readonly maximumAnswerLength: number;
}

/** Everything that a fine-tuning depends on. */
export interface FineTuningConfiguration {
  readonly task: FineTuningTaskName;
  readonly data: TaskDataConfiguration;
  readonly start: StartConfiguration;
  /** Undefined: the task's usual one, or all positions of the model where it has fewer. */
  readonly sequenceLength: number | undefined;
  readonly spans: SpanConfiguration;
  readonly epochs: number;
  readonly globalBatchSize: number;
  readonly microBatchSize: number;
  readonly optimizer: {
    readonly learningRate: number;
    readonly minLearningRate: number;
    readonly decayStyle: Extract<LearningRateDecayStyle, 'constant' | 'linear' | 'cosine'>;
    /** Share of the steps. */
    readonly warmupFraction: number;
    readonly weightDecay: number;
    readonly clipGrad: number;
  };
  /** Dropout of hidden states and of attention; undefined: as the model was trained. */
  readonly dropout: number | undefined;
  readonly precision: 'fp32' | 'bf16' | 'fp16';
  /** The device and the layout, as a training run's flags; their meaning depends on the model. */
  readonly parallel: ParallelFlags;
  /** The activations that are computed again instead of being kept; likewise. */
  readonly recompute: RecomputeFlags;
  readonly checkpoint: {
    /** Gets a folder for each seed: checkpoints, results, predictions. */
    readonly save: string | undefined;
    /**
     * Gets the fine-tuned model for the transformers library; a folder for each seed where there are several.
     */
    readonly saveHuggingFace: string | undefined;
    /** Steps between checkpoints; undefined: after every epoch. */
    readonly saveInterval: number | undefined;
    /** Checkpoints that stay. */
    readonly keepLast: number;
    /** Resume from the checkpoints in `save`. */
    readonly resume: boolean;
  };
  /** Steps between lines of progress. */
  readonly logInterval: number;
  readonly metricsJsonl: string | undefined;
  /** Services that metrics of each seed are sent to, as a training run's flags. */
  readonly tracking: TrackingFlags;
  /** Ends a run after a step whose number is a multiple of this. */
  readonly exitInterval: number | undefined;
  /** One training run each. */
  readonly seeds: readonly number[];
  /** Flags that make the same run again, for its record. */
  readonly flags: Readonly<Record<string, unknown>>;
}
