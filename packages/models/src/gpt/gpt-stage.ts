import {
  attention,
  biasDropoutResidual,
  type Dropout,
  layerNorm,
  Parameter,
  type Slice,
  siteKey,
  Tape,
  type Variable,
} from '@mtl/autograd';
import { UsageError } from '@mtl/errors';
import type { Device, DType, Tensor } from '@mtl/kernels';
import type { Stage, StageForward, StageLoss } from '@mtl/pipeline';
import {
  isSpread,
  sliceOfRank,
  type TensorParallel,
  vocabularyParallelCrossEntropy,
  vocabularyParallelEmbedding,
} from '@mtl/tensor-parallel';
import { TransformerBlock, type TransformerBlockContext } from '../blocks/transformer-block.js';
import { wholeOnEveryRank } from '../blocks/whole-on-every-rank.js';
import { checkGptModelConfiguration, type GptModelConfiguration } from './gpt-model-configuration.js';
import { applyLayers, type Recomputation } from './recomputation.js';
import { type DeviceBatch, type StageBatch, toDevice } from './token-batch.js';
import { vocabularyTable, wordEmbeddingName } from './vocabulary-table.js';

export interface GptStageOptions {
  readonly model: GptModelConfiguration;
  readonly device: Device;
  /** Compute dtype of activations and of the parameters' data. */
  readonly dtype: DType;
  /** Seed of dropout masks. */
  readonly seed: number;
  /** Layers [start, end) of the model; default all. The first holds the embedding, the last the output head. */
  readonly layers?: Slice;
  /**
   * The word embedding of the first and, tied, of the last stage, where one process holds both. Default: a new one, and
   * the last stage has a copy of its own.
   */
  readonly wordEmbedding?: Parameter | undefined;
  readonly recomputation?: Recomputation;
  /** The processes that share every layer, and how; default: whole layers here. */
  readonly tensorParallel?: TensorParallel | undefined;
}

/** The positions of the sequence that this process computes with between the tensor-parallel regions of a call. */
interface Positions extends Slice {
  readonly sequenceParallel: boolean;
}

/** What the layers of a micro-batch need to know of it. */
interface Call {
  readonly batch: DeviceBatch;
  readonly positions: Positions;
  readonly training: boolean;
}

interface Flight {
  readonly tape: Tape;
  readonly batch: DeviceBatch;
  readonly input: Variable | undefined;
  readonly output: Variable;
}

/**
 * GPT-2 as a pipeline stage: embeddings, pre-layer-norm transformer layers, final layer norm, and a head tied to the
 * token embedding (Radford et al. 2019), computed together with the loss so that all logits never exist at once.
 */
export class GptStage implements Stage<StageBatch> {
  readonly isFirst: boolean;
  readonly isLast: boolean;
  readonly layers: Slice;
  readonly model: GptModelConfiguration;
  readonly device: Device;
  readonly dtype: DType;
  /** In the order in which forward uses them. */
  readonly parameters: readonly Parameter[];
  readonly blocks: readonly TransformerBlock[];
  readonly wordEmbedding: Parameter | undefined;
  readonly positionEmbedding: Parameter | undefined;
  readonly finalNorm: { readonly weight: Parameter; readonly bias: Parameter } | undefined;
  readonly outputWeight: Parameter | undefined;
  readonly tensorParallel: TensorParallel | undefined;
  /** The heads that this process computes. */
  readonly heads: Slice;
  readonly #seed: number;
  readonly #recomputation: Recomputation;
  readonly #flights = new Map<number, Flight>();
  readonly #losses = new Map<number, StageLoss>();

