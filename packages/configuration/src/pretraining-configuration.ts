import type { ConversationFiles } from '@mtl/data/conversations';
import type { GeluKind } from '@mtl/kernels';
import type {
  BlockVariants,
  ExpertVariants,
  PositionVariants,
  Recomputation,
  TransformerConfiguration,
} from '@mtl/models';
import type {
  BatchPosition,
  BatchSizeRampup,
  LearningRateScheduleOptions,
  LossScalerOptions,
  MuonOptions,
} from '@mtl/optimizer';
import type { TokenizerOptions } from '@mtl/tokenizers';
import type { AdaptedConfiguration } from './adapters/adapted-configuration.js';
import type { ModelKind } from './architecture/architecture-field.js';
import type { dataFlags } from './flags/data-flags.js';
import type { StatePrecision } from './flags/flag-kinds.js';
import type { FlagValues } from './flags/flag-values.js';
import type { loggingFlags } from './flags/logging-flags.js';
import type { optimizerFlags } from './flags/optimizer-flags.js';
import type { spikeFlags, trainingFlags } from './flags/training-flags.js';
import type {
  bertFlags,
  checkpointFlags,
  communicationFlags,
  deviceFlags,
  FlagName,
  Flags,
} from './schema/flag-schema.js';
import type { StrategyConfiguration } from './strategies/strategies.js';

/**
 * The architecture, with the names of @mtl/models: what GPT and BERT have in common, and variants of some
 * models.
 */
export interface ModelConfiguration
  extends Omit<TransformerConfiguration, 'vocabularySize' | 'makeVocabularySizeDivisibleBy' | 'geluKind'>,
    BlockVariants,
    PositionVariants,
    ExpertVariants {
  readonly headSize: number;
  readonly sequenceLength: number;
  /** The kind of GELU. Absent: `tanh` for a GPT, `erf` for a BERT, as in the original models. */
  readonly geluKind?: GeluKind | undefined;
  readonly untieEmbeddingsAndOutputWeights: boolean;
  readonly makeVocabSizeDivisibleBy: number;
  /** The vocabulary size of a loaded model. Absent: the size of the tokenizer's vocabulary. */
  readonly vocabularySize?: number;
}

/** The settings that only a BERT has. */
export interface BertConfiguration extends FlagValues<typeof bertFlags> {
  readonly sentenceOrderHead: boolean;
}

/**
 * The length, batches and precision of training. If the length is given in samples or epochs,
 * `trainIterations` is the number of steps already done plus the steps for the remaining samples.
 */
export interface TrainingConfiguration
  extends FlagValues<typeof trainingFlags, 'micro-batch-size' | 'global-batch-size' | 'train-iters'> {
  /** The number of micro-batches that each data-parallel rank accumulates per step, after the ramp-up. */
  readonly numMicroBatches: number;
  readonly rampup?: BatchSizeRampup;
  /**
   * The position in the data from which the run continues, stored in the resumed checkpoint. Absent: the
   * beginning.
   */
  readonly start?: BatchPosition;
  readonly precision: 'fp32' | 'bf16' | 'fp16';
  readonly recompute: Recomputation;
}

/** The settings for Muon, under the same names as in @mtl/optimizer's options. */
export interface MuonConfiguration extends Omit<MuonOptions, 'dtype'> {
  /**
   * The dtype of matmuls in the Newton-Schulz iteration. Undefined: determined by the model's precision and
   * the hardware.
   */
  readonly dtype?: MuonOptions['dtype'];
}

export type { StatePrecision };

export interface OptimizerConfiguration extends FlagValues<typeof optimizerFlags> {
  readonly learningRate: LearningRateScheduleOptions & {
    /** The unit of the schedule's lengths: iterations, or samples if training is counted in samples. */
    readonly unit: 'iterations' | 'samples';
  };
  /**
   * The learning rates of the word embedding and the output layer, with the same schedule as `learningRate`.
   * Undefined: both layers have the same rates as all other parameters.
   */
  readonly decoupledLearningRate?: Required<
    Pick<LearningRateScheduleOptions, 'maxLearningRate' | 'minLearningRate'>
  >;
  /** Muon's settings for the matrices of hidden layers; undefined: AdamW is used for all parameters. */
  readonly muon?: MuonConfiguration;
  /** The precisions of a precision-aware optimizer's states; undefined: all states are fp32. */
  readonly statePrecision?: StatePrecision;
  readonly lossScale: LossScalerOptions;
}

