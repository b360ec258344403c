import {
  biasDropoutResidual,
  type Dropout,
  type Parameter,
  ParameterUnit,
  siteKey,
  Tape,
  type Variable,
} from '@mtl/autograd';
import { UsageError } from '@mtl/errors';
import type { Device, DType, Tensor } from '@mtl/kernels';
import type { Slice } from '@mtl/layout';
import type { Stage, StageForward, StageLoss, Upload } from '@mtl/pipeline';
import type { HeadScores } from '../blocks/head-scores.js';
import { LayerFactory, shardingOfCall } from '../blocks/layer-factory.js';
import type { Positions } from '../blocks/layer-sharding.js';
import { type MatmulCost, sumOfCosts } from '../blocks/matmul-cost.js';
import type { AttendCall, DropoutSite, MicroBatchContext } from '../blocks/micro-batch-context.js';
import type { Norm } from '../blocks/norms.js';
import { PositionTables } from '../blocks/position-tables.js';
import { applyLayers, type Recomputation } from '../blocks/recomputation.js';
import type { RowCoordinate } from '../blocks/row-coordinates.js';
import { numOwners, type SequencePartition, wholeSequence } from '../blocks/sequence-partition.js';
import { LayerLosses } from '../blocks/stage-losses.js';
import type { TransformerConfiguration } from '../blocks/transformer-configuration.js';
import type { ExpertLoad } from '../routing/expert-load.js';
import { type Choice, type RoutingObserver, RoutingOfMicroBatch } from '../routing/routing-of-micro-batch.js';
import { norms } from './block-kinds.js';
import { type BlockOfLayer, blockOfLayer, expectNoWindows } from './block-specification.js';
import type { BatchSize, DeviceSamples, LoadedMicroBatch, StageCall, ToDevice } from './stage-call.js';
import { TransformerBlock } from './transformer-block.js';
import { TransformerEmbedding } from './transformer-embedding.js';
import type { TransformerSpecification, TransformerStageOptions } from './transformer-stage-options.js';
import { vocabularyTable, wordEmbeddingName } from './vocabulary.js';

interface InFlightMicroBatch<OnDevice> {
  readonly tape: Tape;
  readonly loaded: LoadedMicroBatch<OnDevice>;
  readonly input: Variable | undefined;
  /** The boundary activations or, on the last stage, the result of `computeLosses`. */
  readonly outputs: readonly Variable[];
}

/**
 * Consecutive layers of a transformer as a pipeline stage: the code that GPT and BERT have in common. A
 * subclass adds the computation before the layers (`embed`) and after them (`computeLosses`), and determines
 * which keys a query can attend to.
 */
export abstract class TransformerStage<
  Batch extends BatchSize,
  OnDevice extends DeviceSamples,
  Model extends TransformerConfiguration,
