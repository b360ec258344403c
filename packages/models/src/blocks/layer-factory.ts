import { Parameter, type ParameterOptions, type Placement, type Tape, type Variable } from '@mtl/autograd';
import type { Device } from '@mtl/kernels';
import type { Slice } from '@mtl/layout';
import {
  type DispatchTokensOptions,
  dispatchTokens,
  type GatherRowsOptions,
  gatherRows,
  isSharded,
  type ReplicatedParameterOptions,
  replicatedParameter,
  type SentTokens,
  sliceOfRank,
  sumOverRanks,
  type TensorParallel,
} from '@mtl/tensor-parallel';
import type { EarlierSharding, LayerFactoryOptions, LayerSharding, Positions } from './layer-sharding.js';
import {
  ColumnLayer,
  type ColumnLayerOptions,
  ExpertLayer,
  type ExpertLayerOptions,
  RowLayer,
  type RowLayerOptions,
} from './linear-layers.js';
import { asSharedAdapter, type BlockAdapter, freezeAllButAdapters, loraOfSharedExperts } from './lora.js';

export type { DispatchedTokens, PendingVariable, SentTokens } from '@mtl/tensor-parallel';

/** Returns the sharding of a call's layers, under both its current and its previous option name. */
export const shardingOfCall = (sharding: LayerSharding): EarlierSharding & { sharding: LayerSharding } => ({
  sharding,
  tensorParallel: sharding,
});

/** Returns the given rows of the hidden states, replicated on every process (see `gatherRows`). */
export const gatheredRows = (
  tape: Tape,
  operands: Omit<GatherRowsOptions, 'tensorParallel'>,
  sharding: LayerSharding,
): Variable => gatherRows(tape, { ...operands, tensorParallel: sharding });

/**
 * Returns options for an operation whose result must be summed over all tensor-parallel processes, because
 * each process computes only some of the heads or features.
 */
export const sumOverShards = (sharding: LayerSharding) => ({
  numShards: isSharded(sharding) ? sharding.group.size : 1,
  sum: sumOverRanks(sharding),
});

/**
 * Makes this process's shard of every layer in a stage, including the model's adapters. Blocks and heads
 * create layers through the factory, so that they do not depend on sharding and adapters.
 */
export class LayerFactory {
  readonly device: Device;
  readonly #options: LayerFactoryOptions;
  readonly #tensorParallel: TensorParallel | undefined;
  readonly #adapters: BlockAdapter[] = [];
  /** Adds a new layer's adapters to the list of all adapters. */
  #keep = (adapters: readonly BlockAdapter[]): void => void this.#adapters.push(...adapters);

  constructor(options: LayerFactoryOptions = {}) {
    const { tensorParallel, device = 'cpu' } = options;
    this.#options = options;
    this.#tensorParallel = isSharded(tensorParallel) ? tensorParallel : undefined;
    this.device = device;
  }

  /** The adapters of all layers that this factory has made, in order of creation. */
  get adapters(): readonly BlockAdapter[] {
    return this.#adapters;
  }

  /** True if only adapters are trained. */
  get trainsAdapters(): boolean {
    return this.#options.lora !== undefined;
  }

  /** How many shards a sequence has in calls that shard it (sequence parallelism). */
  get numSequenceShards(): number {
    return this.#tensorParallel?.sequenceParallel === true ? this.#tensorParallel.group.size : 1;
  }

  /** The sharding of layers in calls that do not shard the sequence. */
  get sharding(): LayerSharding {
    return this.#tensorParallel && { ...this.#tensorParallel, sequenceParallel: false };
  }

