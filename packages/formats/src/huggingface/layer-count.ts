import type { KnownProperties } from './config-fields.js';
import type { JsonFields } from './json-fields.js';

/** The largest number of layers for which lists of layers are made. All known models have fewer. */
const mostLayers = 10_000;

/**
 * Rejects a number of layers for which lists of all layers would take too much memory. The number is from
 * config.json, and has not been compared with the weights yet.
 *
 * @throws CheckpointError MTL_HUGGING_FACE_CONFIG
 */
export function checkNumLayers(fields: JsonFields, { numLayers }: KnownProperties): void {
  if ((numLayers as number) <= mostLayers) return;
  throw fields.refuse('num_hidden_layers', `at most ${mostLayers}`);
}
