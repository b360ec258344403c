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
 * The architecture, by the names of @mtl/models: the common part of GPT and BERT, and variants that some
 * models have.
 */
export interface ModelConfiguration
  extends Omit<TransformerConfiguration, 'vocabularySize' | 'makeVocabularySizeDivisibleBy' | 'geluKind'>,
    BlockVariants,
    PositionVariants,
    ExpertVariants {
  readonly headSize: number;
  readonly sequenceLength: number;
  /** The kind of GELU. Absent: as in the original model, `tanh` in a GPT, `erf` in a BERT. */
  readonly geluKind?: GeluKind | undefined;
  readonly untieEmbeddingsAndOutputWeights: boolean;
  readonly makeVocabSizeDivisibleBy: number;
  /** The vocabulary size of a loaded model; absent: the tokenizer's size. */
  readonly vocabularySize?: number;
}

/** The settings that only a BERT has. */
export interface BertConfiguration extends FlagValues<typeof bertFlags> {
  readonly sentenceOrderHead: boolean;
}

/**
 * The length of training, its batches and its precision. If the run has `trainSamples` or epochs,
 * `trainIterations` is the number of steps already taken, plus the steps that fit into the remaining samples.
 */
export interface TrainingConfiguration
  extends FlagValues<typeof trainingFlags, 'micro-batch-size' | 'global-batch-size' | 'train-iters'> {
  /** Micro-batches that each data-parallel rank accumulates per step, after ramp-up. */
  readonly numMicroBatches: number;
  readonly rampup?: BatchSizeRampup;
  /**
   * The position in the data where the run continues, from the checkpoint that it resumes. Absent: at the
   * start.
   */
  readonly start?: BatchPosition;
  readonly precision: 'fp32' | 'bf16' | 'fp16';
  readonly recompute: Recomputation;
}

/** Muon, with the fields of @mtl/optimizer's options. */
export interface MuonConfiguration extends Omit<MuonOptions, 'dtype'> {
  /**
   * The dtype of the matmuls of Newton-Schulz; undefined: chosen by the precision of the model and the
   * hardware.
   */
  readonly dtype?: MuonOptions['dtype'];
}

export type { StatePrecision };

export interface OptimizerConfiguration extends FlagValues<typeof optimizerFlags> {
  readonly learningRate: LearningRateScheduleOptions & {
    /** The unit of the schedule's steps: iterations, or samples where training is counted in samples. */
    readonly unit: 'iterations' | 'samples';
  };
  /**
   * The learning rates of the word embedding and the output layer, on the schedule of `learningRate`;
   * undefined: the rates of all other parameters.
   */
  readonly decoupledLearningRate?: Required<
    Pick<LearningRateScheduleOptions, 'maxLearningRate' | 'minLearningRate'>
  >;
  /** Muon for the matrices of hidden layers; undefined: AdamW for all parameters. */
  readonly muon?: MuonConfiguration;
  /** The precisions of states of a precision-aware optimizer; undefined: all are fp32. */
  readonly statePrecision?: StatePrecision;
  readonly lossScale: LossScalerOptions;
}

/** The reaction to steps whose loss or gradient norm is far above the values of recent steps. */
export interface SpikeConfiguration extends Omit<FlagValues<typeof spikeFlags>, 'rerunMode'> {
  /** The mode of computing steps a second time, to find wrong results; absent: no step is computed again. */
  readonly rerunMode?: 'validate_results' | 'report_stats';
}

/**
 * The tokenizer by which text became token ids; undefined for the tokenizer of the bundled corpus. The
 * options of @mtl/data's `createTokenizer`.
 */
export type TokenizerConfiguration = TokenizerOptions;

/** Conversations to fine-tune on. */
export interface ConversationConfiguration extends ConversationFiles {
  /**
   * Number of evaluations in a row without a lower validation loss after which training ends; absent:
   * training never ends early.
   */
  readonly patience?: number;
}

/** The numbers of samples in an epoch of conversations, known only after the conversations are read. */
export interface ConversationSamples {
  readonly numTrain: number;
  /** Number of samples for evaluation; 0 if nothing is evaluated. */
  readonly numValidation: number;
}

export interface DataConfiguration extends FlagValues<typeof dataFlags, 'data-path'> {
  /**
   * The words of --data-path (prefixes, or weights and prefixes); empty for the bundled corpus, made-up data
   * and conversations.
   */
  readonly dataPath: readonly string[];
  /** True if made-up data replace the data of --data-path. */
  readonly mockData?: true;
  readonly tokenizer?: TokenizerConfiguration;
  /** The conversations to learn from, if the run learns from conversations. */
  readonly conversations?: ConversationConfiguration;
}

/** The device, and the layout of processes. Without `threads`, `chooseThreads` chooses their number. */
export interface ParallelConfiguration
  extends StrategyConfiguration,
    Omit<FlagValues<typeof deviceFlags>, 'device'>,
    FlagValues<typeof communicationFlags> {
  /** The device; `meta` and `meta-cuda` are the devices of a dry run. */
  readonly device: 'cpu' | 'cuda' | 'meta' | 'meta-cuda';
  /** Number of processes of the run. */
  readonly worldSize: number;
}

export interface CheckpointConfiguration extends FlagValues<typeof checkpointFlags> {
  readonly loadOptimizer: boolean;
  readonly loadRng: boolean;
  /**
   * The source of the learning rate, its schedule and weight decay if they differ from the checkpoint: `same`
   * rejects the difference, `override` uses the flags, `checkpoint` the checkpoint's values.
   */
  readonly schedule: 'same' | 'override' | 'checkpoint';
}

export interface LoggingConfiguration extends FlagValues<typeof loggingFlags> {
  /** True if the model writes a short sample text at each evaluation. */
  readonly samplesAtEvaluations: boolean;
  /** The run at Weights & Biases. A run without a name is named after its folder. */
  readonly wandb?: { readonly project: string; readonly name?: string; readonly entity?: string };
  readonly mlflow?: { readonly trackingUri: string; readonly experiment: string; readonly name?: string };
  /** The steps that are traced, `first` to `last`. */
  readonly profile?: { readonly first: number; readonly last: number; readonly file: string };
}

/**
 * Everything a training run needs to know, resolved and checked, so that code that uses it need not check
 * again. It is deeply frozen, and plain data except for `sources`.
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
  /** The flags that the configuration was made from, and the source of each. */
  readonly flags: Flags;
  readonly sources: ReadonlyMap<FlagName, string>;
  readonly preset: string;
  /** Messages about requests that have no effect. */
  readonly notices: readonly string[];
}
