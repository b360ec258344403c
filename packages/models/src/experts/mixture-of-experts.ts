import {
  biasDropoutResidual,
  type Parameter,
  recompute,
  reshape,
  type Tape,
  type Variable,
} from '@mtl/autograd';
import { dropOverCapacity } from '@mtl/kernels';
import type { LayerFactory, SentTokens } from '../blocks/layer-factory.js';
import type { MatmulCost } from '../blocks/matmul-cost.js';
import type { MicroBatchContext } from '../blocks/micro-batch-context.js';
import type { RowCoordinate } from '../blocks/row-coordinates.js';
import type { Sublayer, SublayerInput, SublayerOptions } from '../blocks/sublayer.js';
import { ExpertLoad } from '../routing/expert-load.js';
import { listLosses, type PendingLosses, startBalancingLosses } from './balancing-losses.js';
import type { ExpertsSpecification } from './experts-specification.js';
import { type OwnRows, ownRows } from './own-rows.js';
import { RoutedExperts } from './routed-experts.js';
import { Router, type Routing } from './router.js';
import { SharedExperts } from './shared-experts.js';

/**
 * A feed-forward network of experts (see Shazeer et al. 2017). A router chooses k of E experts for each
 * token. The chosen experts' outputs are added, weighted by their probabilities. The processes in a
 * tensor-parallel group route different rows: with sequence parallelism, their shards of the sequence;
 * otherwise, equal shares of their common rows.
 */
export class MixtureOfExperts implements Sublayer {
  readonly parameters: readonly Parameter[];
  readonly reads: readonly RowCoordinate[];
  readonly losses: readonly string[];
  readonly matmuls: MatmulCost;
  /** Counts the rows of each expert. */
  readonly load: ExpertLoad;
  readonly #specification: ExpertsSpecification;
  readonly #factory: LayerFactory;
  readonly #router: Router;
  readonly #experts: RoutedExperts;
  readonly #shared: SharedExperts | undefined;

  /**
   * @throws ConfigurationError MTL_EXPERT_PARALLEL_SIZE if the experts or their features cannot be sharded
   * evenly
   */
  constructor(options: SublayerOptions<ExpertsSpecification>) {
    const { name, specification, factory } = options;
    const { topK, numExperts, router } = specification;
    this.#specification = specification;
    this.#factory = factory;
    this.#router = new Router({ ...options, name: `${name}.router` });
    this.#experts = new RoutedExperts({ ...options, name: `${name}.experts` });
    this.#shared =
      specification.shared &&
      new SharedExperts({ ...options, name: `${name}.shared_experts` }, specification.shared);
    this.parameters = [
      ...this.#router.parameters,
      ...this.#experts.parameters,
      ...(this.#shared?.parameters ?? []),
    ];
    this.reads = this.#shared?.reads ?? [];
    this.losses = listLosses(specification);
    const weights = topK * this.#experts.weightsOfExpert + (this.#shared?.weights ?? 0);
    this.matmuls = { weights, attentionFeatures: 0 };
    const { expertBias } = this.#router;
    // when adapters are trained, all other parameters are frozen, including the expert biases
    const updateRate = factory.trainsAdapters ? 0 : (router.expertBias?.updateRate ?? 0);
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

  /** Computes the weighted sum of the experts' outputs, [S, B, H]. */
  #output(tape: Tape, input: Variable, context: MicroBatchContext): Variable {
    const { shape } = input.tensor;
    return tape.scope(() => {
      const own = ownRows(tape, input, context);
      const routing = this.#route(tape, own, { numSequences: shape[1]!, context });
      const sent = this.#send(tape, own, { routing, context });
      // the shared experts compute while processes exchange rows
      const shared = sent.isExchange ? this.#shared?.begin(tape, input, context) : undefined;
      const tokens = sent.arrive(tape);
      const combined = tokens.combine(tape, this.#experts.forward(tape, tokens));
      const output = shared?.finish(tape);
      const routed = reshape(tape, { input: own.whole(tape, combined.finish(tape)), shape });
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

  /** Starts to compute the router's losses. If requested, also records the entropy of its scores. */
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
    const sent = this.#factory.dispatch(tape, {
      input: rows,
      ...routing,
      experts: this.#withinCapacity(tape, routing),
      numExperts: this.#specification.numExperts,
    });
    if (context.routing?.countsLoads) this.load.add(sent.load.tensor, routing.experts.tensor.size);
    return sent;
  }

  /**
   * Returns the chosen experts without the assignments that exceed an expert's capacity. A dropped assignment
   * contributes nothing, and the probabilities of the remaining assignments do not change.
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
