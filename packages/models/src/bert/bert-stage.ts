import { layerNorm, type Parameter, Tape, type Variable } from '@mtl/autograd';
import { UsageError } from '@mtl/errors';
import { cast, Tensor } from '@mtl/kernels';
import type { StageForward, StageLoss } from '@mtl/pipeline';
import { gatherRows, vocabularyParallelEmbedding } from '@mtl/tensor-parallel';
import {
  normParameters,
  vocabularyTable,
  wholeParameter,
  wordEmbeddingName,
} from '../blocks/stage-parameters.js';
import {
  type Positions,
  type StageCall,
  TransformerStage,
  type TransformerStageOptions,
} from '../blocks/transformer-stage.js';
import { vocabularyLogits } from '../blocks/vocabulary-logits.js';
import { MaskedLanguageHead, SentenceOrderHead } from './bert-heads.js';
import type { BertModelConfiguration } from './bert-model-configuration.js';
import { type DeviceMaskedBatch, type MaskedTokenBatch, maskedBatchToDevice } from './masked-token-batch.js';
import { numPackedRows, SamplePacking } from './sample-packing.js';

export type BertStageOptions = TransformerStageOptions<BertModelConfiguration>;

/** What a BERT says of a batch, on the host. */
export interface BertPrediction {
  /** float32 [M, vocabularySize]: logits of what stands at each masked position. */
  readonly maskedLogits: Float32Array;
  /** float32 [B, 2]; undefined for a model without that head. */
  readonly sentenceOrderLogits: Float32Array | undefined;
}

/**
 * BERT as a pipeline stage (Devlin et al. 2018; Shoeybi et al. 2019, section 5.4): embeddings of tokens, positions and
 * token types, layers that see all real tokens, a masked-language head and a sentence-order head. Only the hidden states
 * of masked tokens and of each row's first token go on to the heads. Padding is left out before the first layer: activations
 * are [T, 1, H], T being the tokens of the micro-batch, rounded up a little.
 */
export class BertStage extends TransformerStage<MaskedTokenBatch, DeviceMaskedBatch, BertModelConfiguration> {
  readonly parameters: readonly Parameter[];
  readonly wordEmbedding: Parameter | undefined;
  readonly positionEmbedding: Parameter | undefined;
  readonly tokenTypeEmbedding: Parameter | undefined;
  /** With layer norm after sublayers only. */
  readonly embeddingNorm: { readonly weight: Parameter; readonly bias: Parameter } | undefined;
  /** With layer norm before sublayers only; of the rows that the heads read. */
  readonly finalNorm: { readonly weight: Parameter; readonly bias: Parameter } | undefined;
  readonly maskedHead: MaskedLanguageHead | undefined;
  readonly sentenceOrderHead: SentenceOrderHead | undefined;

