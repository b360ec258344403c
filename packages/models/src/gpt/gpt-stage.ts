import {
  attention,
  biasDropoutResidual,
  type Dropout,
  embedding,
  layerNorm,
  linearCrossEntropy,
  Parameter,
  siteKey,
  Tape,
  type Variable,
} from '@mtl/autograd';
import { UsageError } from '@mtl/errors';
import type { Device, DType, Tensor } from '@mtl/kernels';
import type { Stage, StageForward, StageLoss } from '@mtl/pipeline';
import type { TensorParallel } from '@mtl/tensor-parallel';
import { TransformerBlock, type TransformerBlockContext } from '../blocks/transformer-block.js';
import {
  checkGptModelConfiguration,
  type GptModelConfiguration,
  paddedVocabularySize,
} from './gpt-model-configuration.js';
import { applyLayers, type Recomputation } from './recomputation.js';
import { type DeviceBatch, type TokenBatch, toDevice } from './token-batch.js';

export interface GptStageOptions {
  readonly model: GptModelConfiguration;
  readonly device: Device;
  /** Compute dtype of activations and of the parameters' data. */
  readonly dtype: DType;
  /** Seed of dropout masks. */
  readonly seed: number;
  /** Layers [start, end) of the model; default all. The first holds the embedding, the last the output head. */
  readonly layers?: { readonly start: number; readonly end: number };
  readonly recomputation?: Recomputation;
  /** The processes that share every layer, and how; default: whole layers here. */
  readonly tensorParallel?: TensorParallel | undefined;
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
export class GptStage implements Stage<TokenBatch> {
  readonly isFirst: boolean;
  readonly isLast: boolean;
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
  readonly #seed: number;
  readonly #recomputation: Recomputation;
  readonly #flights = new Map<number, Flight>();
  readonly #losses = new Map<number, StageLoss>();

  constructor(options: GptStageOptions) {
    const { model, layers = { start: 0, end: model.numLayers } } = options;
    checkGptModelConfiguration(model);
    if ((options.tensorParallel?.group.size ?? 1) > 1) {
      throw new UsageError('MTL_STAGE', `layers over ${options.tensorParallel!.group.size} processes`, {
        expected: 'a group of one process so far',
      });
    }
    this.model = model;
    this.device = options.device;
    this.dtype = options.dtype;
    this.#seed = options.seed;
    this.#recomputation = options.recomputation ?? { granularity: 'none' };
    this.isFirst = layers.start === 0;
    this.isLast = layers.end === model.numLayers;
    const { hiddenSize, initMethodStd } = model;
    const table = (name: string, rows: number): Parameter =>
      new Parameter({
        name,
        globalShape: [rows, hiddenSize],
        initialization: { kind: 'normal', standardDeviation: initMethodStd },
      });
    const needsWords = this.isFirst || (this.isLast && model.tieEmbeddings);
    this.wordEmbedding = needsWords
      ? table('embedding.word_embeddings.weight', paddedVocabularySize(model))
      : undefined;
    this.positionEmbedding = this.isFirst
      ? table('embedding.position_embeddings.weight', model.maxPositionEmbeddings)
      : undefined;
    this.blocks = Array.from(
      { length: layers.end - layers.start },
      (_, index) => new TransformerBlock({ ...model, layer: layers.start + index }),
    );
    const norm = (part: 'weight' | 'bias', kind: 'ones' | 'zeros'): Parameter =>
      new Parameter({
        name: `decoder.final_layernorm.${part}`,
        globalShape: [hiddenSize],
        initialization: { kind },
      });
    this.finalNorm = this.isLast
      ? { weight: norm('weight', 'ones'), bias: norm('bias', 'zeros') }
      : undefined;
    const untied = this.isLast && !model.tieEmbeddings;
    this.outputWeight = untied
      ? table('output_layer.weight', paddedVocabularySize(model))
      : this.wordEmbedding;
    this.parameters = [
      ...[this.wordEmbedding, this.positionEmbedding],
      ...this.blocks.flatMap((block) => block.parameters),
      ...[this.finalNorm?.weight, this.finalNorm?.bias, untied ? this.outputWeight : undefined],
    ].filter((parameter) => parameter !== undefined);
  }

  boundaryShape(batch: TokenBatch): readonly number[] {
    return [batch.sequenceLength, batch.batchSize, this.model.hiddenSize];
  }

