import { ConfigurationError, UsageError } from '@mtl/errors';
import {
  ActivatedFeedForward,
  type ClampedGluSpecification,
  clampedGluActivation,
  type FeedForwardSpecification,
  type GeluFeedForwardSpecification,
  geluActivation,
  squaredReluActivation,
  swigluActivation,
} from '../blocks/feed-forward.js';
import { LayerNorm, type Norm, type NormOptions, RmsNorm } from '../blocks/norms.js';
import {
  type AttentionSpecification,
  SelfAttention,
  specifySelfAttention,
} from '../blocks/self-attention.js';
import type { Sublayer, SublayerOptions } from '../blocks/sublayer.js';
import type { ModelOfBlocks } from '../blocks/transformer-configuration.js';
import type { ExpertsSpecification } from '../experts/experts-specification.js';
import { MixtureOfExperts } from '../experts/mixture-of-experts.js';

/**
 * The registered kinds of one model component, for example norms or attentions. Some kinds are built in, and
 * callers may register more. The `kind` in a specification selects the factory.
 */
export class KindRegistry<Options extends { readonly specification: { readonly kind: string } }, Part> {
  readonly #what: string;
  readonly #factories: Map<string, (options: Options) => Part>;

  /** @param what the name of the component in error messages, for example `norm` */
  constructor(what: string, builtIn: Readonly<Record<string, (options: Options) => Part>>) {
    this.#what = what;
    this.#factories = new Map(Object.entries(builtIn));
  }

  /**
   * Adds a kind. `factory` receives the specification from the model. The type of its options declares this
   * kind's additional fields.
   *
   * @throws UsageError MTL_BLOCK_KIND if the kind is already registered
   */
  register<Own extends Options>(kind: string, factory: (options: Own) => Part): void {
    if (this.#factories.has(kind)) {
      throw new UsageError('MTL_BLOCK_KIND', `the ${this.#what} '${kind}' is registered already`, {
        expected: 'a kind that is not registered yet',
        remedy: 'choose another name',
        details: { kind },
      });
    }
    // the cast is safe, because every specification of this kind has the fields that its factory reads
    this.#factories.set(kind, factory as unknown as (options: Options) => Part);
  }

  /**
   * Builds a component whose kind is in the specification.
   *
   * @throws ConfigurationError MTL_BLOCK_KIND if the kind is not registered
   */
  build(options: Options): Part {
    const { kind } = options.specification;
    const factory = this.#factories.get(kind);
    if (factory !== undefined) return factory(options);
    throw new ConfigurationError('MTL_BLOCK_KIND', `unknown ${this.#what} '${kind}'`, {
      expected: [...this.#factories.keys()].join(', '),
      remedy: 'register the kind before the model is built',
      details: { kind },
    });
  }
}

/** The norms by kind: `layer-norm`, `rms-norm` and registered kinds. */
export const norms = new KindRegistry<NormOptions, Norm>('norm', {
  'layer-norm': (options) => new LayerNorm(options),
  'rms-norm': (options) => new RmsNorm(options),
});

/**
 * Returns the specification of a layer's attention, or undefined if the function does not know the
 * architecture.
 */
export type DescribeAttention = (model: ModelOfBlocks, layer: number) => AttentionSpecification | undefined;

/**
 * The registry of attentions. It also has functions that choose the kind of attention for each layer of a
 * model.
 */
class AttentionKinds extends KindRegistry<SublayerOptions<AttentionSpecification>, Sublayer> {
  readonly #descriptions: DescribeAttention[] = [];

  /**
   * Adds a function that describes the attention of some models. Later functions are called before earlier
   * functions. The first result that is not undefined determines a layer's attention.
   */
  describe(description: DescribeAttention): void {
    this.#descriptions.unshift(description);
  }

  /**
   * Returns the specification of attention in the layer with global index `layer`.
   *
   * @throws ConfigurationError MTL_ATTENTION_HEADS if the hidden size is not divisible by the number of heads
   */
  ofLayer(model: ModelOfBlocks, layer: number): AttentionSpecification {
    for (const describe of this.#descriptions) {
      const specification = describe(model, layer);
      if (specification !== undefined) return specification;
    }
    return specifySelfAttention(model, layer);
  }
}

/** Attentions by kind: `self-attention` and registered kinds. */
export const attentions = new AttentionKinds('attention', {
  'self-attention': (options) => new SelfAttention(options),
});

/**
 * The feed-forward networks by kind: `gelu`, `swiglu`, `squared-relu`, `clamped-glu`, `mixture-of-experts`
 * and registered kinds.
 */
export const feedForwards = new KindRegistry<SublayerOptions<FeedForwardSpecification>, Sublayer>(
  'feed-forward network',
  {
    gelu: (options) => {
      // the cast is safe, because specifications of this kind have these fields
      const { geluKind } = options.specification as GeluFeedForwardSpecification;
      return new ActivatedFeedForward(options, geluActivation(geluKind));
    },
    swiglu: (options) => new ActivatedFeedForward(options, swigluActivation),
    'squared-relu': (options) => new ActivatedFeedForward(options, squaredReluActivation),
    'clamped-glu': (options) =>
      new ActivatedFeedForward(
        options,
        clampedGluActivation(options.specification as FeedForwardSpecification & ClampedGluSpecification),
      ),
    'mixture-of-experts': (options) => new MixtureOfExperts(options as SublayerOptions<ExpertsSpecification>),
  },
);