  /**
   * @throws ConfigurationError MTL_ATTENTION_HEADS; MTL_TENSOR_PARALLEL_SIZE when heads, feed-forward width or the padded
   *   vocabulary cannot be cut evenly over the tensor-parallel processes
   */
  constructor(options: BertStageOptions) {
    const { model, tensorParallel } = options;
    super(options, { stack: 'encoder', layerNormPlacement: model.layerNormPlacement });
    const { hiddenSize, initMethodStd: standardDeviation } = model;
    const { isFirst, isLast } = this;
    const isPost = model.layerNormPlacement === 'post';
    const table = (name: string, rows: number): Parameter =>
      wholeParameter(`embedding.${name}.weight`, {
        globalShape: [rows, hiddenSize],
        initialization: { kind: 'normal', standardDeviation },
        tensorParallel,
      });
    const isOnBothEnds = !(isFirst && isLast);
    // the decoder of the last stage is tied to it
    this.wordEmbedding =
      isFirst || isLast
        ? (options.wordEmbedding ??
          vocabularyTable({ model, tensorParallel, name: wordEmbeddingName, isOnBothEnds }))
        : undefined;
    this.positionEmbedding = isFirst ? table('position_embeddings', model.maxPositionEmbeddings) : undefined;
    this.tokenTypeEmbedding = isFirst
      ? table('tokentype_embeddings', model.tokenTypeVocabularySize)
      : undefined;
    this.embeddingNorm =
      isFirst && isPost ? normParameters('embedding.layernorm', { hiddenSize, tensorParallel }) : undefined;
    this.finalNorm =
      isLast && !isPost
        ? normParameters('encoder.final_layernorm', {
            hiddenSize,
            // of gathered rows, which are whole on every process
            tensorParallel: tensorParallel && { ...tensorParallel, sequenceParallel: false },
          })
        : undefined;
    this.maskedHead = isLast ? new MaskedLanguageHead({ model, tensorParallel }) : undefined;
    this.sentenceOrderHead =
      isLast && model.sentenceOrderHead ? new SentenceOrderHead({ model, tensorParallel }) : undefined;
    this.parameters = [
      ...[isFirst ? this.wordEmbedding : undefined, this.positionEmbedding, this.tokenTypeEmbedding],
      ...[this.embeddingNorm?.weight, this.embeddingNorm?.bias],
      ...this.blocks.flatMap((block) => block.parameters),
      ...[this.finalNorm?.weight, this.finalNorm?.bias],
      ...(this.maskedHead?.parameters ?? []),
      ...(isFirst ? [] : [this.wordEmbedding]),
      ...(this.sentenceOrderHead?.parameters ?? []),
    ].filter((parameter) => parameter !== undefined);
  }

