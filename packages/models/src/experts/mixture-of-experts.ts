import {
  biasDropoutResidual,
  type Parameter,
  recompute,
  reshape,
  type Tape,
  type Variable,
} from '@mtl/autograd';
import type { ProcessGroup } from '@mtl/comm';
import { ConfigurationError } from '@mtl/errors';
import { dropOverCapacity } from '@mtl/kernels';
import {
  dispatchTokens,
  type ExpertParallel,
  isSharded,
  joinShares,
  type SentTokens,
  shareOfRows,
} from '@mtl/tensor-parallel';
import type { BlockAdapter } from '../blocks/lora.js';
import type { MatmulCost } from '../blocks/matmul-cost.js';
import type { MicroBatchContext } from '../blocks/micro-batch-context.js';
import type { RowCoordinate } from '../blocks/row-coordinates.js';
import type { Sublayer, SublayerInput, SublayerOptions } from '../blocks/sublayer.js';
import { ExpertLoad } from '../routing/expert-load.js';
import { lossesOf, type PendingLosses, startBalancingLosses } from './balancing-losses.js';
import type { ExpertsSpecification } from './experts-specification.js';
import { RoutedExperts } from './routed-experts.js';
import { Router, type Routing } from './router.js';
import { SharedExperts } from './shared-experts.js';

/** Rows of one process: others have others. */
interface OwnRows {
  /** [T, 1, H] */
  readonly rows: Variable;
  /** The processes whose rows are those of the same sequences; undefined: all are here. */
  readonly group: ProcessGroup | undefined;
  /** The processes that have the same rows and route a share each; undefined: others have others. */
  readonly sharing: ProcessGroup | undefined;
}

/**
 * A feed-forward network of experts (Shazeer et al. 2017): a router chooses k of E for each token, whose
 * outputs are summed by their probabilities. Each process of a tensor-parallel group routes rows of its own:
 * its shard of the sequence, or without sequence parallelism its share of the rows.
 */
export class MixtureOfExperts implements Sublayer {
  readonly parameters: readonly Parameter[];
  readonly adapters: readonly BlockAdapter[];
  readonly reads: readonly RowCoordinate[];
  readonly losses: readonly string[];
  readonly matmuls: MatmulCost;
  /** The rows that its experts got. */
  readonly load: ExpertLoad;
  readonly #specification: ExpertsSpecification;
  readonly #expertParallel: ExpertParallel | undefined;
  readonly #router: Router;
  readonly #experts: RoutedExperts;
  readonly #shared: SharedExperts | undefined;