  /**
   * @throws ConfigurationError MTL_ATTENTION_HEADS; MTL_TENSOR_PARALLEL_SIZE when heads, feed-forward width or the padded
   *   vocabulary cannot be cut evenly over the tensor-parallel processes
   */
  constructor(options: GptStageOptions) {
    const { model, layers = { start: 0, end: model.numLayers }, tensorParallel } = options;
    checkGptModelConfiguration(model);
    this.tensorParallel = isSpread(tensorParallel) ? tensorParallel : undefined;
    this.heads = sliceOfRank(tensorParallel, { size: model.numAttentionHeads, what: 'attention heads' });
    this.model = model;
    this.device = options.device;
    this.dtype = options.dtype;
    this.#seed = options.seed;
    this.#recomputation = options.recomputation ?? { granularity: 'none' };
    this.layers = layers;
    this.isFirst = layers.start === 0;
    this.isLast = layers.end === model.numLayers;
    const { hiddenSize, initMethodStd } = model;
    const initialization = { kind: 'normal', standardDeviation: initMethodStd } as const;
    const whole = wholeOnEveryRank(tensorParallel);
    const newTable = (name: string, isOnBothEnds: boolean): Parameter =>
      vocabularyTable({ model, tensorParallel, name, isOnBothEnds });
    const isAlone = this.isFirst && this.isLast;
    const needsWords = this.isFirst || (this.isLast && model.tieEmbeddings);
    this.wordEmbedding = needsWords
      ? (options.wordEmbedding ?? newTable(wordEmbeddingName, model.tieEmbeddings && !isAlone))
      : undefined;
    this.positionEmbedding = this.isFirst
      ? new Parameter({
          name: 'embedding.position_embeddings.weight',
          globalShape: [model.maxPositionEmbeddings, hiddenSize],
          initialization,
          ...whole,
        })
      : undefined;
    this.blocks = Array.from(
      { length: layers.end - layers.start },
      (_, index) => new TransformerBlock({ ...model, layer: layers.start + index, tensorParallel }),
    );
    const norm = (part: 'weight' | 'bias', kind: 'ones' | 'zeros'): Parameter =>
      new Parameter({
        name: `decoder.final_layernorm.${part}`,
        globalShape: [hiddenSize],
        initialization: { kind },
        ...whole,
      });
    this.finalNorm = this.isLast
      ? { weight: norm('weight', 'ones'), bias: norm('bias', 'zeros') }
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

  /** [S, B, H], or [S / t, B, H] under sequence parallelism. */
  boundaryShape({ sequenceLength, batchSize }: StageBatch): readonly number[] {
    const { start, end } = this.#positions(sequenceLength, this.tensorParallel?.sequenceParallel ?? false);
    return [end - start, batchSize, this.model.hiddenSize];
  }

  forward({ microBatch, batch, lossFactor, input }: StageForward<StageBatch>): Tensor | undefined {
    if (this.#flights.has(microBatch)) {
      throw new UsageError('MTL_STAGE', `micro-batch ${microBatch} is in flight already`);
    }
    const tape = new Tape();
    const flight = this.#run(tape, { batch, lossFactor, input, training: true });
    this.#flights.set(microBatch, flight);
    if (this.isLast) return undefined;
    const boundary = flight.output.tensor.view({ shape: flight.output.tensor.shape });
    // backward needs to know which variable it was, not its values: they are gone when they are sent
    flight.output.release();
    return boundary;
  }

  backwardInput(call: {
    readonly microBatch: number;
    readonly outputGradient?: Tensor | undefined;
    readonly weights?: boolean;
  }): Tensor | undefined {
    const flight = this.#flightOf(call.microBatch);
    if (call.weights === true) flight.tape.backward(flight.output, call.outputGradient);
    else flight.tape.backwardInput(flight.output, call.outputGradient);
    if (this.isLast) this.#keepLoss(call.microBatch, flight);
    const inputGradient = flight.input === undefined ? undefined : flight.tape.takeGradient(flight.input);
    if (call.weights === true) this.#land(call.microBatch);
    return inputGradient;
  }

  backwardWeight({ microBatch }: { readonly microBatch: number }): void {
    this.#flightOf(microBatch).tape.backwardWeight();
    this.#land(microBatch);
  }

  takeLoss(microBatch: number): StageLoss {
    const loss = this.#losses.get(microBatch);
    if (loss === undefined)
      throw new UsageError('MTL_STAGE', `micro-batch ${microBatch} has no loss to take`);
    this.#losses.delete(microBatch);
    return loss;
  }

  evaluate({ microBatch, batch, lossFactor, input }: StageForward<StageBatch>): Tensor | undefined {
    const tape = new Tape({ recording: false });
    const flight = this.#run(tape, { batch, lossFactor, input, training: false });
    let output: Tensor | undefined;
    if (this.isLast) this.#keepLoss(microBatch, flight);
    else output = flight.output.tensor.view({ shape: flight.output.tensor.shape });
    release(flight);
    return output;
  }

  abandon(): void {
    for (const flight of this.#flights.values()) release(flight);
    this.#flights.clear();
    for (const loss of this.#losses.values()) loss.dispose();
    this.#losses.clear();
  }

  /**
   * The hidden states [S, B, H] after the layers of this stage, on the last one after the final layer norm, for generation:
   * `attend` brings its own cache. Never cut along the sequence, so that any number of tokens will do.
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
          ? this.#embed(tape, input, this.#positions(input.tokens.tensor.dim(0), false))
          : input;
      const whole = { ...context, sequenceParallel: false };
      const layers = this.blocks.map(
        (block) => (inner: Tape, hidden: Variable) => block.forward(inner, hidden, whole),
      );
      const hidden = applyLayers(tape, start, layers, { granularity: 'none' });
      return this.isLast ? this.#normalize(tape, hidden) : hidden;
    });
  }

  /** Where this process works in a sequence. @throws ConfigurationError MTL_TENSOR_PARALLEL_SIZE when it cannot be cut */
  #positions(sequenceLength: number, sequenceParallel: boolean): Positions {
    const spread = sequenceParallel ? this.tensorParallel : undefined;
    return {
      ...sliceOfRank(spread, { size: sequenceLength, what: 'positions of a sequence' }),
      sequenceParallel: spread !== undefined,
    };
  }

  #spread({ sequenceParallel }: Positions): TensorParallel | undefined {
    return this.tensorParallel === undefined ? undefined : { ...this.tensorParallel, sequenceParallel };
  }

  #embed(
    tape: Tape,
    { tokens, positionIds }: { tokens: Variable; positionIds: Variable },
    positions: Positions,
  ): Variable {
    const ids = tape.input(positionIds.tensor.rows(positions.start, positions.end));
    const embedded = vocabularyParallelEmbedding(tape, {
      tokens: { ids: tokens, table: this.wordEmbedding! },
      others: [{ ids, table: this.positionEmbedding! }],
      tensorParallel: this.#spread(positions),
    });
    ids.release();
    return embedded;
  }

