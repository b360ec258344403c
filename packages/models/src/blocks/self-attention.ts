import {
  type AttentionSinks,
  type HeadNorm,
  type HeadRotation,
  type Parameter,
  prepareHeads,
  splitProjection,
  type Tape,
  type Variable,
  type WholeHeadNormOptions,
  wholeHeadNorm,
} from '@mtl/autograd';
import { ConfigurationError, nearestDivisors } from '@mtl/errors';
import type { Slice } from '@mtl/layout';
import { HeadScores } from './head-scores.js';
import { type LayerFactory, sumOverShards } from './layer-factory.js';
import type { ColumnLayer, RowLayer } from './linear-layers.js';
import { costOfWeights, type MatmulCost } from './matmul-cost.js';
import type { MicroBatchContext } from './micro-batch-context.js';
import type { PositionTable } from './position-tables.js';
import { type RotarySpecification, rotaryPositions, rotarySpecification } from './rotary-positions.js';
import type { RowCoordinate } from './row-coordinates.js';
import type { Sublayer, SublayerInput, SublayerOptions } from './sublayer.js';
import {
  computeHeadSize,
  isRotatedLayer,
  type ModelOfBlocks,
  windowOfLayer,
} from './transformer-configuration.js';

export interface QueryKeyNormSpecification {
  readonly kind: 'layer-norm' | 'rms-norm';
  /** A small value, added to the variance or to the mean square for numerical stability. */
  readonly epsilon: number;
  /**
   * True if one RMS norm covers the queries of all heads together and a second one covers the keys. By
   * default, each head has its own norm.
   */
  readonly wholeWidth?: boolean | undefined;
}

/** The kind and the sizes of an attention layer. Registered kinds may add fields. */
export interface AttentionSpecification {
  readonly kind: string;
  /** A: query heads. */
  readonly numHeads: number;
  /**
   * G: how many groups the heads form. The A / G heads in a group share one key and one value (see Ainslie et
   * al. 2023). By default, each head is a group.
   */
  readonly numGroups?: number | undefined;
  /** D: how many features a head has. A * D may differ from the hidden size. */
  readonly headSize: number;
  /** True if the output projection has a bias. */
  readonly bias: boolean;
  /** True if the projections to queries, keys and values have biases. The default is `bias`. */
  readonly qkvBias?: boolean | undefined;
  /** The probability that an attention weight is dropped. */
  readonly dropout: number;
  /** How many earlier positions a query can attend to. Undefined means all. */
  readonly windowSize?: number | undefined;
  /** Rotary position embeddings for queries and keys. Undefined means none. */
  readonly rotary?: RotarySpecification | undefined;
  /**
   * The soft cap c: an attention score s becomes `c * tanh(s / c)` before the softmax. Undefined means no
   * soft cap.
   */
  readonly softCap?: number | undefined;
  /**
   * Gives each head an attention sink whose score is 0 (`zero`) or trained (`trained`). Undefined means no
   * sinks.
   */
  readonly sinks?: 'zero' | 'trained' | undefined;
  /**
   * The norm for each query and key before rotation, over the features of one head unless `wholeWidth` is
   * true. Undefined means no norm.
   */
  readonly queryKeyNorm?: QueryKeyNormSpecification | undefined;
}

/**
 * Returns the specification of self-attention in the layer with global index `layer`.
 *
 * @throws ConfigurationError MTL_ATTENTION_HEADS if the hidden size is not divisible by the number of heads
 */
export function specifySelfAttention(model: ModelOfBlocks, layer: number): AttentionSpecification {
  const { groupQueryAttention = false, numQueryGroups = 1, addBiasLinear: bias = true } = model;
  const { addQkvBias = false, normalization = 'LayerNorm', softmaxType = 'vanilla' } = model;
  const headSize = computeHeadSize(model);
  const rotary = isRotatedLayer(model, layer) ? rotarySpecification(model, headSize) : undefined;
  const windowSize = windowOfLayer(model, layer);
  const softCap = model.attnLogitSoftcapping;
  const kind = normalization === 'RMSNorm' ? 'rms-norm' : 'layer-norm';
  return {
    kind: 'self-attention',
    numHeads: model.numAttentionHeads,
    ...(groupQueryAttention && { numGroups: numQueryGroups }),
    headSize,
    bias,
    ...(addQkvBias && { qkvBias: true }),
    dropout: model.attentionDropout,
    ...(windowSize !== undefined && { windowSize }),
    ...(softCap !== undefined && { softCap }),
    ...(softmaxType !== 'vanilla' && { sinks: softmaxType === 'learnable' ? 'trained' : 'zero' }),
    ...(model.qkLayernorm === true && {
      queryKeyNorm: {
        kind,
        epsilon: model.layerNormEpsilon,
        ...(model.qkNormWholeWidth === true && { wholeWidth: true }),
      },
    }),
    ...(rotary !== undefined && { rotary }),
  };
}

