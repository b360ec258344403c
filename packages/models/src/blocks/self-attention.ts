import {
  type HeadNorm,
  type HeadRotation,
  Parameter,
  prepareHeads,
  type Tape,
  type Variable,
  type WholeHeadNormOptions,
  wholeHeadNorm,
} from '@mtl/autograd';
import { ConfigurationError, nearestDivisors } from '@mtl/errors';
import type { Slice } from '@mtl/layout';
import {
  columnParallelLinear,
  columnParallelParameters,
  isSharded,
  replicatedParameter,
  rowParallelLinear,
  rowParallelParameters,
  sliceOfRank,
  sumOverRanks,
  type TensorParallel,
} from '@mtl/tensor-parallel';
import { type BlockAdapter, LoraAdapters } from './lora.js';
import { costOfWeights, type MatmulCost } from './matmul-cost.js';
import type { AttendCall, MicroBatchContext } from './micro-batch-context.js';
import type { PositionTable } from './position-tables.js';
import { type RotarySpecification, rotaryPositions } from './rotary-positions.js';
import type { RowCoordinate } from './row-coordinates.js';
import type { Sublayer, SublayerInput, SublayerOptions } from './sublayer.js';

export interface QueryKeyNormSpecification {
  readonly kind: 'layer-norm' | 'rms-norm';
  /** Added to the variance, or to the mean square. */
  readonly epsilon: number;
  /**
   * True if the queries of all heads are normalized together, and the keys, by an RMS norm. Default: false
   */
  readonly wholeWidth?: boolean | undefined;
}

/** The kind and the sizes of an attention. Kinds may add fields. */
export interface AttentionSpecification {
  readonly kind: string;
  /** A: query heads. */
  readonly numHeads: number;
  /**
   * G: groups of A / G heads that share a key and a value (Ainslie et al. 2023). Default: as many as heads.
   */
  readonly numGroups?: number | undefined;
  /** D: features of a head; A * D may differ from the hidden size. */
  readonly headSize: number;
  /** True if the projection to the output has a bias. */
  readonly bias: boolean;
  /** True if the projections to queries, keys and values have biases. Default: `bias`. */
  readonly qkvBias?: boolean | undefined;
  /** Probability with which attention weights are dropped. */
  readonly dropout: number;
  /** A query sees its own position and so many before it. Default: all. */
  readonly windowSize?: number | undefined;
  /** Rotary position embeddings of queries and keys. Default: none. */
  readonly rotary?: RotarySpecification | undefined;
  /** A norm of queries and keys before rotation, each over the features of its head. Default: none. */
  readonly queryKeyNorm?: QueryKeyNormSpecification | undefined;
}

/**
 * Self-attention (Vaswani et al. 2017), also with fewer keys and values than queries. A rank holds complete
 * groups of heads: the packed projection is [G, A / G + 2, D, H], the queries of each group, then its key and
 * its value, so that the shard of a rank is one slice. Where every head is a group it is [A, 3, D, H].
 */
export class SelfAttention implements Sublayer {
  readonly parameters: readonly Parameter[];
  readonly reads: readonly RowCoordinate[];
  readonly adapters: readonly BlockAdapter[];
  readonly matmuls: MatmulCost;
  readonly #options: SublayerOptions<AttentionSpecification>;
  readonly #qkv: ReturnType<typeof columnParallelParameters>;
  readonly #projection: ReturnType<typeof rowParallelParameters>;
  readonly #qkvAdapters: LoraAdapters;
  readonly #projectionAdapters: LoraAdapters;
  readonly #groups: HeadGroups;
  readonly #headNorm: HeadNorm | undefined;
  readonly #wholeNorm: WholeNorm | undefined;
  readonly #rotaryTable: PositionTable | undefined;

