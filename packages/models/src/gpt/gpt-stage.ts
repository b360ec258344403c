import { layerNorm, type Parameter, type Tape, type Variable } from '@mtl/autograd';
import type { StageLoss } from '@mtl/pipeline';
import { vocabularyParallelCrossEntropy, vocabularyParallelEmbedding } from '@mtl/tensor-parallel';
import { applyLayers } from '../blocks/recomputation.js';
import {
  normParameters,
  replicatedParameter,
  vocabularyTable,
  wordEmbeddingName,
} from '../blocks/stage-parameters.js';
import type { TransformerBlockContext } from '../blocks/transformer-block.js';
import {
  type AttentionMask,
  type Positions,
  type StageCall,
  type ToDevice,
  TransformerStage,
  type TransformerStageOptions,
} from '../blocks/transformer-stage.js';
import type { GptModelConfiguration } from './gpt-model-configuration.js';
import { type DeviceBatch, type StageBatch, toDevice } from './token-batch.js';

export type GptStageOptions = TransformerStageOptions<GptModelConfiguration>;

/**
 * GPT-2 as a pipeline stage: embeddings, pre-layer-norm transformer layers, final layer norm, and a head tied
 * to the token embedding (Radford et al. 2019), computed together with the loss so that all logits never
 * exist at once.
 */
export class GptStage extends TransformerStage<StageBatch, DeviceBatch, GptModelConfiguration> {
  readonly parameters: readonly Parameter[];
  readonly wordEmbedding: Parameter | undefined;
  readonly positionEmbedding: Parameter | undefined;
  readonly finalNorm: { readonly weight: Parameter; readonly bias: Parameter } | undefined;
  readonly outputWeight: Parameter | undefined;

  /**
   * @throws ConfigurationError MTL_ATTENTION_HEADS; MTL_TENSOR_PARALLEL_SIZE when heads, feed-forward width
   *   or the padded vocabulary cannot be sharded evenly over the tensor-parallel processes
   */
  constructor(options: GptStageOptions) {
    super(options, { stack: 'decoder', layerNormPlacement: 'pre' });
    const { model, tensorParallel } = options;
    const { hiddenSize, initMethodStd: standardDeviation } = model;
    const newTable = (name: string, isOnFirstAndLastRank: boolean): Parameter =>
      vocabularyTable({ model, tensorParallel, name, isOnFirstAndLastRank });
    const isAlone = this.isFirst && this.isLast;
    const needsWords = this.isFirst || (this.isLast && model.tieEmbeddings);
    this.wordEmbedding = needsWords
      ? (options.wordEmbedding ?? newTable(wordEmbeddingName, model.tieEmbeddings && !isAlone))
      : undefined;
    this.positionEmbedding = this.isFirst
      ? replicatedParameter('embedding.position_embeddings.weight', {
          globalShape: [model.maxPositionEmbeddings, hiddenSize],
          initialization: { kind: 'normal', standardDeviation },
          tensorParallel,
        })
      : undefined;
    this.finalNorm = this.isLast
      ? normParameters('decoder.final_layernorm', { hiddenSize, tensorParallel })
      : undefined;
    const untied = this.isLast && !model.tieEmbeddings;
    this.outputWeight = untied ? newTable('output_layer.weight', false) : this.wordEmbedding;
    this.parameters = [
      ...[this.isFirst ? this.wordEmbedding : undefined, this.positionEmbedding],
      ...this.blocks.flatMap((block) => block.parameters),
      ...[this.finalNorm?.weight, this.finalNorm?.bias],
      ...[untied || !this.isFirst ? this.outputWeight : undefined],
    ].filter((parameter) => parameter !== undefined);
  }

  /**
   * The hidden states [S, B, H] after the layers of this stage, on the last one after the final layer norm,
   * for generation: `attend` uses a cache of its own. The sequence is never sharded, so that any number of
   * tokens is valid.
   *
   * @param input ids on the first stage, the hidden states of the stage before on the others
   */
  hiddenStates(
    tape: Tape,
    input: { readonly tokens: Variable; readonly positionIds: Variable } | Variable,
    context: TransformerBlockContext,
  ): Variable {
    return tape.scope(() => {
      const start =
        'tokens' in input
          ? this.#embed(tape, input, this.positions(input.tokens.tensor.dim(0), false))
          : input;
      const whole = { ...context, sequenceParallel: false };
      const layers = this.blocks.map(
        (block) => (inner: Tape, hidden: Variable) => block.forward(inner, hidden, whole),
      );
      const hidden = applyLayers(tape, start, layers, { granularity: 'none' });
      return this.isLast ? this.#normalize(tape, hidden) : hidden;
    });
  }

  protected toDevice({ batch, lossFactor, upload }: ToDevice<StageBatch>): DeviceBatch {
    const { device, isFirst, isLast } = this;
    return toDevice(batch, { device, lossFactor, isFirst, isLast, upload });
  }

  protected embed(tape: Tape, call: StageCall<DeviceBatch>): Variable {
    const { tokens, positionIds } = call.batch;
    const embedded = this.#embed(tape, { tokens: tokens!, positionIds: positionIds! }, call.positions);
    return this.dropped(tape, embedded, { site: 'embedding.dropout', call });
  }

  protected override attentionMask({ keyStart }: DeviceBatch): AttentionMask {
    return { causal: true, keyStart };
  }

  protected losses(tape: Tape, hidden: Variable, { batch, positions }: StageCall<DeviceBatch>): Variable {
    return vocabularyParallelCrossEntropy(tape, {
      tensorParallel: this.tensorParallelOf(positions),
      input: this.#normalize(tape, hidden),
      weight: this.outputWeight!,
      vocabularySize: this.model.vocabularySize,
      labels: batch.labels!,
      weights: batch.weights!,
    });
  }

  protected stageLoss([output]: readonly Variable[], batch: DeviceBatch): StageLoss {
    const { tensor } = output!;
    const losses = tensor.view({ shape: tensor.shape });
    const weights = batch.weights!.tensor.reshape([tensor.size]);
    return {
      losses,
      weights,
      dispose: () => {
        losses.dispose();
        weights.dispose();
      },
    };
  }

  #embed(
    tape: Tape,
    { tokens, positionIds }: { tokens: Variable; positionIds: Variable },
    positions: Positions,
  ): Variable {
    const ids = tape.input(positionIds.tensor.rows(positions.start, positions.end));
    const embedded = vocabularyParallelEmbedding(tape, {
      tokens: {
        ids: tokens,
        table: this.wordEmbedding!,
        vocabularySize: this.model.vocabularySize,
      },
      others: [{ ids, table: this.positionEmbedding! }],
      tensorParallel: this.tensorParallelOf(positions),
    });
    ids.release();
    return embedded;
  }

  #normalize(tape: Tape, input: Variable): Variable {
    return layerNorm(tape, { input, ...this.finalNorm!, epsilon: this.model.layerNormEpsilon });
  }
}
