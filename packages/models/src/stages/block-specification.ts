import { ConfigurationError } from '@mtl/errors';
import type {
  ClampedGluSpecification,
  FeedForwardSpecification,
  GeluFeedForwardSpecification,
} from '../blocks/feed-forward.js';
import type { NormSpecification } from '../blocks/norms.js';
import type { AttentionSpecification } from '../blocks/self-attention.js';
import type { BlockInitialization } from '../blocks/sublayer.js';
import type {
  BlockVariants,
  ModelOfBlocks,
  TransformerConfiguration,
} from '../blocks/transformer-configuration.js';
import type { ExpertVariants } from '../experts/experts-specification.js';
import { attentions } from './block-kinds.js';

/** Where the norms are: before each sublayer (`pre`), or after its residual sum (`post`). */
export type LayerNormPlacement = 'pre' | 'post';

/**
 * The components of a model's blocks. The registries `norms`, `attentions` and `feedForwards` contain their
 * kinds.
 */
export interface BlockSpecification {
  /** H */
  readonly hiddenSize: number;
  readonly norm: NormSpecification;
  readonly normPlacement: LayerNormPlacement;
  readonly attention: AttentionSpecification;
  readonly feedForward: FeedForwardSpecification;
  /** The probability that a hidden state is dropped before it is added to the residual. */
  readonly hiddenDropout: number;
  readonly initialization: BlockInitialization;
}

/** Returns the specification for the layer with global index `layer`. */
export type BlockOfLayer = (layer: number) => BlockSpecification;

/**
 * Returns a function from layer indices to specifications. `block` is either such a function or a single
 * specification for all layers.
 *
 * @throws ConfigurationError `MTL_BLOCK_KIND` for layers that do not fit together: different hidden sizes or
 *   norm placements
 */
export function blockOfLayer(
  block: BlockSpecification | BlockOfLayer,
  { numLayers }: { readonly numLayers: number },
): BlockOfLayer {
  if (typeof block !== 'function') return () => block;
  const all = Array.from({ length: numLayers }, (_, layer) => block(layer));
  const [first] = all;
  for (const [layer, { hiddenSize, normPlacement }] of all.entries()) {
    if (hiddenSize === first!.hiddenSize && normPlacement === first!.normPlacement) continue;
    throw new ConfigurationError(
      'MTL_BLOCK_KIND',
      `layer ${layer} has a hidden size of ${hiddenSize} and norms placed '${normPlacement}'`,
      { expected: `${first!.hiddenSize} and '${first!.normPlacement}', as in layer 0` },
    );
  }
  return (layer) => all[layer]!;
}

/**
 * Checks that a model without a causal mask has no sliding windows, because these cover only tokens before a
 * query.
 *
 * @throws ConfigurationError `MTL_BLOCK_KIND` if a layer has a window
 */
export function expectNoWindows(block: BlockOfLayer, { numLayers }: { readonly numLayers: number }): void {
  for (let layer = 0; layer < numLayers; layer++) {
    const { windowSize } = block(layer).attention;
    if (windowSize === undefined) continue;
    throw new ConfigurationError(
      'MTL_BLOCK_KIND',
      `attention of layer ${layer} has a window of ${windowSize} tokens before its own`,
      { expected: 'no windowSize in a model such as a BERT, whose tokens see those behind them, too' },
    );
  }
}

/**
 * Returns the block for the layer with global index `layer`. If the model sets no other properties, this is
 * the block of GPT-2 and BERT: layer norms, self-attention and a feed-forward network with GELU, all with
 * biases. The model's properties replace these components. Rotary position embeddings are part of attention
 * (see Llama, Touvron et al. 2023; RoFormer, Su et al. 2021).
 *
 * @throws ConfigurationError MTL_ATTENTION_HEADS if the hidden size is not divisible by the number of heads
 */
