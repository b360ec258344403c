import { Parameter, route, routerLinear, type Tape, type Variable } from '@mtl/autograd';
import type { SublayerOptions } from '../blocks/sublayer.js';
import { ScoredLoad } from '../routing/expert-load.js';
import type { RoutingOfMicroBatch } from '../routing/routing-of-micro-batch.js';
import type { ExpertsSpecification } from './experts-specification.js';

/** The experts chosen for each row, and their probabilities. */
export interface Routing {
  /** int32 [T, k] */
  readonly experts: Variable;
  /** float32 [T, k] */
  readonly probabilities: Variable;
}

/**
 * Chooses the experts of each row. A linear layer computes logits and scores in float32. If scores are equal,
 * the expert with the lower index is chosen. With tensor parallelism, each process routes different rows, so
 * the gradients of the router's parameters are partial sums.
 */
export class Router {
  readonly parameters: readonly Parameter[];
  /** float32 [E], which is updated after each step; undefined if the router has no expert bias. */
  readonly expertBias: Parameter | undefined;
  /** The expert loads for the loss `global_aux_loss`; undefined if this loss is not used. */
  readonly scoredLoad: ScoredLoad | undefined;
  readonly #name: string;
  readonly #specification: ExpertsSpecification;
  readonly #weight: Parameter;
  readonly #bias: Parameter | undefined;

  constructor(options: SublayerOptions<ExpertsSpecification>) {
    const { name, hiddenSize, specification, initialization, factory } = options;
    const { numExperts, router } = specification;
    const common = { insideRegions: true };
    this.#name = name;
    this.#specification = specification;
    this.#weight = factory.replicated({
      ...common,
      name: `${name}.weight`,
      globalShape: [numExperts, hiddenSize],
      initialization: { kind: 'normal', standardDeviation: initialization.standardDeviation },
    });
    this.#bias = router.bias
      ? factory.replicated({
          ...common,
          name: `${name}.bias`,
          globalShape: [numExperts],
          initialization: { kind: 'zeros' },
        })
      : undefined;
    this.expertBias =
      router.expertBias &&
      new Parameter({
        name: `${name}.expert_bias`,
        globalShape: [numExperts],
        initialization: { kind: 'zeros' },
        isBuffer: true,
      });
    if (specification.balancingLosses.some(({ type }) => type === 'global_aux_loss')) {
      this.scoredLoad = new ScoredLoad({ numExperts, device: factory.device });
      this.#weight.attach(this.scoredLoad);
    }
    this.parameters = [this.#weight, this.#bias, this.expertBias].filter(
      (parameter) => parameter !== undefined,
    );
  }

  /** Computes logits, float32 [T, E], from [T, 1, H]. */
  logits(tape: Tape, input: Variable): Variable {
    return routerLinear(tape, { input, weight: this.#weight, bias: this.#bias });
  }

  /**
   * Returns each row's experts and their probabilities. If layers are recomputed, reuses the experts that
   * were selected in the forward pass.
   */
  route(tape: Tape, logits: Variable, passes: RoutingOfMicroBatch | undefined): Routing {
    const { topK, router } = this.#specification;
    const { scoreFunction, preSoftmax, scalingFactor, groups } = router;
    const chosen = passes?.chosen(this.#name);
    const routing = route(tape, {
      logits,
      experts: chosen && tape.input(chosen.view({ shape: chosen.shape })),
      expertBias: this.expertBias && tape.input(this.expertBias.data.view({ shape: this.expertBias.shape })),
      topK,
      scoreFunction,
      preSoftmax,
      scalingFactor,
      numGroups: groups?.number,
      groupTopK: groups?.topK,
    });
    passes?.keep({ router: this.#name, experts: routing.experts.tensor, logits: logits.tensor });
    return routing;
  }
}