  forward({ microBatch, batch, lossFactor, input }: StageForward<TokenBatch>): Tensor | undefined {
    if (this.#flights.has(microBatch)) {
      throw new UsageError('MTL_STAGE', `micro-batch ${microBatch} is in flight already`);
    }
    const tape = new Tape();
    const flight = this.#run(tape, { batch, lossFactor, input, training: true });
    this.#flights.set(microBatch, flight);
    return this.isLast ? undefined : flight.output.tensor.view({ shape: flight.output.tensor.shape });
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

  evaluate({ microBatch, batch, lossFactor, input }: StageForward<TokenBatch>): Tensor | undefined {
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

  /** The hidden states [S, B, H] after the final layer norm, for generation: `attend` brings its own cache. */
  hiddenStates(
    tape: Tape,
    ids: { tokens: Variable; positionIds: Variable },
    context: TransformerBlockContext,
  ): Variable {
    return tape.scope(() => {
      const embedded = this.#embed(tape, ids);
      const layers = this.blocks.map(
        (block) => (inner: Tape, hidden: Variable) => block.forward(inner, hidden, context),
      );
      const hidden = applyLayers(tape, embedded, layers, { granularity: 'none' });
      return this.#normalize(tape, hidden);
    });
  }

  #embed(tape: Tape, { tokens, positionIds }: { tokens: Variable; positionIds: Variable }): Variable {
    return embedding(tape, [
      { ids: tokens, table: this.wordEmbedding! },
      { ids: positionIds, table: this.positionEmbedding! },
    ]);
  }

  #normalize(tape: Tape, input: Variable): Variable {
    return layerNorm(tape, { input, ...this.finalNorm!, epsilon: this.model.layerNormEpsilon });
  }

  #run(
    tape: Tape,
    call: { batch: TokenBatch; lossFactor: number; input: Tensor | undefined; training: boolean },
  ): Flight {
    const batch = toDevice(call.batch, { device: this.device, lossFactor: call.lossFactor });
    const boundary =
      call.input === undefined
        ? undefined
        : tape.input(call.input.view({ shape: call.input.shape }), { requiresGradient: true });
    const output = tape.scope(() => {
      const hidden = boundary ?? this.#embedWithDropout(tape, batch, call.training);
      const context = this.#context(batch, call.training);
      const layers = this.blocks.map(
        (block) => (inner: Tape, layerInput: Variable) => block.forward(inner, layerInput, context),
      );
      const result = applyLayers(tape, hidden, layers, this.#recomputation);
      if (!this.isLast) return result;
      const normalized = this.#normalize(tape, result);
      return linearCrossEntropy(tape, {
        input: normalized,
        weight: this.outputWeight!,
        vocabularySize: this.model.vocabularySize,
        labels: batch.labels,
        weights: batch.weights,
      });
    });
    return { tape, batch, input: boundary, output };
  }

  #embedWithDropout(tape: Tape, batch: DeviceBatch, training: boolean): Variable {
    return tape.scope(() => {
      const embedded = this.#embed(tape, batch);
      const dropout = this.#dropout(batch, 'embedding.dropout', training ? this.model.hiddenDropout : 0);
      return dropout === undefined ? embedded : biasDropoutResidual(tape, { input: embedded, dropout });
    });
  }

  #dropout({ samples }: DeviceBatch, site: string, probability: number): Dropout | undefined {
    return probability === 0 ? undefined : { probability, key: siteKey(this.#seed, site), samples };
  }

  #context(batch: DeviceBatch, training: boolean): TransformerBlockContext {
    const { numAttentionHeads, attentionDropout, hiddenDropout } = this.model;
    return {
      attend: (tape, qkv, layer) =>
        attention(tape, {
          qkv,
          numHeads: numAttentionHeads,
          causal: true,
          keyStart: batch.keyStart,
          dropout: this.#dropout(
            batch,
            `decoder.layers.${layer}.self_attention.attention_dropout`,
            training ? attentionDropout : 0,
          ),
        }),
      hiddenDropout: (site) => this.#dropout(batch, site, training ? hiddenDropout : 0),
    };
  }

  #flightOf(microBatch: number): Flight {
    const flight = this.#flights.get(microBatch);
    if (flight === undefined) throw new UsageError('MTL_STAGE', `micro-batch ${microBatch} is not in flight`);
    return flight;
  }

  #keepLoss(microBatch: number, { output, batch }: Flight): void {
    const losses = output.tensor.view({ shape: output.tensor.shape });
    const weights = batch.weights.tensor.reshape([output.tensor.size]);
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
