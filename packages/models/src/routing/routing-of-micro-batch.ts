import type { Tensor } from '@mtl/kernels';

/** The choice of a router in a training forward pass. The router still owns the tensors. */
interface ObservedChoice {
  /** The name of the router. */
  readonly router: string;
  /** int32 [T, k]: the experts of the rows that this process routes. */
  readonly experts: Tensor;
  /** float32 [T, E] */
  readonly logits: Tensor;
  /** int64 [B]: the global numbers of the samples; row t belongs to sample t % B. */
  readonly samples: Tensor;
  /** The indices in [S, B] of the rows of this rank and its tensor-parallel ranks; undefined: all rows. */
  readonly indices: Int32Array | undefined;
}

/** The properties of an observed choice that the router provides. */
export type Choice = Omit<ObservedChoice, 'samples' | 'indices'>;

export type RoutingObserver = (choice: ObservedChoice) => void;

/**
 * The state of a stage's routers for a micro-batch: a flag for counting loads, and the experts chosen in the
 * forward pass, which recomputed layers use again.
 */
export class RoutingOfMicroBatch {
  readonly #isTraining: boolean;
  readonly #observe: (choice: Choice) => void;
  readonly #kept = new Map<string, Tensor>();
  #isForward = true;

  constructor({
    training,
    observe = () => {},
  }: {
    readonly training: boolean;
    /** This function is called with each choice in the forward pass. Default: none. */
    readonly observe?: ((choice: Choice) => void) | undefined;
  }) {
    this.#isTraining = training;
    this.#observe = observe;
  }

  /**
   * True if the routed rows count in the loads of experts. This is the case only in the forward pass of
   * training, so that recomputation does not count rows twice.
   */
  get countsLoads(): boolean {
    return this.#isTraining && this.#isForward;
  }

  /** Keeps the choice of a router for recomputation. The caller still owns the choice. */
  keep(choice: Choice): void {
    if (!this.countsLoads) return;
    const { router, experts } = choice;
    this.#kept.get(router)?.dispose();
    this.#kept.set(router, experts.view({ shape: experts.shape }));
    this.#observe(choice);
  }

  /** Returns the experts that a router chose in the forward pass; undefined during the forward pass. */
  chosen(router: string): Tensor | undefined {
    return this.#isForward ? undefined : this.#kept.get(router);
  }

  endForward(): void {
    this.#isForward = false;
  }

  release(): void {
    for (const experts of this.#kept.values()) experts.dispose();
    this.#kept.clear();
  }
}
