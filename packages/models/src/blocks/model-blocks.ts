import { ConfigurationError } from '@mtl/errors';
import type { BlockOfLayer, BlockSpecification } from './block-specification.js';
import type { TransformerConfiguration } from './transformer-configuration.js';

/** What a function of the caller's knows of a layer. */
export interface ModelBlocksOptions {
  /** Global index of the layer. */
  readonly layer: number;
  /** The block that the configuration of the model describes. */
  readonly standard: BlockSpecification;
  readonly model: TransformerConfiguration;
}

/** Gives each layer of a model its block, in place of the one that its configuration describes. */
export type ModelBlocks = (options: ModelBlocksOptions) => BlockSpecification;

const registered = new Map<string, ModelBlocks>();

/**
 * Gives models whose configuration has `modelBlocks: name` their blocks, also in place of those that had the
 * name before. Kinds of their own are registered with `norms`, `attentions` and `feedForwards`.
 */
export function registerModelBlocks(name: string, blocks: ModelBlocks): void {
  registered.set(name, blocks);
}

/**
 * The blocks of a model: one for all layers, or those of a function.
 *
 * @throws ConfigurationError MTL_BLOCK_KIND where the function is not registered
 */
export function blocksOf(
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
