import { allocateParameters, initializeParameter, Parameter } from '@mtl/autograd';
import type { DType } from '@mtl/kernels';
import {
  type BertModelConfiguration,
  BertStage,
  type BertTask,
  BertTaskStage,
  type GptModelConfiguration,
  GptStage,
  type LayerNormPlacement,
  numLossTokens,
  type Recomputation,
  type SequencePartition,
  sequenceFirst,
  type TokenBatch,
} from '@mtl/models';
import type { TensorParallel } from '@mtl/tensor-parallel';
import { smallBert, smallMaskedBatch, smallTaskBatch } from './small-bert.js';

/**
 * Two layers, four heads, and a vocabulary of 90 padded to 96: of four ranks the last holds 18 tokens and 6
 * of padding.
 */
export const smallGpt: GptModelConfiguration = {
  numLayers: 2,
  hiddenSize: 32,
  ffnHiddenSize: 64,
  numAttentionHeads: 4,
  maxPositionEmbeddings: 16,
  vocabularySize: 90,
  makeVocabularySizeDivisibleBy: 8,
  tieEmbeddings: true,
  layerNormEpsilon: 1e-5,
  geluKind: 'tanh',
  hiddenDropout: 0.1,
  attentionDropout: 0.1,
  // large, so that every path carries a gradient that can be seen
  initMethodStd: 0.2,
};

export const batchSize = 2;
export const sequenceLength = 8;

/**
 * Returns one batch for every rank: tokens without a pattern, some without a loss, one sample of two
 * documents.
 */
export function smallBatch({ positions = true }: { positions?: boolean } = {}): TokenBatch {
  const size = batchSize * sequenceLength;
  const token = (index: number): number => (index * 37 + 5 * Math.floor(index / 3)) % smallGpt.vocabularySize;
  return sequenceFirst({
    batchSize,
    sequenceLength,
    tokens: Int32Array.from({ length: size }, (_, index) => token(index)),
    labels: Int32Array.from({ length: size }, (_, index) => token(index + 1)),
    lossMask: Float32Array.from({ length: size }, (_, index) => (index % 5 === 4 ? 0 : 1)),
    positionIds: Int32Array.from({ length: size }, (_, index) => (positions ? index % sequenceLength : 3)),
    sampleNumbers: Float64Array.of(41, 7),
    keyStart: Int32Array.from({ length: size }, (_, index) => (index >= 12 ? 4 : 0)),
  });
}

/** One step to be computed, by one process or by a rank. */
export interface StepOptions {
  readonly model?: Partial<GptModelConfiguration & BertModelConfiguration>;
  /** Builds a BERT instead of a GPT, with its layer norms at this position. */
  readonly bert?: LayerNormPlacement;
  /** Replaces the heads of pretraining with this head. */
  readonly task?: BertTask;
  readonly dtype?: DType;
  readonly recomputation?: Recomputation;
  /** True: the two halves of backward run one after the other. */
  readonly split?: boolean;
  /**
   * False: every token is at the same position, so that only dropout depends on where a rank is in the
   * sequence.
   */
  readonly positions?: boolean;
  /** The positions of each sequence that the rank owns, of a GPT. Default: all. */
  readonly sequence?: SequencePartition;
}

export interface ParameterGradient {
  readonly name: string;
  readonly globalShape: readonly number[];
  readonly slices: readonly { readonly start: number; readonly end: number }[];
  readonly isPartial: boolean;
  readonly isReplicated: boolean;
  readonly values: Float32Array;
}

export interface StepResult {
  /** The mean over the tokens that count. */
  readonly loss: number;
  readonly gradients: readonly ParameterGradient[];
}

type SmallStage = GptStage | BertStage | BertTaskStage;

export interface BuiltModel<S extends SmallStage = SmallStage> {
  readonly stage: S;
  /** Brings the batch to the stage: forward, or an evaluation. */
  run(how: 'forward' | 'evaluate', options?: StepOptions): void;
  dispose(): void;
}

export function buildModel(options: StepOptions, tensorParallel?: TensorParallel): BuiltModel {
  const { bert, task } = options;
  if (bert === undefined) return buildGpt(options, tensorParallel);
  return task === undefined
    ? buildBert(bert, options, tensorParallel)
    : buildTask({ ...options, bert, task }, tensorParallel);
}