/** The reaction to spikes. A spike is a step whose loss or gradient norm is far above recent values. */
export interface SpikeConfiguration extends Omit<FlagValues<typeof spikeFlags>, 'rerunMode'> {
  /**
   * The mode in which steps are computed a second time to find wrong results. Absent: no step is computed
   * again.
   */
  readonly rerunMode?: 'validate_results' | 'report_stats';
}

/**
 * The options of @mtl/data's `createTokenizer` for the tokenizer of the data; undefined for the tokenizer of
 * the bundled corpus.
 */
export type TokenizerConfiguration = TokenizerOptions;

/** The conversations for fine-tuning. */
export interface ConversationConfiguration extends ConversationFiles {
  /**
   * Training ends after this number of consecutive evaluations without a lower validation loss. Absent:
   * training never ends early.
   */
  readonly patience?: number;
}

/** The sample counts of an epoch of conversations, which are known once the conversations have been read. */
export interface ConversationSamples {
  readonly numTrain: number;
  /** Number of samples for evaluation; 0 if there is no evaluation. */
  readonly numValidation: number;
}

export interface DataConfiguration extends FlagValues<typeof dataFlags, 'data-path'> {
  /**
   * The words of --data-path (prefixes, or weights and prefixes); empty for the bundled corpus, mock data and
   * conversations.
   */
  readonly dataPath: readonly string[];
  /** True if mock data replaces the data of --data-path. */
  readonly mockData?: true;
  readonly tokenizer?: TokenizerConfiguration;
  /** The conversations, if the run is trained on conversations. */
  readonly conversations?: ConversationConfiguration;
}

/**
 * The device, and the layout of processes. If `threads` is absent, `chooseThreads` of @mtl/runs chooses the
 * number.
 */
export interface ParallelConfiguration
  extends StrategyConfiguration,
    Omit<FlagValues<typeof deviceFlags>, 'device'>,
    FlagValues<typeof communicationFlags> {
  /** The device; `meta` and `meta-cuda` are devices of dry runs. */
  readonly device: 'cpu' | 'cuda' | 'meta' | 'meta-cuda';
  /** Number of processes of the run. */
  readonly worldSize: number;
}

export interface CheckpointConfiguration extends FlagValues<typeof checkpointFlags> {
  readonly loadOptimizer: boolean;
  readonly loadRng: boolean;
  /**
   * The values to use if the learning rates, schedule or weight decay of the flags differ from the values in
   * the checkpoint: `same` rejects a difference, `override` uses the flags, and `checkpoint` uses the
   * checkpoint's values.
   */
  readonly schedule: 'same' | 'override' | 'checkpoint';
}

export interface LoggingConfiguration extends FlagValues<typeof loggingFlags> {
  /** True if a short sample of the model's output is written at each evaluation. */
  readonly samplesAtEvaluations: boolean;
  /** The project and the run's name at Weights & Biases. Default name: the name of the run's folder. */
  readonly wandb?: { readonly project: string; readonly name?: string; readonly entity?: string };
  readonly mlflow?: { readonly trackingUri: string; readonly experiment: string; readonly name?: string };
  /** The traced steps: from `first` to `last`, both included. */
  readonly profile?: { readonly first: number; readonly last: number; readonly file: string };
}

/**
 * All settings of a training run, resolved and checked. Code that uses the settings need not check them
 * again. The object is deeply frozen. All its values except `sources` are plain data.
 */
export interface PretrainingConfiguration extends AdaptedConfiguration {
  readonly kind: ModelKind;
  readonly model: ModelConfiguration;
  /** The settings that only a BERT has, if the model is a BERT. */
  readonly bert?: BertConfiguration;
  readonly training: TrainingConfiguration;
  readonly optimizer: OptimizerConfiguration;
  readonly spikes: SpikeConfiguration;
  readonly data: DataConfiguration;
  readonly parallel: ParallelConfiguration;
  readonly checkpoint: CheckpointConfiguration;
  readonly logging: LoggingConfiguration;
  /** The flags from which the configuration was made, and the source of each value. */
  readonly flags: Flags;
  readonly sources: ReadonlyMap<FlagName, string>;
  readonly preset: string;
  /** Messages about given flags that have no effect. */
  readonly notices: readonly string[];
}