  #normalize(tape: Tape, input: Variable): Variable {
    return layerNorm(tape, { input, ...this.finalNorm!, epsilon: this.model.layerNormEpsilon });
  }

  #run(
    tape: Tape,
    call: { batch: StageBatch; lossFactor: number; input: Tensor | undefined; training: boolean },
  ): Flight {
    // an evaluation of the whole model keeps nothing that cutting the sequence would save: any length will do there
    const cuts = call.training || !this.isFirst || !this.isLast;
    const positions = this.#positions(
      call.batch.sequenceLength,
      cuts && this.tensorParallel?.sequenceParallel === true,
    );
    const batch = toDevice(call.batch, {
      ...{ device: this.device, lossFactor: call.lossFactor },
      ...{ isFirst: this.isFirst, isLast: this.isLast },
    });
    const boundary =
      call.input === undefined
        ? undefined
        : tape.input(call.input.view({ shape: call.input.shape }), { requiresGradient: true });
    const output = tape.scope(() => {
      const hidden = boundary ?? this.#embedWithDropout(tape, { batch, positions, training: call.training });
      const context = this.#context({ batch, positions, training: call.training });
      const layers = this.blocks.map(
        (block) => (inner: Tape, layerInput: Variable) => block.forward(inner, layerInput, context),
      );
      const result = applyLayers(tape, hidden, layers, this.#recomputation);
      if (!this.isLast) return result;
      const normalized = this.#normalize(tape, result);
      return vocabularyParallelCrossEntropy(tape, {
        tensorParallel: this.#spread(positions),
        input: normalized,
        weight: this.outputWeight!,
        vocabularySize: this.model.vocabularySize,
        labels: batch.labels!,
        weights: batch.weights!,
      });
    });
    return { tape, batch, input: boundary, output };
  }

  #embedWithDropout(tape: Tape, call: Call): Variable {
    return tape.scope(() => {
      const embedded = this.#embed(
        tape,
        { tokens: call.batch.tokens!, positionIds: call.batch.positionIds! },
        call.positions,
      );
      const dropout = this.#hiddenDropout('embedding.dropout', call);
      return dropout === undefined ? embedded : biasDropoutResidual(tape, { input: embedded, dropout });
    });
  }

  #dropout(site: string, { batch, training }: Call, rate: number): Dropout | undefined {
    if (!training || rate === 0) return undefined;
    return { probability: rate, key: siteKey(this.#seed, site), samples: batch.samples };
  }

  #hiddenDropout(site: string, call: Call): Dropout | undefined {
    const dropout = this.#dropout(site, call, this.model.hiddenDropout);
    return dropout && { ...dropout, sequenceOffset: call.positions.start };
  }

  #context(call: Call): TransformerBlockContext {
    return {
      attend: (tape, qkv, layer) =>
        attention(tape, {
          qkv,
          numHeads: this.heads.end - this.heads.start,
          headOffset: this.heads.start,
          causal: true,
          keyStart: call.batch.keyStart,
          dropout: this.#dropout(
            `decoder.layers.${layer}.self_attention.attention_dropout`,
            call,
            this.model.attentionDropout,
          ),
        }),
      hiddenDropout: (site) => this.#hiddenDropout(site, call),
      sequenceParallel: call.positions.sequenceParallel,
    };
  }

  #flightOf(microBatch: number): Flight {
    const flight = this.#flights.get(microBatch);
    if (flight === undefined) throw new UsageError('MTL_STAGE', `micro-batch ${microBatch} is not in flight`);
    return flight;
  }

  #keepLoss(microBatch: number, { output, batch }: Flight): void {
    const losses = output.tensor.view({ shape: output.tensor.shape });
    const weights = batch.weights!.tensor.reshape([output.tensor.size]);
    this.#losses.get(microBatch)?.dispose();
    this.#losses.set(microBatch, {
      losses,
      weights,
      dispose: () => {
        losses.dispose();
        weights.dispose();
      },
    });
  }

  #land(microBatch: number): void {
    release(this.#flightOf(microBatch));
    this.#flights.delete(microBatch);
  }
}

function release({ tape, batch, input, output }: Flight): void {
  tape.dispose();
  output.release();
  input?.release();
  batch.release();
}
