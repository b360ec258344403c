import type { KnownProperties } from './config-fields.js';
import type { JsonFields } from './json-fields.js';

/** The largest number of layers for which lists of layers are made. All known models have fewer layers. */
const mostLayers = 10_000;

/**
 * Rejects a number of layers for which a list of all layers would take too much memory. The number comes from
 * config.json and has not yet been compared with the weights.
 *
 * @throws CheckpointError MTL_HUGGING_FACE_CONFIG
 */
export function checkNumLayers(fields: JsonFields, { numLayers }: KnownProperties): void {
  if ((numLayers as number) <= mostLayers) return;
  throw fields.refuse('num_hidden_layers', `at most ${mostLayers}`);
}
