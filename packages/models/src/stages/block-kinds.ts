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

/** Parts of a model by the `kind` in their specifications: the kinds of this package and registered ones. */
export class KindRegistry<Options extends { readonly specification: { readonly kind: string } }, Part> {
  readonly #what: string;
  readonly #factories: Map<string, (options: Options) => Part>;

  /** @param what the name of the parts in errors: `norm` */
  constructor(what: string, builtIn: Readonly<Record<string, (options: Options) => Part>>) {
    this.#what = what;
    this.#factories = new Map(Object.entries(builtIn));
  }

  /**
   * Adds a kind. The factory gets the specification that a model was built with: fields that a kind adds are
   * declared in the type of the factory's options.
   *
   * @throws UsageError MTL_BLOCK_KIND when the kind is registered already
   */
  register<Own extends Options>(kind: string, factory: (options: Own) => Part): void {
    if (this.#factories.has(kind)) {
      throw new UsageError('MTL_BLOCK_KIND', `the ${this.#what} '${kind}' is registered already`, {
        expected: 'a kind that is not registered yet',
        remedy: 'choose another name',
        details: { kind },
      });
    }
    // the caller writes specifications of this kind, with the fields that its factory reads
    this.#factories.set(kind, factory as unknown as (options: Options) => Part);
  }

  /**
   * Builds a part of the specification's kind.
   *
   * @throws ConfigurationError MTL_BLOCK_KIND when the kind is not registered
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

/** Norms by kind: `layer-norm`, `rms-norm`, and registered ones. */
export const norms = new KindRegistry<NormOptions, Norm>('norm', {
  'layer-norm': (options) => new LayerNorm(options),
  'rms-norm': (options) => new RmsNorm(options),
});

/** Returns the attention of a layer if the architecture of its model is one that the kind describes. */
export type DescribeAttention = (model: ModelOfBlocks, layer: number) => AttentionSpecification | undefined;

/** Attentions by kind, and which kind the layers of a model have. */
class AttentionKinds extends KindRegistry<SublayerOptions<AttentionSpecification>, Sublayer> {
  readonly #descriptions: DescribeAttention[] = [];

  /**
   * Adds a function that describes the layers of some models, which is asked before the functions added
   * earlier: what it returns for an architecture decides the kind of its layers.
   */
  describe(description: DescribeAttention): void {
    this.#descriptions.unshift(description);
  }

  /**
   * Returns the attention of a layer, by its global index.
   *
   * @throws ConfigurationError MTL_ATTENTION_HEADS when the heads do not divide the hidden size
   */
  ofLayer(model: ModelOfBlocks, layer: number): AttentionSpecification {
    for (const describe of this.#descriptions) {
      const specification = describe(model, layer);
      if (specification !== undefined) return specification;
    }
    return specifySelfAttention(model, layer);
  }
}

/** Attentions by kind: `self-attention`, and registered ones. */
export const attentions = new AttentionKinds('attention', {
  'self-attention': (options) => new SelfAttention(options),
});

/**
 * Feed-forward networks by kind: `gelu`, `swiglu`, `squared-relu`, `clamped-glu`, `mixture-of-experts`, and
 * registered ones.
 */
export const feedForwards = new KindRegistry<SublayerOptions<FeedForwardSpecification>, Sublayer>(
  'feed-forward network',
  {
    gelu: (options) => {
      // specifications of this kind have its fields
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