/**
 * Self-attention (see Vaswani et al. 2017), with or without grouped queries. A rank holds complete groups of
 * heads. The weight of the packed projection is [G, A / G + 2, D, H]: for each group, its queries, then its
 * key and its value. A rank's shard is therefore a single slice. With one head per group, the shape is [A, 3,
 * D, H].
 */
export class SelfAttention implements Sublayer {
  readonly parameters: readonly Parameter[];
  readonly reads: readonly RowCoordinate[];
  readonly matmuls: MatmulCost;
  readonly scores: HeadScores;
  readonly #options: SublayerOptions<AttentionSpecification>;
  readonly #qkv: ColumnLayer;
  readonly #projection: RowLayer;
  readonly #groups: HeadGroups;
  readonly #headNorm: HeadNorm | undefined;
  readonly #wholeNorm: WholeNorm | undefined;
  readonly #rotaryTable: PositionTable | undefined;
  readonly #sinks: AttentionSinks | undefined;

  /**
   * @throws ConfigurationError MTL_ATTENTION_HEADS if the heads are not divisible by the groups;
   *   MTL_TENSOR_PARALLEL_SIZE if the groups cannot be sharded evenly
   */
  constructor(options: SublayerOptions<AttentionSpecification>) {
    const { name, hiddenSize, specification, initialization, factory } = options;
    const { headSize, bias, qkvBias = bias, rotary } = specification;
    this.#groups = new HeadGroups(specification, factory);
    const { numGroups, headsPerGroup, what } = this.#groups;
    const matrices = queryKeyAndValue({ numGroups, headsPerGroup, headSize, hiddenSize });
    const [query, key, value] = matrices.map((box) => box.slice(0, -1));
    this.#options = options;
    this.#qkv = factory.column({
      name: `${name}.linear_qkv`,
      inputs: hiddenSize,
      outputs: [numGroups, headsPerGroup + 2, headSize],
      matrices,
      what,
      standardDeviation: initialization.standardDeviation,
      bias: qkvBias,
      adapters: { qkv: 'all', query: query!, key: key!, value: value! },
    });
    const { weight, bias: itsBias } = this.#qkv;
    this.scores = new HeadScores({
      layer: options.layer,
      device: factory.device,
      groups: this.#groups,
      weight,
      bias: itsBias,
    });
    this.#projection = factory.row({
      name: `${name}.linear_proj`,
      inputs: { numGroups, groupSize: headsPerGroup * headSize },
      outputs: hiddenSize,
      what,
      standardDeviation: initialization.residualStandardDeviation,
      bias,
      adapters: { projection: 'all' },
    });
    this.matmuls = {
      ...costOfWeights([this.#qkv.weight, this.#projection.weight]),
      attentionFeatures: specification.numHeads * headSize,
    };
    const { queryKeyNorm } = specification;
    this.#headNorm = queryKeyNorm?.wholeWidth === true ? undefined : makeHeadNorm(options);
    this.#wholeNorm = queryKeyNorm?.wholeWidth === true ? makeWholeNorm(options, this.#groups) : undefined;
    this.#rotaryTable = rotary && rotaryPositions(rotary);
    this.#sinks = specification.sinks && { weight: makeSinkWeight(options, this.#groups) };
    const ofRotation: RowCoordinate[] =
      this.#rotaryTable === undefined ? [] : ['regionPositions', this.#rotaryTable];
    this.reads = [...ofRotation, ...this.#qkv.reads, ...this.#projection.reads];
    const { queryBias, keyBias } = this.#headNorm ?? {};
    const { queryWeight, keyWeight } = this.#wholeNorm ?? this.#headNorm ?? {};
    this.parameters = [
      ...this.#qkv.parameters,
      ...[queryWeight, queryBias, keyWeight, keyBias, this.#sinks?.weight].filter(
        (parameter) => parameter !== undefined,
      ),
      ...this.#projection.parameters,
    ];
  }

  forward(
    tape: Tape,
    { input, used, residual, dropout }: SublayerInput,
    context: MicroBatchContext,
  ): Variable {
    const { name, layer, specification } = this.#options;
    const { groups, heads } = this.#groups;
    const { headSize, windowSize, softCap } = specification;
    const numGroups = groups.end - groups.start;
    const qkv = tape.scope(() => this.#prepared(tape, this.#qkv.forward(tape, input, context), context));
    used();
    const attended = tape.scope(() =>
      context.attend(tape, {
        ...splitProjection(tape, { qkv, numGroups, headSize }),
        layer,
        headOffset: heads.start,
        windowSize,
        softCap,
        highestScores: this.scores.tensor,
        sinks: this.#sinks,
        dropout: { site: `${name}.attention_dropout`, probability: specification.dropout },
      }),
    );
    qkv.release();
    const output = this.#projection.forward(tape, { input: attended, dropout, residual }, context);
    attended.release();
    return output;
  }

  dispose(): void {
    this.scores.dispose();
  }

  [Symbol.dispose](): void {
    this.dispose();
  }

  /** Normalizes and rotates queries and keys if the specification asks for it. */
  #prepared(tape: Tape, projected: Variable, { rows, sharding }: MicroBatchContext): Variable {
    const { headSize, rotary } = this.#options.specification;
    const numGroups = this.#groups.groups.end - this.#groups.groups.start;
    const [norm, table] = [this.#headNorm, this.#rotaryTable];
    const qkv =
      this.#wholeNorm === undefined
        ? projected
        : wholeHeadNorm(tape, {
            qkv: projected,
            numGroups,
            headSize,
            ...this.#wholeNorm,
            ...sumOverShards(sharding),
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

/**
 * Makes the weights for the norms over the features of all heads. A rank has the weights for its own heads.
 */
function makeWholeNorm(
  { name, specification, factory }: SublayerOptions<AttentionSpecification>,
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
    factory.sharded({
      name: `${name}.${of}`,
      globalShape: [count * headSize],
      slices: [{ start: own.start * headSize, end: own.end * headSize }],
      initialization: { kind: 'ones' },
    });
  return {
    queryWeight: parameter('q_layernorm.weight', { count: numHeads, own: heads }),
    keyWeight: parameter('k_layernorm.weight', { count: numGroups, own: groups }),
    epsilon,
  };
}

/**
 * Makes the trained scores [A] of the sinks. Returns undefined if the specification has no trained sinks. A
 * rank has the scores of its own heads.
 */
function makeSinkWeight(
  { name, specification, factory, initialization }: SublayerOptions<AttentionSpecification>,
  { heads }: HeadGroups,
): Parameter | undefined {
  if (specification.sinks !== 'trained') return undefined;
  const { standardDeviation } = initialization;
  return factory.sharded({
    name: `${name}.core_attention.softmax_offset`,
    globalShape: [specification.numHeads],
    slices: [heads],
    initialization: { kind: 'normal', standardDeviation },
  });
}

/**
 * Returns three boxes: the parts of a weight [G, A / G + 2, D, H] that contain the matrices for queries, keys
 * and values.
 */
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

function makeHeadNorm({
  name,
  specification,
  factory,
}: SublayerOptions<AttentionSpecification>): HeadNorm | undefined {
  const { queryKeyNorm, headSize } = specification;
  if (queryKeyNorm === undefined) return undefined;
  const parameter = (of: string, kind: 'ones' | 'zeros'): Parameter =>
    factory.replicated({
      name: `${name}.${of}`,
      globalShape: [headSize],
      initialization: { kind },
      insideRegions: true,
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

/** Divides attention heads into groups. Each rank has complete groups. */
export class HeadGroups {
  /** G, of all ranks. */
  readonly numGroups: number;
  /** A / G */
  readonly headsPerGroup: number;
  /** The plural noun for the sharded items, used in error messages. */
  readonly what: string;
  /** The groups of this rank. */
  readonly groups: Slice;
  /** The query heads of this rank. */
  readonly heads: Slice;

  /**
   * @throws ConfigurationError MTL_ATTENTION_HEADS if the heads are not divisible by the groups;
   *   MTL_TENSOR_PARALLEL_SIZE if the groups cannot be sharded evenly
   */
  constructor(
    {
      numHeads,
      numGroups = numHeads,
    }: { readonly numHeads: number; readonly numGroups?: number | undefined },
    factory: LayerFactory,
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
    this.groups = factory.slice({ size: numGroups, what: this.what });
    const { start, end } = this.groups;
    this.heads = { start: start * this.headsPerGroup, end: end * this.headsPerGroup };
  }
}