  /**
   * What a whole model says of a batch, without dropout; labels and weights of the batch do not matter.
   *
   * @throws UsageError MTL_STAGE for a stage that holds a part of the layers
   */
  predict(batch: MaskedTokenBatch): BertPrediction {
    if (!this.isFirst || !this.isLast) {
      throw new UsageError('MTL_STAGE', 'predictions need a stage that holds all layers');
    }
    const tape = new Tape({ recording: false });
    const { vocabularySize, hiddenSize } = this.model;
    const positions = this.positions(this.activationRows(batch)[0], false);
    const onDevice = this.#onDevice(
      { ...batch, sentenceOrderLabels: undefined },
      { positions, lossFactor: 1 },
    );
    const call = { batch: onDevice, positions, training: false };
    const outputs = tape.scope(() => {
      const hidden = this.applyBlocks(tape, this.embed(tape, call), call);
      const masked = this.maskedHead!.transform(
        tape,
        this.#rows(tape, hidden, onDevice.maskedPositions, call),
      );
      const first = this.#rows(tape, hidden, onDevice.firstPositions, call);
      return [masked, this.sentenceOrderHead?.logits(tape, first) ?? first];
    });
    const [masked, order] = outputs as [Variable, Variable];
    using input = masked.tensor.reshape([masked.tensor.size / hiddenSize, hiddenSize]);
    const { tensorParallel } = this;
    const prediction = {
      maskedLogits: vocabularyLogits({
        ...{ input, weight: this.wordEmbedding!, bias: this.maskedHead!.outputBias },
        ...{ vocabularySize, tensorParallel },
      }),
      sentenceOrderLogits:
        this.sentenceOrderHead === undefined ? undefined : Float32Array.from(order.tensor.toArray()),
    };
    for (const variable of outputs) variable.release();
    onDevice.release();
    return prediction;
  }

  protected toDevice(
    call: Pick<StageForward<MaskedTokenBatch>, 'batch' | 'lossFactor' | 'sampleLossFactor'>,
    positions: Positions,
  ): DeviceMaskedBatch {
    const { batch, lossFactor, sampleLossFactor } = call;
    const factors = { positions, lossFactor, sampleLossFactor };
    if (!this.model.sentenceOrderHead) {
      return this.#onDevice({ ...batch, sentenceOrderLabels: undefined }, factors);
    }
    if (batch.sentenceOrderLabels === undefined) {
      throw new UsageError('MTL_STAGE', 'the batch has no sentenceOrderLabels, the model has their head', {
        remedy: 'build the model without sentenceOrderHead, or take batches of pairs',
      });
    }
    return this.#onDevice(batch, factors);
  }

  protected embed(tape: Tape, call: StageCall<DeviceMaskedBatch>): Variable {
    const { batch, positions } = call;
    const embedded = vocabularyParallelEmbedding(tape, {
      tokens: { ids: batch.tokens, table: this.wordEmbedding! },
      others: [
        { ids: batch.packed.positions, table: this.positionEmbedding! },
        { ids: batch.tokenTypes, table: this.tokenTypeEmbedding! },
      ],
      tensorParallel: this.spread(positions),
    });
    const normalized = this.#normalized(tape, embedded, this.embeddingNorm);
    return this.dropped(tape, normalized, { site: 'embedding.dropout', call });
  }

  protected override activationRows(batch: MaskedTokenBatch): readonly [rows: number, columns: number] {
    return [numPackedRows(batch, this.#rowDivisor), 1];
  }

  protected losses(tape: Tape, hidden: Variable, call: StageCall<DeviceMaskedBatch>): readonly Variable[] {
    const { batch } = call;
    const masked = this.maskedHead!.losses(tape, {
      hidden: this.#rows(tape, hidden, batch.maskedPositions, call),
      ...{ wordEmbedding: this.wordEmbedding!, labels: batch.maskedLabels, weights: batch.maskedWeights },
    });
    if (this.sentenceOrderHead === undefined) return [masked];
    const order = this.sentenceOrderHead.losses(tape, {
      hidden: this.#rows(tape, hidden, batch.firstPositions, call),
      ...{ labels: batch.sentenceOrderLabels!, weights: batch.sentenceOrderWeights! },
    });
    return [masked, order];
  }

  /** The losses of masked tokens and then those of samples, in one tensor. */
  protected stageLoss(outputs: readonly Variable[], batch: DeviceMaskedBatch): StageLoss {
    const { dtype, device } = outputs[0]!.tensor;
    const losses = Tensor.empty({ shape: batch.weights.shape, dtype, device });
    let start = 0;
    const parts = outputs.map(({ tensor }, index) => {
      const part = { name: index === 0 ? 'mlm_loss' : 'sop_loss', start, end: start + tensor.size };
      using output = losses.rows(part.start, part.end);
      cast({ output, input: tensor });
      start = part.end;
      return part;
    });
    const weights = batch.weights.view({ shape: batch.weights.shape });
    return {
      ...{ losses, weights, parts },
      dispose: () => {
        losses.dispose();
        weights.dispose();
      },
    };
  }

  /** Processes that rows are cut over, in the calls that cut them. */
  get #rowDivisor(): number {
    return this.tensorParallel?.sequenceParallel === true ? this.tensorParallel.group.size : 1;
  }

  #onDevice(
    batch: MaskedTokenBatch,
    call: { positions: Positions; lossFactor: number; sampleLossFactor?: number | undefined },
  ): DeviceMaskedBatch {
    const { positions: rows, ...factors } = call;
    const packing = new SamplePacking(batch, this.#rowDivisor);
    return maskedBatchToDevice(batch, { device: this.device, packing, rows, ...factors });
  }

  /** Hidden states [rows, 1, H] that a head reads, normalized and whole on every process. */
  #rows(tape: Tape, hidden: Variable, indices: Variable, call: StageCall<DeviceMaskedBatch>): Variable {
    const tensorParallel = this.spread(call.positions);
    const rows = gatherRows(tape, { input: hidden, indices, tensorParallel });
    return this.#normalized(tape, rows, this.finalNorm);
  }

  #normalized(tape: Tape, input: Variable, norm: BertStage['finalNorm']): Variable {
    if (norm === undefined) return input;
    return layerNorm(tape, { input, ...norm, epsilon: this.model.layerNormEpsilon });
  }
}