export function transformerBlockSpecification(
  model: ModelOfBlocks & ExpertVariants,
  { normPlacement, layer = 0 }: { readonly normPlacement: LayerNormPlacement; readonly layer?: number },
): BlockSpecification {
  const { numLayers, hiddenSize, ffnHiddenSize, initMethodStd, hiddenDropout } = model;
  const { addBiasLinear: bias = true, normalization = 'LayerNorm' } = model;
  const epsilon = model.layerNormEpsilon;
  return {
    hiddenSize,
    norm: { kind: normalization === 'RMSNorm' ? 'rms-norm' : 'layer-norm', epsilon },
    normPlacement,
    attention: attentions.ofLayer(model, layer),
    feedForward: specifyFeedForward(model, { ffnHiddenSize, bias }),
    hiddenDropout,
    initialization: {
      standardDeviation: initMethodStd,
      // weights whose output is added to the residual have a smaller initial standard deviation, as in
      // Megatron-LM
      residualStandardDeviation: initMethodStd / Math.sqrt(2 * numLayers),
    },
  };
}

function specifyFeedForward(
  model: TransformerConfiguration &
    BlockVariants &
    Pick<ExpertVariants, 'quickGeglu' | 'gluLinearOffset' | 'activationFuncClampValue'>,
  sizes: Omit<FeedForwardSpecification, 'kind'>,
): FeedForwardSpecification {
  const { swiglu = false, squaredRelu = false, quickGeglu = false, geluKind } = model;
  const { gluLinearOffset: linearOffset, activationFuncClampValue: clamp } = model;
  if (quickGeglu || (swiglu && (linearOffset !== undefined || clamp !== undefined))) {
    const gate = quickGeglu ? 'clampedQuickGeglu' : 'swiglu';
    const specification: FeedForwardSpecification & ClampedGluSpecification = {
      kind: 'clamped-glu',
      ...sizes,
      gate,
      ...(clamp !== undefined && { clamp }),
      ...(linearOffset !== undefined && { linearOffset }),
    };
    return specification;
  }
  if (swiglu) return { kind: 'swiglu', ...sizes };
  if (squaredRelu) return { kind: 'squared-relu', ...sizes };
  const specification: GeluFeedForwardSpecification = { kind: 'gelu', ...sizes, geluKind };
  return specification;
}

/** The arguments of a registered function (`registerModelBlocks`). */
export interface ModelBlocksOptions {
  /** Global index of the layer. */
  readonly layer: number;
  /** The block that the model's configuration describes. */
  readonly standard: BlockSpecification;
  readonly model: TransformerConfiguration;
}

/** Returns the block for a layer. It replaces the block that the configuration describes. */
export type ModelBlocks = (options: ModelBlocksOptions) => BlockSpecification;

const registered = new Map<string, ModelBlocks>();

/**
 * Registers a function that returns the blocks for models whose configuration has `modelBlocks: name`. It
 * replaces an earlier function with the same name. To register new kinds of components, use `norms`,
 * `attentions` and `feedForwards`.
 */
export function registerModelBlocks(name: string, blocks: ModelBlocks): void {
  registered.set(name, blocks);
}

/**
 * Returns a model's blocks. If the configuration has no `modelBlocks`, they are the standard blocks.
 * Otherwise, they are the results of the function registered under this name.
 *
 * @throws ConfigurationError MTL_BLOCK_KIND if the function is not registered
 */
export function resolveBlocks(
  model: TransformerConfiguration,
  standard: BlockSpecification | BlockOfLayer,
): BlockSpecification | BlockOfLayer {
  const { modelBlocks: name } = model;
  if (name === undefined) return standard;
  const blocks = registered.get(name);
  const ofLayer = typeof standard === 'function' ? standard : () => standard;
  if (blocks !== undefined) return (layer) => blocks({ layer, standard: ofLayer(layer), model });
  throw new ConfigurationError('MTL_BLOCK_KIND', `the model has blocks of its own, of ${name}`, {
    expected: 'these blocks, registered: a module is run only where the user names it',
    remedy: `pass --model-blocks ${name} to a training run if you trust it, or call registerModelBlocks`,
  });
}
