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
  /** Absent: as in the original, `tanh` in a GPT, `erf` in a BERT. */
  readonly geluKind?: GeluKind | undefined;
  /** A module that gives layers their blocks; absent: none does. */
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

/** The amount of training, in which portions and in which precision. */
export interface TrainingConfiguration {
  readonly microBatchSize: number;
  /** After ramp-up. */
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
   * Steps of the whole training run. With `trainSamples` or epochs it is computed: the steps that were taken,
   * plus the steps that fit into the remaining samples.
   */
  readonly trainIterations: number;
  /** Given only where training is counted in samples. */
  readonly trainSamples?: number;
  /** Steps whose samples are consumed without being trained on. */
  readonly iterationsToSkip?: readonly number[];
  readonly exitInterval?: number;
  /** Minutes since the program began after which a run ends. */
  readonly exitDurationMinutes?: number;
  readonly evalInterval: number;
  /** 0 when there is no evaluation. */
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
  /** Steps that a step is compared with. */
  readonly window: number;
  /** In standard deviations. */
  readonly factor: number;
  /** Spikes that are skipped or rolled back with less than a window of steps between two. */
  readonly limit: number;
  /** Absent: none. */
  readonly gradientNormSkipThreshold?: number;
  /** The steps that are computed again; absent: none. */
  readonly rerunMode?: 'validate_results' | 'report_stats';
}

/**
 * The tokenizer by which text became token ids; undefined for the tokenizer of the bundled corpus. The
 * options of @mtl/data's `createTokenizer`.
 */
export type TokenizerConfiguration = TokenizerOptions;

/** Conversations to fine-tune on. */
export interface ConversationConfiguration extends ConversationFiles {
  /** Evaluations in a row without a lower validation loss that end training; absent: none do. */
  readonly patience?: number;
}

/** The numbers of samples in an epoch of conversations, known only after the conversations are read. */
export interface ConversationSamples {
  readonly numTrain: number;
  /** 0 where nothing is evaluated. */
  readonly numValidation: number;
}

export interface DataConfiguration {
  /**
   * The words of --data-path (prefixes, or weights and prefixes); empty for the bundled corpus, made-up data
   * and conversations.
   */
  readonly dataPath: readonly string[];
  /** Made-up data instead. */
  readonly mockData?: true;
  readonly split: string;
  readonly dataCachePath?: string;
  readonly tokenizer?: TokenizerConfiguration;
  /** The conversations, where a run learns from them. */
  readonly conversations?: ConversationConfiguration;
  readonly eodMaskLoss: boolean;
  readonly resetPositionIds: boolean;
  readonly resetAttentionMask: boolean;
}

export interface ParallelConfiguration extends StrategyConfiguration {
  /** `meta` and `meta-cuda`: of a dry run. */
  readonly device: 'cpu' | 'cuda' | 'meta' | 'meta-cuda';
  /** True where matmuls of float32 may be in TF32. */
  readonly allowTf32: boolean;
  /** True where passes are recorded and launched as CUDA graphs. */
  readonly cudaGraphs: boolean;
  /** True where algorithms of matmuls are chosen by time before the first step. */
  readonly timesMatmuls: boolean;
  /** Absent: chosen before the first step, see `chooseThreads`. */
  readonly threads?: number;
  /** Processes of the run. */
  readonly worldSize: number;
  readonly distributedTimeoutMinutes: number;
}

export interface CheckpointConfiguration extends AdapterPlaces {
  readonly save?: string;
  readonly saveInterval?: number;
  /** Train on while a checkpoint is written. */
  readonly asyncSave: boolean;
  /** Absent: keep all. */
  readonly keepLast?: number;
  readonly load?: string;
  /** Absent: the newest complete one. */
  readonly checkpointStep?: number;
  readonly loadOptimizer: boolean;
  readonly loadRng: boolean;
  readonly finetune: boolean;
  /**
   * True where experts are copies of the feed-forward layers of a dense model that is loaded. Absent: false.
   */
  readonly upcycle?: boolean;
  /**
   * The choice where learning rate, its schedule or weight decay differ from the checkpoint: refuse it
   * (`same`), use the flags (`override`) or the checkpoint's.
   */
  readonly schedule: 'same' | 'override' | 'checkpoint';
  readonly loadHuggingFace?: string;
  readonly saveHuggingFace?: string;
}

export interface LoggingConfiguration {
  readonly logInterval: number;
  /** True where the configuration is printed, and console lines on a terminal too. */
  readonly isVerbose: boolean;
  /** True if steps are compared with the prediction of a plan. */
  readonly comparesWithPlan: boolean;
  /** True where the model writes a short sample at each evaluation. */
  readonly samplesAtEvaluations: boolean;
  readonly tensorboardDirectory?: string;
  readonly metricsJsonl?: string;
  /** The run at Weights & Biases; a run without a name is called as its folder is. */
  readonly wandb?: { readonly project: string; readonly name?: string; readonly entity?: string };
  readonly mlflow?: { readonly trackingUri: string; readonly experiment: string; readonly name?: string };
  /** A trace of steps `first` to `last`. */
  readonly profile?: { readonly first: number; readonly last: number; readonly file: string };
}

/**
 * Everything a training run needs to know, resolved and checked: its users need not check again. Frozen
 * all the way down, and plain data but for `sources`.
 */
export interface PretrainingConfiguration extends AdaptedConfiguration {
  readonly kind: ModelKind;
  readonly model: ModelConfiguration;
  /** Its settings, where the model is a BERT. */
  readonly bert?: BertConfiguration;
  readonly training: TrainingConfiguration;
  readonly optimizer: OptimizerConfiguration;
  readonly spikes: SpikeConfiguration;
  readonly data: DataConfiguration;
  readonly parallel: ParallelConfiguration;
  readonly checkpoint: CheckpointConfiguration;
  readonly logging: LoggingConfiguration;
  /** The flags it was made from, and where each came from. */
  readonly flags: Flags;
  readonly sources: ReadonlyMap<FlagName, string>;
  readonly preset: string;
  /** Messages about requests that have no effect. */
  readonly notices: readonly string[];
}