> implements Stage<Batch>
{
  readonly isFirst: boolean;
  readonly isLast: boolean;
  readonly layers: Slice;
  readonly model: Model;
  readonly device: Device;
  readonly dtype: DType;
  /** The parameters in the order in which `forward` uses them. */
  abstract readonly parameters: readonly Parameter[];
  readonly blocks: readonly TransformerBlock[];
  /**
   * The word embedding. Only the first stage has it, and also the last stage if the output head is tied to
   * the embedding.
   */
  readonly wordEmbedding: Parameter | undefined;
  /** Makes this process's shards of layers. */
  readonly factory: LayerFactory;
  /** The device's position tables, which the layers read. */
  readonly positionTables: PositionTables;
  /**
   * Called with the expert assignments of the layers' routers in training forward passes. If it is undefined,
   * the assignments are not observed.
   */
  observeRouting: RoutingObserver | undefined;
  /** The names of the losses that the layers compute (see `Sublayer.losses`). */
  readonly layerLosses: ReadonlySet<string>;
  /** The specifications for all layers of the model, including the layers of other stages. */
  protected readonly blockOfLayer: BlockOfLayer;
  /**
   * The parameters of the embedding, the layers and the final norm, in the order in which `forward` uses
   * them.
   */
  protected readonly bodyParameters: readonly Parameter[];
  readonly #embedding: TransformerEmbedding | undefined;
  /** The norm after the last layer. Undefined before the last stage, and if norms come after sublayers. */
  readonly #finalNorm: Norm | undefined;
  readonly #isTied: boolean;
  #stageUnits: StageUnits | undefined;
  readonly #seed: number;
  readonly #recomputation: Recomputation;
  /** Determines which rows of a micro-batch this rank owns. */
  readonly sequence: SequencePartition;
  readonly #causal: boolean;
  readonly #inFlight = new Map<number, InFlightMicroBatch<OnDevice>>();
  readonly #losses = new Map<number, readonly StageLoss[]>();

  /**
   * @throws ConfigurationError MTL_BLOCK_KIND if a kind is not registered, or if attention has a window but
   *   no causal mask; MTL_TENSOR_PARALLEL_SIZE if heads, feed-forward features or the padded vocabulary
   *   cannot be sharded evenly
   */
  constructor(options: TransformerStageOptions<Model>, specification: TransformerSpecification) {
    const { model, layers = { start: 0, end: model.numLayers } } = options;
    const { stack } = specification;
    const block = blockOfLayer(specification.block, model);
    if (!specification.causal) expectNoWindows(block, model);
    this.factory = new LayerFactory(options);
    this.blockOfLayer = block;
    this.model = model;
    this.device = options.device;
    this.dtype = options.dtype;
    this.positionTables = options.positionTables ?? new PositionTables(options.device);
    this.#seed = options.seed;
    this.#recomputation = options.recomputation ?? { granularity: 'none' };
    this.sequence = options.sequence ?? wholeSequence;
    this.#causal = specification.causal;
    this.layers = layers;
    this.isFirst = layers.start === 0;
    this.isLast = layers.end === model.numLayers;
    this.blocks = Array.from({ length: layers.end - layers.start }, (_, index) => {
      const layer = layers.start + index;
      return new TransformerBlock({ layer, stack, specification: block(layer), factory: this.factory });
    });
    this.layerLosses = new Set(this.blocks.flatMap(({ losses }) => losses));
    this.#isTied = specification.isTied;
    this.wordEmbedding = this.#createWordEmbedding(options, specification);
    this.#embedding = this.isFirst ? this.#createEmbedding(options, specification) : undefined;
    this.#finalNorm = this.isLast ? this.#createFinalNorm(specification) : undefined;
    this.bodyParameters = [
      ...(this.#embedding?.parameters ?? []),
      ...this.blocks.flatMap(({ parameters }) => parameters),
      ...(this.#finalNorm?.parameters ?? []),
    ];
  }

  /**
   * Groups of parameters that are used together: the embedding, each layer, and the head, in the order of
   * `forward`. Parameter stores that keep only shards gather one group at a time. A tied word embedding is in
   * two groups.
   */
  get units(): readonly ParameterUnit[] {
    const { embedding, blocks, head } = this.#units;
    return [embedding, ...blocks, head].filter((unit) => unit !== undefined);
  }

  /** The cost of the matmuls in this stage's layers. */
  get matmuls(): MatmulCost {
    return sumOfCosts(this.blocks.map(({ matmuls }) => matmuls));
  }

  /** Counts the rows for each expert. The array has one entry per layer with experts. */
  get expertLoads(): readonly ExpertLoad[] {
    return this.blocks.flatMap(({ expertLoads }) => expertLoads);
  }

  /** The highest score of each head. The array has one entry per attention. */
  get headScores(): readonly HeadScores[] {
    return this.blocks.flatMap(({ headScores }) => headScores);
  }

  get #units(): StageUnits {
    this.#stageUnits ??= stageUnits({
      embedding: this.#embedding?.parameters,
      blocks: this.blocks.map(({ parameters }) => parameters),
      hasHead: this.isLast,
      all: this.parameters,
      tied: this.#isTied && this.isLast ? [this.wordEmbedding!] : [],
    });
    return this.#stageUnits;
  }

  #createWordEmbedding(
    { model, wordEmbedding }: TransformerStageOptions<Model>,
    { isTied }: TransformerSpecification,
  ): Parameter | undefined {
    const { isFirst, isLast, factory } = this;
    if (!isFirst && !(isTied && isLast)) return undefined;
    const isOnFirstAndLastRank = isTied && !(isFirst && isLast);
    return (
      wordEmbedding ?? vocabularyTable({ model, factory, name: wordEmbeddingName, isOnFirstAndLastRank })
    );
  }

  #createEmbedding(
    { model }: TransformerStageOptions<Model>,
    { tables }: TransformerSpecification,
  ): TransformerEmbedding {
    const { norm, normPlacement } = this.blockOfLayer(0);
    return new TransformerEmbedding({
      model,
      wordEmbedding: this.wordEmbedding!,
      tables,
      norm: normPlacement === 'post' ? norm : undefined,
      factory: this.factory,
    });
  }

  #createFinalNorm({ stack, finalNormInput: input }: TransformerSpecification): Norm | undefined {
    const { hiddenSize, numLayers } = this.model;
    const { norm, normPlacement } = this.blockOfLayer(numLayers - 1);
    if (normPlacement === 'post') return undefined;
    const factory = input === 'rows' ? this.factory.onGatheredRows() : this.factory;
    const common = { hiddenSize, specification: norm, ...factory.asOption };
    return norms.build({ ...common, name: `${stack}.final_layernorm` });
  }

  /**
   * Copies a micro-batch to the device, together with its losses' factors in the total loss. With `upload`,
   * forward and backward passes over micro-batches with equal shapes and equal `variant` differ only in the
   * uploaded tensors.
   */
  protected abstract toDevice(call: ToDevice<Batch>, positions: Positions): OnDevice;
  /** Returns the first layer's input after dropout: [S, B, H] or this process's shard of it. */
  protected abstract embed(tape: Tape, call: StageCall<OnDevice>): Variable;
  /** Computes the losses from the last layer's output. */
  protected abstract computeLosses(
    tape: Tape,
    hidden: Variable,
    call: StageCall<OnDevice>,
  ): Variable | readonly Variable[];
  /**
   * Returns the losses that `computeLosses` computed, in new tensors or views. Called after an evaluation,
   * and after the input half of the backward pass.
   */
  protected abstract namedLosses(losses: readonly Variable[], batch: OnDevice): readonly StageLoss[];

  /**
   * Returns the first two dimensions of activations: [S, B], or [T, 1] if samples are packed into T rows. The
   * first dimension counts only the rows that this rank owns.
   */
  protected activationRows({ sequenceLength, batchSize }: Batch): readonly [rows: number, columns: number] {
    return [sequenceLength / numOwners(this.sequence), batchSize];
  }

  /**
   * Returns [S, B, H], or [T, 1, H] for packed samples. Under sequence parallelism, the first dimension is
   * divided by the tensor-parallel size.
   */
  boundaryShape(batch: Batch): readonly number[] {
    const [rows, columns] = this.activationRows(batch);
    const { start, end } = this.factory.positions({ length: rows, divides: true });
    return [end - start, columns, this.model.hiddenSize];
  }

  /**
   * Copies a micro-batch to the device. Forward and backward passes over micro-batches with equal shapes and
   * equal `variant` differ only in the copied tensors. Random masks may also differ, because they depend on
   * sample indices, which are copied too.
   */
  load(
    call: Pick<StageForward<Batch>, 'batch' | 'lossFactors'>,
    upload?: Upload,
  ): LoadedMicroBatch<OnDevice> {
    return this.#load({ ...call, upload }, { training: true });
  }

  forward(call: StageForward<Batch>): Tensor | undefined {
    const { microBatch } = call;
    if (this.#inFlight.has(microBatch)) {
      throw new UsageError('MTL_STAGE', `micro-batch ${microBatch} is in flight already`, {
        expected: 'the number of a micro-batch that is not in flight',
        remedy: 'run its backward, or call abandon(), before the next forward with this number',
      });
    }
    const started = this.#run(new Tape(), call, { training: true });
    this.#inFlight.set(microBatch, started);
    if (this.isLast) return undefined;
    const [output] = started.outputs;
    const boundary = viewTensor(output!);
    // the backward pass needs only the identity of this variable; the boundary view keeps the values until
    // they have been sent
    output!.release();
    return boundary;
  }

  backwardInput(call: {
    readonly microBatch: number;
    readonly outputGradient?: Tensor | undefined;
    readonly weights?: boolean;
  }): Tensor | undefined {
    const started = this.#findInFlight(call.microBatch);
    if (call.weights === true) started.tape.backward(started.outputs, call.outputGradient);
    else started.tape.backwardInput(started.outputs, call.outputGradient);
    this.#keepLosses(call.microBatch, started);
    const inputGradient = started.input === undefined ? undefined : started.tape.takeGradient(started.input);
    if (call.weights === true) this.#finish(call.microBatch);
    return inputGradient;
  }

  backwardWeight({ microBatch }: { readonly microBatch: number }): void {
    this.#findInFlight(microBatch).tape.backwardWeight();
    this.#finish(microBatch);
  }

  takeLosses(microBatch: number): readonly StageLoss[] {
    const losses = this.#losses.get(microBatch);
    if (losses === undefined) {
      // before the last stage, most stages compute no losses
      if (!this.isLast && this.layerLosses.size === 0) return [];
      throw new UsageError('MTL_STAGE', `micro-batch ${microBatch} has no losses to take`, {
        expected: 'a micro-batch after its backward or evaluation; its losses are taken once',
      });
    }
    this.#losses.delete(microBatch);
    return losses;
  }

  evaluate(call: StageForward<Batch>): Tensor | undefined {
    const started = this.#run(new Tape({ recording: false }), call, { training: false });
    let output: Tensor | undefined;
    this.#keepLosses(call.microBatch, started);
    if (!this.isLast) output = viewTensor(started.outputs[0]!);
    release(started);
    return output;
  }

  abandon(microBatch?: number): void {
    const isMeant = (number: number): boolean => microBatch === undefined || number === microBatch;
    for (const [number, started] of this.#inFlight) {
      if (!isMeant(number)) continue;
      release(started);
      this.#inFlight.delete(number);
    }
    for (const [number, losses] of this.#losses) {
      if (!isMeant(number)) continue;
      for (const loss of losses) loss.dispose();
      this.#losses.delete(number);
    }
  }

  /**
   * Releases the resources that forward and backward passes share. Does not release parameters, because these
   * belong to their owner. Must be called only between passes.
   */
  dispose(): void {
    this.positionTables.dispose();
    for (const block of this.blocks) block.dispose();
  }
  readonly [Symbol.dispose] = this.dispose;

  /** Embeds tokens and the ids for the learned tables. The ids belong to this rank's positions. */
  protected embedIds(
    tape: Tape,
    {
      tokens,
      ids,
      positions,
    }: { readonly tokens: Variable; readonly ids: readonly Variable[]; readonly positions: Positions },
  ): Variable {
    return this.#embedding!.forward(tape, { tokens, ids, sharding: positions.sharding });
  }

  /** Runs `body`, which computes with the embedding's parameters. Must be called only on the first stage. */
  protected withinEmbedding<T>(tape: Tape, body: () => T): T {
    return tape.within(this.#units.embedding!, body);
  }

  /**
   * Runs `body`, which computes with the parameters used after the layers. Must be called only on the last
   * stage.
   */
  withinHead<T>(tape: Tape, body: () => T): T {
    return tape.within(this.#units.head!, body);
  }

  /** Returns the row coordinates that passes read. */
  protected rowReads({ training }: { readonly training: boolean }): ReadonlySet<RowCoordinate> {
    const drops =
      this.blocks.some(({ specification }) => specification.hiddenDropout > 0) ||
      (this.isFirst && this.model.hiddenDropout > 0);
    const ofDropout = training && drops ? (['positions', 'samples'] as const) : [];
    return new Set([...ofDropout, ...this.blocks.flatMap(({ reads }) => reads)]);
  }

  /** Applies the layers of this stage, one after another. */
  protected applyBlocks(tape: Tape, input: Variable, call: StageCall<OnDevice>): Variable {
    return this.applyBlocksWith(tape, input, {
      context: this.#context(call),
      recomputation: this.#recomputation,
    });
  }

  protected applyBlocksWith(
    tape: Tape,
    input: Variable,
    how: { readonly context: MicroBatchContext; readonly recomputation: Recomputation },
  ): Variable {
    const layers = this.blocks.map(
      (block, index) => (inner: Tape, layerInput: Variable) =>
        inner.within(this.#units.blocks[index]!, () => block.forward(inner, layerInput, how.context)),
    );
    return applyLayers(tape, input, layers, how.recomputation);
  }

  /** Applies the final norm to the last layer's output if norms come before sublayers. */
  protected normalized(tape: Tape, input: Variable): Variable {
    return this.#finalNorm === undefined ? input : this.#finalNorm.forward(tape, input);
  }

  /** Applies hidden dropout if there is dropout in this call. */
  protected dropped(
    tape: Tape,
    input: Variable,
    { site, call }: { site: string; call: StageCall<DeviceSamples> },
  ): Variable {
    const dropout = this.#hiddenDropout({ site, probability: this.model.hiddenDropout }, call);
    return dropout === undefined ? input : biasDropoutResidual(tape, { input, dropout });
  }

  #makePositions(batch: Batch, { training }: { readonly training: boolean }): Positions {
    // an evaluation of a complete model keeps no activations, so sharding the sequence would save no memory.
    // Without sharding, any length is valid
    const divides = training || !this.isFirst || !this.isLast;
    return this.factory.positions({ length: this.activationRows(batch)[0], divides });
  }

  #run(
    tape: Tape,
    call: StageForward<Batch>,
    { training }: { training: boolean },
  ): InFlightMicroBatch<OnDevice> {
    const positions = this.#makePositions(call.batch, { training });
    // `loaded` is the result of this stage's `load` if the caller has called it
    const loaded = (call.loaded as LoadedMicroBatch<OnDevice> | undefined) ?? this.#load(call, { training });
    const { batch, layerLosses, routing } = loaded;
    const stageCall = { batch, positions, training, layerLosses, routing };
    const boundary =
      call.input === undefined
        ? undefined
        : tape.input(call.input.view({ shape: call.input.shape }), { requiresGradient: true });
    try {
      const outputs = tape.scope((): Variable | readonly Variable[] => {
        const hidden =
          boundary ?? this.withinEmbedding(tape, () => tape.scope(() => this.embed(tape, stageCall)));
        const result = this.applyBlocks(tape, hidden, stageCall);
        return this.isLast
          ? this.withinHead(tape, () => this.computeLosses(tape, result, stageCall))
          : result;
      });
      layerLosses.endForward();
      routing.endForward();
      return { tape, loaded, input: boundary, outputs: [outputs].flat() };
    } catch (error) {
      release({ tape, loaded, input: boundary, outputs: [] });
      throw error;
    }
  }

  #load(
    call: Pick<ToDevice<Batch>, 'batch' | 'lossFactors' | 'upload'>,
    { training }: { readonly training: boolean },
  ): LoadedMicroBatch<OnDevice> {
    const { batch: host, lossFactors, upload } = call;
    const { device } = this;
    const reads = this.rowReads({ training });
    const layerLosses = new LayerLosses({ names: this.layerLosses, lossFactors, device, upload });
    try {
      const positions = this.#makePositions(host, { training });
      const tables = this.positionTables;
      const batch = this.toDevice({ batch: host, lossFactors, reads, tables, training, upload }, positions);
      const observer = this.observeRouting;
      const ofRows = { samples: batch.samples.tensor, indices: batch.ownRows.indices };
      const observe = observer && ((choice: Choice) => observer({ ...choice, ...ofRows }));
      const routing = new RoutingOfMicroBatch({ training, observe });
      const release = (): void => {
        layerLosses.release();
        routing.release();
        batch.release();
      };
      return { batch, layerLosses, routing, variant: batch.variant, release };
    } catch (error) {
      layerLosses.release();
      throw error;
    }
  }

  #dropout(
    { site, probability }: DropoutSite,
    { batch, training }: StageCall<DeviceSamples>,
  ): Dropout | undefined {
    if (!training || probability === 0) return undefined;
    return { probability, key: siteKey(this.#seed, site), samples: batch.samples };
  }

  #hiddenDropout(site: DropoutSite, call: StageCall<DeviceSamples>): Dropout | undefined {
    const dropout = this.#dropout(site, call);
    if (dropout === undefined) return undefined;
    const { rows } = call.batch;
    return { ...dropout, positions: rows.of('positions'), samples: rows.of('samples') };
  }

  #regionDropout(
    site: DropoutSite,
    firstColumn: number,
    call: StageCall<DeviceSamples>,
  ): Dropout | undefined {
    const dropout = this.#dropout(site, call);
    if (dropout === undefined) return undefined;
    const { rows } = call.batch;
    const [positions, samples] = [rows.of('regionPositions'), rows.of('regionSamples')];
    return { ...dropout, positions, samples, firstColumn };
  }

  #attend(
    tape: Tape,
    { dropout: site, windowSize, ...operands }: AttendCall,
    call: StageCall<OnDevice>,
  ): Variable {
    const visibility = { causal: this.#causal, windowSize };
    return call.batch.ownRows.attend(tape, { ...operands, visibility, dropout: this.#dropout(site, call) });
  }

  #context(call: StageCall<OnDevice>): MicroBatchContext {
    return {
      attend: (tape, attendCall) => this.#attend(tape, attendCall, call),
      hiddenDropout: (site) => this.#hiddenDropout(site, call),
      regionDropout: (site, firstColumn) => this.#regionDropout(site, firstColumn, call),
      rows: call.batch.rows,
      losses: call.layerLosses,
      routing: call.routing,
      recomputed: this.#recomputation.granularity === 'selective' ? this.#recomputation.modules : undefined,
      ...shardingOfCall(call.positions.sharding),
      sequence: this.sequence,
    };
  }

  #findInFlight(microBatch: number): InFlightMicroBatch<OnDevice> {
    const started = this.#inFlight.get(microBatch);
    if (started === undefined) {
      throw new UsageError('MTL_STAGE', `micro-batch ${microBatch} is not in flight`, {
        expected:
          this.#inFlight.size === 0
            ? 'a micro-batch after its forward'
            : `one of ${[...this.#inFlight.keys()].join(', ')}`,
        remedy: 'call forward first, and each half of backward once',
      });
    }
    return started;
  }

  #keepLosses(microBatch: number, { outputs, loaded }: InFlightMicroBatch<OnDevice>): void {
    for (const loss of this.#losses.get(microBatch) ?? []) loss.dispose();
    const { batch, layerLosses } = loaded;
    const losses = [...(this.isLast ? this.namedLosses(outputs, batch) : []), ...layerLosses.take()];
    if (losses.length > 0) this.#losses.set(microBatch, losses);
  }

  #finish(microBatch: number): void {
    release(this.#findInFlight(microBatch));
    this.#inFlight.delete(microBatch);
  }
}

