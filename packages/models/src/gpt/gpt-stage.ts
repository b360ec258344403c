import type { Parameter, Tape, Variable } from '@mtl/autograd';
import type { StageLoss } from '@mtl/pipeline';
import { shardingOfCall } from '../blocks/layer-factory.js';
import type { Positions } from '../blocks/layer-sharding.js';
import type { MicroBatchContext } from '../blocks/micro-batch-context.js';
import { RowCoordinates } from '../blocks/row-coordinates.js';
import { asStageLoss, findLossFactor } from '../blocks/stage-losses.js';
import { numLearnedPositions } from '../blocks/transformer-configuration.js';
import { resolveBlocks } from '../stages/block-specification.js';
import type { StageCall, ToDevice } from '../stages/stage-call.js';
import { TransformerStage } from '../stages/transformer-stage.js';
import type { TransformerStageOptions } from '../stages/transformer-stage-options.js';
import { vocabularyLosses, vocabularyTable } from '../stages/vocabulary.js';
import { type GptModelConfiguration, gptBlocks } from './gpt-model.js';
import { type DeviceBatch, type StageBatch, toDevice } from './token-batch.js';

export type GptStageOptions = TransformerStageOptions<GptModelConfiguration>;

/**
 * A GPT as a pipeline stage: embeddings, transformer layers with norms before their sublayers, a final norm,
 * and a head. The head's weight is the token embedding's weight, as in GPT-2 (Radford et al. 2019), or a
 * separate weight, as in Llama (Touvron et al. 2023). Logits and loss are computed together in chunks, so
 * that memory never contains all logits at once.
 */
export class GptStage extends TransformerStage<StageBatch, DeviceBatch, GptModelConfiguration> {
  readonly parameters: readonly Parameter[];
  /**
   * The output head's weight, only on the last stage: the word embedding if the embedding is tied, otherwise
   * a separate weight.
   */
  readonly outputWeight: Parameter | undefined;
  /** The soft cap c: a logit x of the output head becomes `c * tanh(x / c)`. Undefined means no soft cap. */
  readonly outputSoftCap: number | undefined;
  /** True if the model has learned position embeddings. */
  readonly #hasPositionTable: boolean;

  /**
   * @throws ConfigurationError MTL_ATTENTION_HEADS; MTL_BLOCK_KIND; MTL_TENSOR_PARALLEL_SIZE if heads,
   *   feed-forward width or the padded vocabulary cannot be sharded evenly over the tensor-parallel
   *   processes; MTL_LORA_TARGETS if no layer of the blocks gets an adapter
   */
  constructor(options: GptStageOptions) {
    const { model, block = resolveBlocks(options.model, gptBlocks(options.model)) } = options;
    const numPositions = numLearnedPositions(model);
    super(options, {
      stack: 'decoder',
      causal: true,
      block,
      tables: numPositions > 0 ? { position_embeddings: numPositions } : {},
      isTied: model.tieEmbeddings,
      finalNormInput: 'sequence',
    });
    this.#hasPositionTable = numPositions > 0;
    this.outputSoftCap = model.finalLogitSoftcapping;
    const { factory } = this;
    const untied = this.isLast && !model.tieEmbeddings;
    this.outputWeight = untied
      ? vocabularyTable({ model, factory, name: 'output_layer.weight', isOnFirstAndLastRank: false })
      : this.wordEmbedding;
    const head = untied || !this.isFirst ? this.outputWeight : undefined;
    this.parameters = [...this.bodyParameters, ...(head === undefined ? [] : [head])];
    const isWhole = this.isFirst && this.isLast && this.blocks.length > 0;
    factory.freezeUntrained(this.parameters, { isWhole });
  }

  /**
   * Returns the hidden states [S, B, H] after this stage's layers (on the last stage, after the final layer
   * norm), for generation, where `attend` uses its own cache. The sequence is never sharded, so any number of
   * tokens is valid.
   *
   * @param input.tokens token ids, only on the first stage
   * @param input.hidden the hidden states of the previous stage, only on the other stages
   * @param input.positionIds int32 [S, B]: the positions of the tokens
   * @param input.numPositions an exclusive upper limit of all positions. Default: the model's number of
   *   positions
   */
  hiddenStates(
    tape: Tape,
    input: {
      readonly positionIds: Variable;
      readonly numPositions?: number | undefined;
    } & ({ readonly tokens: Variable } | { readonly hidden: Variable }),
    { attend }: Pick<MicroBatchContext, 'attend'>,
  ): Variable {
    const { positionIds, numPositions = this.model.maxPositionEmbeddings } = input;
    const tables = new Map(
      this.blocks
        .flatMap(({ reads }) => reads)
        .filter((coordinate) => typeof coordinate === 'object')
        .map((table) => [table.name, table] as const),
    );
    const { sharding } = this.factory;
    return tape.scope(() => {
      const tableRows = [...tables].map(
        ([name, table]) => [name, tape.input(this.positionTables.view(table, numPositions))] as const,
      );
      const start =
        'tokens' in input
          ? this.withinEmbedding(tape, () =>
              this.embedIds(tape, {
                tokens: input.tokens,
                ids: this.#hasPositionTable ? [positionIds] : [],
                positions: { start: 0, end: input.tokens.tensor.dim(0), sharding },
              }),
            )
          : input.hidden;
      const context: MicroBatchContext = {
        attend,
        ...shardingOfCall(sharding),
        hiddenDropout: () => undefined,
        regionDropout: () => undefined,
        rows: new RowCoordinates(
          new Map([['positions', positionIds], ['regionPositions', positionIds], ...tableRows]),
        ),
        losses: undefined,
      };
      const recomputation = { granularity: 'none' } as const;
      const hidden = this.applyBlocksWith(tape, start, { context, recomputation });
      return this.isLast ? this.withinHead(tape, () => this.normalized(tape, hidden)) : hidden;
    });
  }

  protected toDevice(
    { batch, lossFactors, reads, tables, upload }: ToDevice<StageBatch>,
    own: Positions,
  ): DeviceBatch {
    const { device, isFirst, isLast } = this;
    const lossFactor = isLast ? findLossFactor(lossFactors, 'lm_loss') : undefined;
    const embedsPositions = isFirst && this.#hasPositionTable;
    const needs = { lossFactor, isFirst, embedsPositions, partition: this.sequence, own, reads };
    return toDevice(batch, { ...needs, device, tables, upload });
  }

  protected embed(tape: Tape, call: StageCall<DeviceBatch>): Variable {
    const { batch, positions } = call;
    const ids = this.#hasPositionTable ? [batch.positionIds!] : [];
    const embedded = this.embedIds(tape, { tokens: batch.tokens!, ids, positions });
    return this.dropped(tape, embedded, { site: 'embedding.dropout', call });
  }

  protected computeLosses(
    tape: Tape,
    hidden: Variable,
    { batch, positions }: StageCall<DeviceBatch>,
  ): Variable {
    const operands = {
      input: this.normalized(tape, hidden),
      weight: this.outputWeight!,
      vocabularySize: this.model.vocabularySize,
      softCap: this.outputSoftCap,
      labels: batch.labels!,
      weights: batch.weights!,
    };
    return vocabularyLosses(tape, operands, positions.sharding);
  }

  protected namedLosses([losses]: readonly Variable[], batch: DeviceBatch): readonly StageLoss[] {
    return [asStageLoss({ name: 'lm_loss', losses: losses!, weights: batch.weights! })];
  }
}
