import type { FlagReader } from '../validation/flag-reader.js';
import { readLayerList } from './layer-lists.js';

/**
 * Checks that a list of layers has one element for each layer.
 *
 * @returns the list; undefined if the flag has a number N or no value
 * @throws ConfigurationError `code`, whose remedy shows a list of the right length
 */
export function checkLayerList(
  flags: FlagReader,
  name: 'moe-layer-freq' | 'window-attn-skip-freq' | 'no-rope-freq',
  code: `MTL_${string}` = 'MTL_LAYER_LIST',
): readonly number[] | undefined {
  const [text, numLayers] = [flags.get(name), flags.required('num-layers')];
  const layers = text === undefined ? undefined : readLayerList(text);
  if (layers === undefined || typeof layers === 'number') return undefined;
  if (layers.length === numLayers) return layers;
  flags.refuse(name, `is a list of ${layers.length} layers, and ${flags.written('num-layers')}`, {
    code,
    expected: `${numLayers} numbers of 0 or 1`,
    remedy: `write a list of ${numLayers}, such as "([0]+[1]*${numLayers - 1})"`,
    details: { flag: name, length: layers.length, numLayers },
  });
}

/**
 * Checks the flags of layers with a window and of layers without rotary position embeddings.
 *
 * @throws ConfigurationError `MTL_LAYER_LIST` for a list of the wrong length, `MTL_FLAG_NEEDS` for a model
 *   without windows or rotary position embeddings
 */
export function checkAttentionLayers(flags: FlagReader): void {
  const needs = (name: 'window-attn-skip-freq' | 'no-rope-freq', other: string): void =>
    flags.needsFor([name], other, 'has no effect without it');
  if (flags.get('window-size') === undefined) needs('window-attn-skip-freq', '--window-size');
  const type = flags.required('position-embedding-type');
  if (type !== 'rope' && type !== 'yarn') needs('no-rope-freq', '--position-embedding-type rope');
  checkLayerList(flags, 'window-attn-skip-freq');
  checkLayerList(flags, 'no-rope-freq');
}
