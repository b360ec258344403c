import type { ConversationFiles } from '@mtl/data/conversations';
import type { GeluKind } from '@mtl/kernels';
import type {
  BlockVariants,
  ExpertVariants,
  LayerNormPlacement,
  PositionVariants,
  Recomputation,
} from '@mtl/models';
import type {
  BatchPosition,
  BatchSizeRampup,
  LearningRateScheduleOptions,
  LossScalerOptions,
  MuonOptions,
} from '@mtl/optimizer';
import type { TokenizerOptions } from '@mtl/tokenizers';
import type { AdaptedConfiguration, AdapterPlaces } from './adapters/adapted-configuration.js';
import type { ModelKind } from './architecture/architecture-field.js';
import type { FlagName, Flags } from './schema/flag-schema.js';
import type { StrategyConfiguration } from './strategies/strategies.js';

/** The architecture: the common part of GPT and BERT, and variants that some models have. */
export interface ModelConfiguration extends BlockVariants, PositionVariants, ExpertVariants {
  readonly numLayers: number;
  readonly hiddenSize: number;
  readonly ffnHiddenSize: number;
  readonly numAttentionHeads: number;
  readonly headSize: number;
  readonly sequenceLength: number;
  readonly maxPositionEmbeddings: number;
  readonly attentionDropout: number;
  readonly hiddenDropout: number;
  readonly layerNormEpsilon: number;
  /** The kind of GELU. Absent: as in the original model, `tanh` in a GPT, `erf` in a BERT. */
  readonly geluKind?: GeluKind | undefined;
  /** The path of a module that gives layers their blocks; absent if there is no such module. */
  readonly modelBlocks?: string | undefined;
  readonly initMethodStd: number;
  readonly untieEmbeddingsAndOutputWeights: boolean;
  readonly makeVocabSizeDivisibleBy: number;
  /** The vocabulary size of a loaded model; absent: the tokenizer's size. */
  readonly vocabularySize?: number;
}

/** The settings that only a BERT has. */
export interface BertConfiguration {
  readonly layerNormPlacement: LayerNormPlacement;
  readonly sentenceOrderHead: boolean;
  readonly maskProbability: number;
  readonly shortSequenceProbability: number;
}

/** The length of training, its batches and its precision. */
export interface TrainingConfiguration {
  readonly microBatchSize: number;
  /** Samples of a step, after ramp-up. */
  readonly globalBatchSize: number;
  /** Micro-batches that each data-parallel rank accumulates per step, after ramp-up. */
  readonly numMicroBatches: number;
  readonly rampup?: BatchSizeRampup;
  /**
   * The position in the data where the run continues, from the checkpoint that it resumes. Absent: at the
   * start.
   */
  readonly start?: BatchPosition;
  /**
   * Steps of the whole training run. With `trainSamples` or epochs it is the number of steps already taken,
   * plus the steps that fit into the remaining samples.
   */
  readonly trainIterations: number;
  /** Samples of the whole training run; present only if training is counted in samples. */
  readonly trainSamples?: number;
  /** Steps whose samples are consumed without being trained on. */
  readonly iterationsToSkip?: readonly number[];
  readonly exitInterval?: number;
  /** Minutes after the start of the program at which a run ends. */
  readonly exitDurationMinutes?: number;
  readonly evalInterval: number;
  /** Global batches of an evaluation; 0 if there is no evaluation. */
  readonly evalIterations: number;
  readonly seed: number;
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

export interface OptimizerConfiguration {
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
  readonly weightDecay: number;
  readonly adamBeta1: number;
  readonly adamBeta2: number;
  readonly adamEpsilon: number;
  /** Muon for the matrices of hidden layers; undefined: AdamW for all parameters. */
  readonly muon?: MuonConfiguration;
  /** Largest gradient norm; 0 does not clip. */
  readonly clipGrad: number;
  readonly lossScale: LossScalerOptions;
}

/** The reaction to steps whose loss or gradient norm is far above the values of recent steps. */
export interface SpikeConfiguration {
  readonly policy: 'ignore' | 'report' | 'skip' | 'roll-back';
  /** Number of recent steps that a step is compared with. */
  readonly window: number;
  /** Distance from the recent steps above which a step is a spike, in standard deviations. */
  readonly factor: number;
  /**
   * Number of spikes that may be skipped or rolled back with less than a window of steps between two; one
   * more ends the run.
   */
  readonly limit: number;
  /** Gradient norm (before clipping) above which the update of a step is skipped. Absent: no threshold. */
  readonly gradientNormSkipThreshold?: number;
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

export interface DataConfiguration {
  /**
   * The words of --data-path (prefixes, or weights and prefixes); empty for the bundled corpus, made-up data
   * and conversations.
   */
  readonly dataPath: readonly string[];
  /** True if made-up data replace the data of --data-path. */
  readonly mockData?: true;
  readonly split: string;
  readonly dataCachePath?: string;
  readonly tokenizer?: TokenizerConfiguration;
  /** The conversations to learn from, if the run learns from conversations. */
  readonly conversations?: ConversationConfiguration;
  readonly eodMaskLoss: boolean;
  readonly resetPositionIds: boolean;
  readonly resetAttentionMask: boolean;
}

export interface ParallelConfiguration extends StrategyConfiguration {
  /** The device; `meta` and `meta-cuda` are the devices of a dry run. */
  readonly device: 'cpu' | 'cuda' | 'meta' | 'meta-cuda';
  /** True if float32 matmuls may use TF32. */
  readonly allowTf32: boolean;
  /** True if passes are recorded and launched as CUDA graphs. */
  readonly cudaGraphs: boolean;
  /** True if the algorithms of matmuls are chosen by measured time before the first step. */
  readonly timesMatmuls: boolean;
  /** CPU threads of each process. Absent: chosen before the first step, see `chooseThreads`. */
  readonly threads?: number;
  /** Number of processes of the run. */
  readonly worldSize: number;
  readonly distributedTimeoutMinutes: number;
}

export interface CheckpointConfiguration extends AdapterPlaces {
  readonly save?: string;
  readonly saveInterval?: number;
  /** True if training continues while a checkpoint is written. */
  readonly asyncSave: boolean;
  /** Number of checkpoints to keep. Absent: all are kept. */
  readonly keepLast?: number;
  readonly load?: string;
  /** Step of the checkpoint to load. Absent: the newest complete checkpoint. */
  readonly checkpointStep?: number;
  readonly loadOptimizer: boolean;
  readonly loadRng: boolean;
  readonly finetune: boolean;
  /**
   * True if the experts are initialized as copies of the feed-forward layers of a dense model that is loaded.
   * Absent: false.
   */
  readonly upcycle?: boolean;
  /**
   * The source of the learning rate, its schedule and weight decay if they differ from the checkpoint: `same`
   * rejects the difference, `override` uses the flags, `checkpoint` the checkpoint's values.
   */
  readonly schedule: 'same' | 'override' | 'checkpoint';
  readonly loadHuggingFace?: string;
  readonly saveHuggingFace?: string;
}

export interface LoggingConfiguration {
  readonly logInterval: number;
  /** True if the configuration is printed, and on a terminal also the console lines. */
  readonly isVerbose: boolean;
  /** True if steps are compared with the prediction of a plan. */
  readonly comparesWithPlan: boolean;
  /** True if the model writes a short sample text at each evaluation. */
  readonly samplesAtEvaluations: boolean;
  readonly tensorboardDirectory?: string;
  readonly metricsJsonl?: string;
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