export function buildGpt(options: StepOptions, tensorParallel?: TensorParallel): BuiltModel<GptStage> {
  const model = { ...smallGpt, ...options.model };
  const { sequence } = options;
  const stage = new GptStage({ ...stageOptions(options, tensorParallel), model, sequence });
  return withParameters(stage, options, (how, step) => {
    const batch = smallBatch(step);
    stage[how]({ microBatch: 0, batch, lossFactors: { lm_loss: 1 / numLossTokens(batch) } });
  });
}

function buildBert(
  layerNormPlacement: LayerNormPlacement,
  options: StepOptions,
  tensorParallel: TensorParallel | undefined,
): BuiltModel<BertStage> {
  const model = { ...smallBert, ...options.model, layerNormPlacement };
  const stage = new BertStage({ ...stageOptions(options, tensorParallel), model });
  const batch = smallMaskedBatch();
  const lossFactors = { lm_loss: 1 / batch.numMasked, sop_loss: 1 / batch.batchSize };
  return withParameters(stage, options, (how) => {
    stage[how]({ microBatch: 0, batch, lossFactors });
  });
}

function buildTask(
  options: StepOptions & { readonly bert: LayerNormPlacement; readonly task: BertTask },
  tensorParallel: TensorParallel | undefined,
): BuiltModel<BertTaskStage> {
  const { bert, task } = options;
  const model = { ...smallBert, layerNormPlacement: bert };
  const stage = new BertTaskStage({ ...stageOptions(options, tensorParallel), model, task });
  const batch = smallTaskBatch(task);
  return withParameters(stage, options, (how) => {
    stage[how]({ microBatch: 0, batch, lossFactors: { task_loss: 1 / batch.batchSize } });
  });
}

function stageOptions(
  { dtype = 'float32', recomputation }: StepOptions,
  tensorParallel: TensorParallel | undefined,
) {
  return {
    ...({ device: 'cpu', dtype, seed: 5, tensorParallel } as const),
    ...(recomputation === undefined ? {} : { recomputation }),
  };
}

function withParameters<S extends SmallStage>(
  stage: S,
  { dtype = 'float32' }: StepOptions,
  run: BuiltModel['run'],
): BuiltModel<S> {
  const storage = allocateParameters(stage.parameters, { device: 'cpu', dtype, mainGradients: true });
  for (const parameter of stage.parameters) {
    const { name, globalShape, slices, initialization: own } = parameter;
    // nothing stays zero or one: a bias that is added twice must show
    const initialization =
      own.kind === 'normal' ? own : ({ kind: 'normal', standardDeviation: 0.5 } as const);
    initializeParameter(new Parameter({ name, globalShape, slices, initialization }), parameter.data, 5);
  }
  const dispose = (): void => {
    stage.dispose();
    storage.dispose();
  };
  return { stage, run, dispose };
}

function takeMeanLoss(stage: SmallStage): number {
  return stage.takeLosses(0).reduce((total, { losses, weights, dispose }) => {
    const factors = weights.toArray();
    const mean = losses.toArray().reduce((sum, loss, index) => sum + loss * factors[index]!, 0);
    dispose();
    return total + mean;
  }, 0);
}

/** Returns loss and gradients of one training step. */
export function computeStep({ stage, run }: BuiltModel, options: StepOptions): StepResult {
  for (const parameter of stage.parameters) parameter.mainGradient.zero();
  run('forward', options);
  stage.backwardInput({ microBatch: 0, weights: options.split !== true });
  if (options.split === true) stage.backwardWeight({ microBatch: 0 });
  return {
    loss: takeMeanLoss(stage),
    gradients: stage.parameters.map((parameter) => ({
      name: parameter.name,
      globalShape: parameter.globalShape,
      slices: parameter.slices,
      isPartial: parameter.partialOver.includes('tp'),
      isReplicated: parameter.copiedOver.includes('tp'),
      values: parameter.mainGradient.read<'float32'>(),
    })),
  };
}

/** Returns the loss without dropout. */
export function evaluateStep({ stage, run }: BuiltModel): number {
  run('evaluate');
  return takeMeanLoss(stage);
}