  /** The factory as an option for registered kinds, together with the sharding under its previous name. */
  get asOption(): EarlierSharding & { readonly factory: LayerFactory } {
    return { factory: this, tensorParallel: this.#options.tensorParallel };
  }

  /**
   * Returns a factory for layers whose input rows are gathered and replicated. The gradients of their
   * parameters are never partial sums, even if the other layers shard the sequence.
   */
  onGatheredRows(): LayerFactory {
    return new LayerFactory({ ...this.#options, tensorParallel: this.sharding });
  }

  /** Returns a factory for the layers of shared experts, which have their own adapter targets. */
  ofSharedExperts(): LayerFactory {
    const { lora } = this.#options;
    const factory = new LayerFactory({ ...this.#options, lora: lora && loraOfSharedExperts(lora) });
    factory.#keep = (adapters) => this.#keep(adapters.map(asSharedAdapter));
    return factory;
  }

  /**
   * Returns this process's slice of a sequence.
   *
   * `divides`: true if this call shards the sequence whenever training shards it
   *
   * @throws ConfigurationError MTL_TENSOR_PARALLEL_SIZE if the length is not divisible by the number of
   *   processes
   */
  positions({ length, divides }: { readonly length: number; readonly divides: boolean }): Positions {
    const all = this.#tensorParallel;
    const isDivided = divides && all?.sequenceParallel === true;
    const own = sliceOfRank(isDivided ? all : undefined, { size: length, what: 'positions of a sequence' });
    return { ...own, sharding: isDivided ? all : this.sharding };
  }

  /**
   * Returns this process's slice of `size` items, such as heads, features or tokens (see `sliceOfRank`).
   *
   * @throws ConfigurationError MTL_TENSOR_PARALLEL_SIZE if the items cannot be sharded evenly
   */
  slice(items: { readonly size: number; readonly what: string }): Slice {
    return sliceOfRank(this.#options.tensorParallel, items);
  }

  /** Makes a parameter that is replicated on every process (see `replicatedParameter`). */
  replicated(options: Omit<ReplicatedParameterOptions, 'tensorParallel'>): Parameter {
    return replicatedParameter({ ...options, tensorParallel: this.#options.tensorParallel });
  }

  /** Makes a parameter whose first dimension is sharded. `slice` is this process's part. */
  sharded({
    stages,
    ...options
  }: Omit<ParameterOptions, 'placement'> & Partial<Pick<Placement, 'stages'>>): Parameter {
    return new Parameter({ ...options, placement: { sharded: { tp: 0 }, ...(stages && { stages }) } });
  }

  /** Makes a column-parallel linear layer, whose outputs are sharded. */
  column(options: ColumnLayerOptions): ColumnLayer {
    return this.#adapted(new ColumnLayer(options, this.#options));
  }

  /** Makes a row-parallel linear layer, whose inputs are sharded. */
  row(options: RowLayerOptions): RowLayer {
    return this.#adapted(new RowLayer(options, this.#options));
  }

  /** Makes a linear layer that has a matrix for each routed expert. This process has some of the experts. */
  experts(options: ExpertLayerOptions): ExpertLayer {
    return this.#adapted(new ExpertLayer(options, this.#options));
  }

  /** Sends rows to the processes that have their experts (see `dispatchTokens`). */
  dispatch(tape: Tape, options: Omit<DispatchTokensOptions, 'expertParallel'>): SentTokens {
    return dispatchTokens(tape, { ...options, expertParallel: this.#options.expertParallel });
  }

  /**
   * If the model has adapters, freezes all parameters except the adapters.
   *
   * `isWhole`: true if `parameters` belong to a complete model, which must have at least one adapter
   *
   * @throws ConfigurationError MTL_LORA_TARGETS if no layer of a complete model has an adapter
   */
  freezeUntrained(parameters: readonly Parameter[], { isWhole }: { readonly isWhole: boolean }): void {
    if (this.trainsAdapters) freezeAllButAdapters(parameters, { adapters: this.#adapters, isWhole });
  }

  #adapted<Layer extends { readonly adapters: readonly BlockAdapter[] }>(layer: Layer): Layer {
    this.#keep(layer.adapters);
    return layer;
  }
}
