import type { KnownProperties } from './config-fields.js';
import type { JsonFields } from './json-fields.js';

/** The most layers that a list of layers is made for, more than any model has. */
const mostLayers = 10_000;

/**
 * Refuses a number of layers for which a list of all layers would take too much memory. A file may state any
 * number, and its weights have not been read yet.
 *
 * @throws CheckpointError MTL_HUGGING_FACE_CONFIG
 */
export function checkNumLayers(fields: JsonFields, { numLayers }: KnownProperties): void {
  if ((numLayers as number) <= mostLayers) return;
  throw fields.refuse('num_hidden_layers', `at most ${mostLayers}`);
}