const viewTensor = ({ tensor }: Variable): Tensor => tensor.view({ shape: tensor.shape });

function release({ tape, loaded, input, outputs }: InFlightMicroBatch<DeviceSamples>): void {
  tape.dispose();
  for (const output of outputs) output.release();
  input?.release();
  loaded.release();
}

/** The parameters that a stage uses together. */
interface StageUnits {
  readonly embedding: ParameterUnit | undefined;
  readonly blocks: readonly ParameterUnit[];
  /** The parameters used after the layers. */
  readonly head: ParameterUnit | undefined;
}

/**
 * Returns a stage's units. The head's unit consists of the tied parameters and all parameters outside the
 * other units.
 */
function stageUnits({
  embedding,
  blocks,
  hasHead,
  all,
  tied,
}: {
  readonly embedding: readonly Parameter[] | undefined;
  readonly blocks: readonly (readonly Parameter[])[];
  readonly hasHead: boolean;
  readonly all: readonly Parameter[];
  /** The embedding's parameters that the head also uses. */
  readonly tied: readonly Parameter[];
}): StageUnits {
  const before = new Set([...(embedding ?? []), ...blocks.flat()]);
  const head = new Set([...all.filter((parameter) => !before.has(parameter)), ...tied]);
  return {
    embedding: embedding && new ParameterUnit(embedding, { isRoot: true }),
    blocks: blocks.map((parameters) => new ParameterUnit(parameters)),
    head: hasHead ? new ParameterUnit([...head], { isRoot: true }) : undefined,
  };
}
