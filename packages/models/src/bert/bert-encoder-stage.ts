import { layerNorm, type Parameter, type Tape, type Variable } from '@mtl/autograd';
import type { Upload } from '@mtl/pipeline';
import { gatherRows, vocabularyParallelEmbedding } from '@mtl/tensor-parallel';
import {
  normParameters,
  replicatedParameter,
  vocabularyTable,
  wordEmbeddingName,
} from '../blocks/stage-parameters.js';
import {
  type BatchSize,
  type Positions,
  type StageCall,
  TransformerStage,
  type TransformerStageOptions,
} from '../blocks/transformer-stage.js';
import type { BertModelConfiguration } from './bert-model-configuration.js';
import type { DeviceSequences, DeviceSequencesOptions } from './device-sequences.js';
import { withoutSequenceParallel } from './head-linear.js';
import { numPackedRows, type PaddedSize, SamplePacking } from './sample-packing.js';

export type BertStageOptions = TransformerStageOptions<BertModelConfiguration>;

/**
 * What all BERTs share, whatever their heads: embeddings of tokens, positions and token types, layers that
 * see all real tokens, and the norm after the last one. Padding is left out before the first layer:
 * activations are [T, 1, H], T being the tokens of the micro-batch, rounded up a little.
 */
export abstract class BertEncoderStage<
  Batch extends BatchSize,
  OnDevice extends DeviceSequences,
> extends TransformerStage<Batch, OnDevice, BertModelConfiguration> {
  /** On the first stage, and on the last one where the output is tied to it. */
  readonly wordEmbedding: Parameter | undefined;
  readonly positionEmbedding: Parameter | undefined;
  readonly tokenTypeEmbedding: Parameter | undefined;
  /** With layer norm after sublayers only. */
  readonly embeddingNorm: { readonly weight: Parameter; readonly bias: Parameter } | undefined;
  /** With layer norm before sublayers only; of the rows that the heads read. */
  readonly finalNorm: { readonly weight: Parameter; readonly bias: Parameter } | undefined;
  /** Those of the embeddings, the layers and the final norm, in the order in which forward uses them. */
  protected readonly encoderParameters: readonly Parameter[];

  /**
   * @param heads.isTied whether the last stage computes with the word embedding too
   * @throws ConfigurationError MTL_ATTENTION_HEADS; MTL_TENSOR_PARALLEL_SIZE when heads, feed-forward width
   *   or the padded vocabulary cannot be sharded evenly over the tensor-parallel processes
   */
  constructor(options: BertStageOptions, { isTied }: { readonly isTied: boolean }) {
    const { model, tensorParallel } = options;
    super(options, { stack: 'encoder', layerNormPlacement: model.layerNormPlacement });
    const { hiddenSize, initMethodStd: standardDeviation } = model;
    const { isFirst, isLast } = this;
    const isPost = model.layerNormPlacement === 'post';
    const table = (name: string, rows: number): Parameter =>
      replicatedParameter(`embedding.${name}.weight`, {
        globalShape: [rows, hiddenSize],
        initialization: { kind: 'normal', standardDeviation },
        tensorParallel,
      });
    const isOnFirstAndLastRank = isTied && !(isFirst && isLast);
    this.wordEmbedding =
      isFirst || (isTied && isLast)
        ? (options.wordEmbedding ??
          vocabularyTable({ model, tensorParallel, name: wordEmbeddingName, isOnFirstAndLastRank }))
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
            // of gathered rows, which are replicated
            tensorParallel: withoutSequenceParallel(tensorParallel),
          })
        : undefined;
    this.encoderParameters = [
      ...[isFirst ? this.wordEmbedding : undefined, this.positionEmbedding, this.tokenTypeEmbedding],
      ...[this.embeddingNorm?.weight, this.embeddingNorm?.bias],
      ...this.blocks.flatMap((block) => block.parameters),
      ...[this.finalNorm?.weight, this.finalNorm?.bias],
    ].filter((parameter) => parameter !== undefined);
  }

  protected embed(tape: Tape, call: StageCall<OnDevice>): Variable {
    const { batch, positions } = call;
    const embedded = vocabularyParallelEmbedding(tape, {
      tokens: {
        ids: batch.tokens!,
        table: this.wordEmbedding!,
        vocabularySize: this.model.vocabularySize,
      },
      others: [
        { ids: batch.packed.positions, table: this.positionEmbedding! },
        { ids: batch.tokenTypes!, table: this.tokenTypeEmbedding! },
      ],
      tensorParallel: this.tensorParallelOf(positions),
    });
    const normalized = this.#normalized(tape, embedded, this.embeddingNorm);
    return this.dropped(tape, normalized, { site: 'embedding.dropout', call });
  }

  /** The rows of a micro-batch with their lengths. */
  protected abstract sizeOf(batch: Batch): PaddedSize;

  protected override activationRows(batch: Batch): readonly [rows: number, columns: number] {
    return [numPackedRows(this.sizeOf(batch), this.#rowDivisor), 1];
  }

  /** How a micro-batch is packed here. */
  protected sequencesOptions(batch: Batch, own: Positions, upload?: Upload): DeviceSequencesOptions {
    const packing = new SamplePacking(this.sizeOf(batch), this.#rowDivisor);
    return { device: this.device, packing, own, isFirst: this.isFirst, upload };
  }

  /** Hidden states [rows, 1, H] that a head reads, normalized and replicated. */
  protected rows(tape: Tape, hidden: Variable, indices: Variable, call: StageCall<OnDevice>): Variable {
    const tensorParallel = this.tensorParallelOf(call.positions);
    const rows = gatherRows(tape, { input: hidden, indices, tensorParallel });
    return this.#normalized(tape, rows, this.finalNorm);
  }

  /** The ranks that rows are sharded over, in calls that shard them. */
  get #rowDivisor(): number {
    return this.tensorParallel?.sequenceParallel === true ? this.tensorParallel.group.size : 1;
  }

  #normalized(tape: Tape, input: Variable, norm: BertEncoderStage<Batch, OnDevice>['finalNorm']): Variable {
    if (norm === undefined) return input;
    return layerNorm(tape, { input, ...norm, epsilon: this.model.layerNormEpsilon });
  }
}