  /**
   * @throws ConfigurationError MTL_ATTENTION_HEADS when the groups do not divide the heads,
   *   MTL_TENSOR_PARALLEL_SIZE when they cannot be sharded evenly
   */
  constructor(options: SublayerOptions<AttentionSpecification>) {
    const { name, hiddenSize, specification, initialization, lora, tensorParallel } = options;
    const { headSize, bias, qkvBias = bias, rotary } = specification;
    this.#groups = new HeadGroups(specification, tensorParallel);
    const { numGroups, headsPerGroup, what } = this.#groups;
    const matrices = queryKeyAndValue({ numGroups, headsPerGroup, headSize, hiddenSize });
    this.#options = options;
    this.#qkv = columnParallelParameters({
      name: `${name}.linear_qkv`,
      inputs: hiddenSize,
      outputs: [numGroups, headsPerGroup + 2, headSize],
      matrices,
      what,
      standardDeviation: initialization.standardDeviation,
      bias: qkvBias,
      tensorParallel,
    });
    this.#projection = rowParallelParameters({
      name: `${name}.linear_proj`,
      inputs: { numGroups, groupSize: headsPerGroup * headSize },
      outputs: hiddenSize,
      what,
      standardDeviation: initialization.residualStandardDeviation,
      bias,
      tensorParallel,
    });
    this.matmuls = {
      ...costOfWeights([this.#qkv.weight, this.#projection.weight]),
      attentionFeatures: specification.numHeads * headSize,
    };
    const [query, key, value] = matrices.map((box) => box.slice(0, -1));
    this.#qkvAdapters = new LoraAdapters({
      name: `${name}.linear_qkv`,
      weight: this.#qkv.weight,
      parallel: 'column',
      lora,
      tensorParallel,
      boxes: { qkv: 'all', query: query!, key: key!, value: value! },
    });
    this.#projectionAdapters = new LoraAdapters({
      name: `${name}.linear_proj`,
      weight: this.#projection.weight,
      parallel: 'row',
      lora,
      tensorParallel,
      boxes: { projection: 'all' },
    });
    this.adapters = [...this.#qkvAdapters.all, ...this.#projectionAdapters.all];
    const { queryKeyNorm } = specification;
    this.#headNorm = queryKeyNorm?.wholeWidth === true ? undefined : headNormOf(options);
    this.#wholeNorm = queryKeyNorm?.wholeWidth === true ? wholeNormOf(options, this.#groups) : undefined;
    this.#rotaryTable = rotary && rotaryPositions(rotary);
    const ofRotation: RowCoordinate[] =
      this.#rotaryTable === undefined ? [] : ['regionPositions', this.#rotaryTable];
    this.reads = [...ofRotation, ...this.#qkvAdapters.reads, ...this.#projectionAdapters.reads];
    const { queryBias, keyBias } = this.#headNorm ?? {};
    const { queryWeight, keyWeight } = this.#wholeNorm ?? this.#headNorm ?? {};
    const { weight, bias: outputBias } = this.#projection;
    const first = [this.#qkv.weight, this.#qkv.bias, ...this.#qkvAdapters.parameters];
    const last = [weight, ...this.#projectionAdapters.parameters, outputBias];
    this.parameters = [...first, queryWeight, queryBias, keyWeight, keyBias, ...last].filter(
      (parameter) => parameter !== undefined,
    );
  }

  forward(
    tape: Tape,
    { input, used, residual, dropout }: SublayerInput,
    context: MicroBatchContext,
  ): Variable {
    const { name, layer, specification } = this.#options;
    const { tensorParallel } = context;
    const { groups, heads } = this.#groups;
    const ownHeads = { numHeads: heads.end - heads.start, numGroups: groups.end - groups.start };
    const qkv = tape.scope(() => {
      const adapters = this.#qkvAdapters.in(context);
      const projected = columnParallelLinear(tape, { input, ...this.#qkv, adapters, tensorParallel });
      return this.#prepared(tape, { qkv: projected, ...ownHeads }, context);
    });
    used();
    const attended = context.attend(tape, {
      qkv,
      layer,
      ...ownHeads,
      headOffset: heads.start,
      windowSize: specification.windowSize,
      dropout: { site: `${name}.attention_dropout`, probability: specification.dropout },
    });
    qkv.release();
    const output = rowParallelLinear(tape, {
      input: attended,
      ...this.#projection,
      adapters: this.#projectionAdapters.in(context),
      dropout,
      residual,
      tensorParallel,
    });
    attended.release();
    return output;
  }

  /** Normalizes and rotates queries and keys, where the model does. */
  #prepared(
    tape: Tape,
    { qkv: projected, numGroups }: Pick<AttendCall, 'qkv' | 'numGroups'>,
    { rows, tensorParallel }: MicroBatchContext,
  ): Variable {
    const { headSize, rotary } = this.#options.specification;
    const [norm, table] = [this.#headNorm, this.#rotaryTable];
    const qkv =
      this.#wholeNorm === undefined
        ? projected
        : wholeHeadNorm(tape, {
            qkv: projected,
            numGroups,
            headSize,
            ...this.#wholeNorm,
            numShards: isSharded(tensorParallel) ? tensorParallel.group.size : 1,
            sum: sumOverRanks(tensorParallel),
          });
    if (norm === undefined && table === undefined) return qkv;
    const rotation: HeadRotation | undefined = table && {
      positions: rows.of('regionPositions'),
      table: rows.of(table).tensor,
      interleaved: rotary!.interleaved,
    };
    return prepareHeads(tape, { qkv, numGroups, headSize, norm, rotation });
  }
}

/** The inputs of `wholeHeadNorm`. */
type WholeNorm = Pick<WholeHeadNormOptions, 'queryWeight' | 'keyWeight' | 'epsilon'>;

/** Weights of the features of all heads, of which a rank holds those of its own. */
function wholeNormOf(
  { name, specification }: SublayerOptions<AttentionSpecification>,
  { heads, groups, numGroups }: HeadGroups,
): WholeNorm {
  const { queryKeyNorm, headSize, numHeads } = specification;
  const { kind, epsilon } = queryKeyNorm!;
  if (kind !== 'rms-norm') {
    throw new ConfigurationError('MTL_BLOCK_KIND', 'a layer norm of the queries and keys of all heads', {
      expected: 'RMSNorm',
      remedy: 'pass --normalization RMSNorm, or leave --qk-norm-whole-width out',
    });
  }
  const parameter = (
    of: string,
    { count, own }: { readonly count: number; readonly own: Slice },
  ): Parameter =>
    new Parameter({
      name: `${name}.${of}`,
      globalShape: [count * headSize],
      slices: [{ start: own.start * headSize, end: own.end * headSize }],
      placement: { sharded: { tp: 0 } },
      initialization: { kind: 'ones' },
    });
  return {
    queryWeight: parameter('q_layernorm.weight', { count: numHeads, own: heads }),
    keyWeight: parameter('k_layernorm.weight', { count: numGroups, own: groups }),
    epsilon,
  };
}

/** Returns the matrices of queries, keys and values in a weight [G, A / G + 2, D, H]. */
function queryKeyAndValue(options: {
  readonly numGroups: number;
  readonly headsPerGroup: number;
  readonly headSize: number;
  readonly hiddenSize: number;
}): Slice[][] {
  const { numGroups, headsPerGroup, headSize, hiddenSize } = options;
  const whole = (size: number): Slice => ({ start: 0, end: size });
  const heads = [0, headsPerGroup, headsPerGroup + 1, headsPerGroup + 2];
  return [0, 1, 2].map((part) => {
    const own = { start: heads[part]!, end: heads[part + 1]! };
    return [whole(numGroups), own, whole(headSize), whole(hiddenSize)];
  });
}

function headNormOf({
  name,
  specification,
  tensorParallel,
}: SublayerOptions<AttentionSpecification>): HeadNorm | undefined {
  const { queryKeyNorm, headSize } = specification;
  if (queryKeyNorm === undefined) return undefined;
  const parameter = (of: string, kind: 'ones' | 'zeros'): Parameter =>
    replicatedParameter({
      name: `${name}.${of}`,
      globalShape: [headSize],
      initialization: { kind },
      insideRegions: true,
      tensorParallel,
    });
  return {
    queryWeight: parameter('q_layernorm.weight', 'ones'),
    keyWeight: parameter('k_layernorm.weight', 'ones'),
    ...(queryKeyNorm.kind === 'layer-norm' && {
      queryBias: parameter('q_layernorm.bias', 'zeros'),
      keyBias: parameter('k_layernorm.bias', 'zeros'),
    }),
    epsilon: queryKeyNorm.epsilon,
  };
}

/** The heads of an attention and their groups, of which each rank has complete ones. */
export class HeadGroups {
  /** G, of all ranks. */
  readonly numGroups: number;
  /** A / G */
  readonly headsPerGroup: number;
  /** The name of the sharded parts, in the plural, for errors. */
  readonly what: string;
  /** The groups of this rank. */
  readonly groups: Slice;
  /** The query heads of this rank. */
  readonly heads: Slice;

  /**
   * @throws ConfigurationError MTL_ATTENTION_HEADS when the groups do not divide the heads,
   *   MTL_TENSOR_PARALLEL_SIZE when they cannot be sharded evenly
   */
  constructor(
    {
      numHeads,
      numGroups = numHeads,
    }: { readonly numHeads: number; readonly numGroups?: number | undefined },
    tensorParallel: TensorParallel | undefined,
  ) {
    if (numHeads % numGroups !== 0) {
      throw new ConfigurationError(
        'MTL_ATTENTION_HEADS',
        `${numGroups} query groups do not divide ${numHeads} attention heads`,
        { expected: nearestDivisors(numHeads, numGroups).join(' or ') },
      );
    }
    this.numGroups = numGroups;
    this.headsPerGroup = numHeads / numGroups;
    this.what = numGroups === numHeads ? 'attention heads' : 'query groups';
    this.groups = sliceOfRank(tensorParallel, { size: numGroups, what: this.what });
    const { start, end } = this.groups;
    this.heads = { start: start * this.headsPerGroup, end: end * this.headsPerGroup };
  }
}
