import type { Tape, Variable } from '@mtl/autograd';
import { gatheredRows } from '../blocks/layer-factory.js';
import type { Positions } from '../blocks/layer-sharding.js';
import type { RowCoordinate } from '../blocks/row-coordinates.js';
import { numOwners } from '../blocks/sequence-partition.js';
import { numLearnedPositions } from '../blocks/transformer-configuration.js';
import { resolveBlocks } from '../stages/block-specification.js';
import type { BatchSize, StageCall, ToDevice } from '../stages/stage-call.js';
import { TransformerStage } from '../stages/transformer-stage.js';
import type { TransformerStageOptions } from '../stages/transformer-stage-options.js';
import { type BertModelConfiguration, bertBlock } from './bert-model.js';
import type { DeviceSequences, DeviceSequencesOptions } from './device-sequences.js';
import { numPackedRows, type PaddedSize, SamplePacking } from './sample-packing.js';

export type BertStageOptions = TransformerStageOptions<BertModelConfiguration>;

/**
 * The part that all BERT models have in common: the encoder without heads. It consists of the embeddings for
 * tokens, positions and token types, layers whose attention sees all real tokens, and the norm after the last
 * layer. Padding is removed before the first layer, so activations are [T, 1, H]. T is the number of tokens
 * in the micro-batch, rounded up (see `numPackedRows`).
 */
export abstract class BertEncoderStage<
  Batch extends BatchSize,
  OnDevice extends DeviceSequences,
> extends TransformerStage<Batch, OnDevice, BertModelConfiguration> {
  /** True if the model has learned position embeddings. */
  readonly #hasPositionTable: boolean;

  /**
   * @param heads.isTied true if the last stage also computes with the word embedding
   * @throws ConfigurationError MTL_ATTENTION_HEADS; MTL_BLOCK_KIND; MTL_TENSOR_PARALLEL_SIZE if the heads,
   *   the feed-forward width or the padded vocabulary cannot be sharded evenly over the tensor-parallel
   *   processes
   */
  constructor(options: BertStageOptions, { isTied }: { readonly isTied: boolean }) {
    const { model, block = resolveBlocks(options.model, bertBlock(options.model)) } = options;
    const numPositions = numLearnedPositions(model);
    super(options, {
      stack: 'encoder',
      causal: false,
      block,
      tables: {
        ...(numPositions > 0 && { position_embeddings: numPositions }),
        tokentype_embeddings: model.tokenTypeVocabularySize,
      },
      isTied,
      finalNormInput: 'rows',
    });
    this.#hasPositionTable = numPositions > 0;
  }

  protected embed(tape: Tape, call: StageCall<OnDevice>): Variable {
    const { batch, positions } = call;
    const ids = [...(this.#hasPositionTable ? [batch.rows.of('positions')] : []), batch.tokenTypes!];
    const embedded = this.embedIds(tape, { tokens: batch.tokens!, ids, positions });
    return this.dropped(tape, embedded, { site: 'embedding.dropout', call });
  }

  /** Returns the padded size of `batch` and the length of each row. */
  protected abstract measureSize(batch: Batch): PaddedSize;

  protected override activationRows(batch: Batch): readonly [rows: number, columns: number] {
    return [numPackedRows(this.measureSize(batch), this.#rowDivisor) / numOwners(this.sequence), 1];
  }

  /**
   * Adds `positions` to the row coordinates that are read, if this is the first stage and the model has
   * learned position embeddings.
   */
  protected override rowReads(call: { readonly training: boolean }): ReadonlySet<RowCoordinate> {
    const reads = super.rowReads(call);
    return this.isFirst && this.#hasPositionTable ? new Set([...reads, 'positions']) : reads;
  }

  /** Returns the options with which `sequencesToDevice` packs a micro-batch on this rank. */
  protected sequencesOptions(
    { batch, reads, upload }: Pick<ToDevice<Batch>, 'batch' | 'reads' | 'upload'>,
    own: Positions,
  ): DeviceSequencesOptions {
    const packing = new SamplePacking(this.measureSize(batch), this.#rowDivisor);
    const { device, isFirst, positionTables: tables, sequence: partition } = this;
    return { device, packing, partition, own, isFirst, reads, tables, upload };
  }

  /**
   * Gathers the hidden states that a head reads and normalizes them. The result [rows, 1, H] is replicated on
   * all tensor-parallel ranks.
   */
  protected rows(tape: Tape, hidden: Variable, indices: Variable, call: StageCall<OnDevice>): Variable {
    const rows = gatheredRows(tape, { input: hidden, indices }, call.positions.sharding);
    return this.normalized(tape, rows);
  }

  /** How many ranks share the rows of a micro-batch. The number of packed rows is a multiple of it. */
  get #rowDivisor(): number {
    return this.factory.numSequenceShards * numOwners(this.sequence);
  }
}