  /** @throws ConfigurationError MTL_EXPERT_PARALLEL_SIZE where experts or features cannot be spread evenly */
  constructor(options: SublayerOptions<ExpertsSpecification>) {
    const { name, specification, lora, expertParallel } = options;
    const { topK, numExperts, router } = specification;
    this.#specification = specification;
    this.#expertParallel = expertParallel;
    this.#router = new Router({ ...options, name: `${name}.router` });
    this.#experts = new RoutedExperts({ ...options, name: `${name}.experts` }, expertParallel);
    this.#shared =
      specification.shared &&
      new SharedExperts({ ...options, name: `${name}.shared_experts` }, specification.shared);
    this.parameters = [
      ...this.#router.parameters,
      ...this.#experts.parameters,
      ...(this.#shared?.parameters ?? []),
    ];
    this.adapters = [...this.#experts.adapters, ...(this.#shared?.adapters ?? [])];
    this.reads = this.#shared?.reads ?? [];
    this.losses = lossesOf(specification);
    const weights = topK * this.#experts.weightsOfExpert + (this.#shared?.weights ?? 0);
    this.matmuls = { weights, attentionFeatures: 0 };
    const { expertBias } = this.#router;
    // where adapters are trained, nothing else changes
    const updateRate = lora === undefined ? (router.expertBias?.updateRate ?? 0) : 0;
    const scored = this.#router.scoredLoad;
    this.load = new ExpertLoad({ layer: name, numExperts, expertBias, updateRate, scored });
  }

  forward(
    tape: Tape,
    { input, used, residual, dropout }: SublayerInput,
    context: MicroBatchContext,
  ): Variable {
    const isRecomputed = context.recomputed?.includes('moe') === true;
    const output = isRecomputed
      ? recompute(tape, input, (inner, again) => this.#output(inner, again, context))
      : this.#output(tape, input, context);
    used();
    return biasDropoutResidual(tape, { input: output, residual, dropout });
  }

  /** Returns the experts' outputs together, [S, B, H]. */
  #output(tape: Tape, input: Variable, context: MicroBatchContext): Variable {
    const { shape } = input.tensor;
    return tape.scope(() => {
      const own = ownRows(tape, input, context);
      const routing = this.#route(tape, own, { numSequences: shape[1]!, context });
      const sent = this.#send(tape, own, { routing, context });
      // shared experts compute during the exchanges of rows where there are any
      const shared = sent.isExchange ? this.#shared?.begin(tape, input, context) : undefined;
      const tokens = sent.arrive(tape);
      const combined = tokens.combine(tape, this.#experts.forward(tape, tokens));
      const output = shared?.finish(tape);
      const rows = combined.finish(tape);
      const whole = own.sharing === undefined ? rows : joinShares(tape, rows, own.sharing);
      const routed = reshape(tape, { input: whole, shape });
      if (output !== undefined) return biasDropoutResidual(tape, { input: output, residual: routed });
      return this.#shared === undefined ? routed : this.#shared.add(tape, { input, routed }, context);
    });
  }

  #route(
    tape: Tape,
    { rows, group }: OwnRows,
    { numSequences, context }: { readonly numSequences: number; readonly context: MicroBatchContext },
  ): Routing {
    const logits = this.#router.logits(tape, rows);
    const losses = this.#startLosses(tape, logits, { group, numSequences, context });
    const routing = this.#router.route(tape, logits, context.routing);
    losses?.finish();
    return routing;
  }

  /** Returns the losses of the router, and its entropy while that is watched. */
  #startLosses(
    tape: Tape,
    logits: Variable,
    {
      group,
      numSequences,
      context,
    }: Pick<OwnRows, 'group'> & { readonly numSequences: number; readonly context: MicroBatchContext },
  ): PendingLosses | undefined {
    const countsLoads = context.routing?.countsLoads ?? false;
    const { entropy } = this.load;
    if (context.losses === undefined || this.losses.length === 0) {
      const { topK, router } = this.#specification;
      if (countsLoads && entropy.isWatched) {
        entropy.addLogits(logits.tensor, { topK, scoreFunction: router.scoreFunction });
      }
      return undefined;
    }
    return startBalancingLosses(tape, {
      logits,
      specification: this.#specification,
      numSequences,
      group,
      losses: context.losses,
      scoredLoad: this.#router.scoredLoad,
      countsLoads,
      entropy,
    });
  }

  #send(
    tape: Tape,
    { rows }: OwnRows,
    { routing, context }: { readonly routing: Routing; readonly context: MicroBatchContext },
  ): SentTokens {
    const sent = dispatchTokens(tape, {
      input: rows,
      ...routing,
      experts: this.#withinCapacity(tape, routing),
      numExperts: this.#specification.numExperts,
      expertParallel: this.#expertParallel,
    });
    if (context.routing?.countsLoads) this.load.add(sent.load.tensor, routing.experts.tensor.size);
    return sent;
  }

  /**
   * Returns the choice without what experts have no room for, which adds nothing: probabilities stay as they
   * are.
   */
  #withinCapacity(tape: Tape, { experts, probabilities }: Routing): Variable {
    const { capacity, numExperts } = this.#specification;
    if (capacity === undefined) return experts;
    const kept = dropOverCapacity({
      experts: experts.tensor,
      probabilities: probabilities.tensor,
      numExperts,
      capacity: Math.ceil((experts.tensor.size / numExperts) * capacity.factor),
      byPosition: capacity.policy === 'position',
    });
    return tape.result(kept, { requiresGradient: false });
  }

  dispose(): void {
    this.load.dispose();
  }

  [Symbol.dispose](): void {
    this.dispose();
  }
}

/**
 * Returns the rows that this process routes: all it has where the sequence is sharded or nothing is; else its
 * share of the rows that all tensor-parallel processes have. Where that is uneven and nothing is trained,
 * each computes all of them.
 */
function ownRows(tape: Tape, input: Variable, { tensorParallel, sequence }: MicroBatchContext): OwnRows {
  const [length, numSequences, hiddenSize] = input.tensor.shape as [number, number, number];
  const rows = reshape(tape, { input, shape: [length * numSequences, 1, hiddenSize] });
  // every tensor-parallel process has the same rows
  const whole = { rows, group: sequence?.group, sharing: undefined };
  if (!isSharded(tensorParallel)) return whole;
  const { group: sharing, sequenceParallel } = tensorParallel;
  const group = sequence?.groupWithTensor ?? sharing;
  if (sequenceParallel) return { rows, group, sharing: undefined };
  const { size } = sharing;
  if (length % size === 0) return { rows: shareOfRows(tape, rows, sharing), group, sharing };
  if (!tape.recording) return whole;
  throw new ConfigurationError(
    'MTL_TENSOR_PARALLEL_SIZE',
    `${length} positions cannot be shared out evenly over ${size} tensor-parallel processes, each of which routes its own to experts`,
    { expected: `a multiple of ${size} positions`, details: { length, size } },
  );
}
