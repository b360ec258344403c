/**
 * The maximum number of layers with separate scalars. If a model has more layers, evenly spaced layers are
 * selected.
 */
const mostLayers = 16;

/** A scalar in the summary of a record of type `experts`. Each scalar becomes a curve. */
export interface ExpertScalar {
  readonly name: string;
  readonly value: number;
}

/**
 * Returns the scalars of an `experts` record by name, over all layers: `experts/max_load` (the load of the
 * busiest expert relative to an even load; the largest value over all layers), `experts/dropped` (the
 * fraction of expert assignments that were dropped; a mean over layers) and `experts/entropy` (the entropy of
 * the router's scores, in nats; a mean over layers). The same scalars for layer N are named
 * `experts/layer_N/...`. They exist for at most 16 layers, so there are at most 51 scalars. Returns an empty
 * list for a record in a different form.
 */
export function expertScalars(fields: Readonly<Record<string, unknown>>): readonly ExpertScalar[] {
  const { layers, loads, dropped, entropy } = fields;
  if (!Array.isArray(layers) || !Array.isArray(loads)) return [];
  const ofLayers = layers.map((layer, index) => ({
    number: Number(/\d+/.exec(String(layer))?.[0] ?? index),
    max_load: maxLoad(loads[index]),
    dropped: numberAt(dropped, index),
    entropy: numberAt(entropy, index),
  }));
  const shown = spread(ofLayers.length, mostLayers).map((index) => ofLayers[index]!);
  return [
    ...listScalars('experts/', {
      max_load: ofLayers.reduce((most, { max_load }) => Math.max(most, max_load), Number.NEGATIVE_INFINITY),
      dropped: mean(ofLayers.map((layer) => layer.dropped)),
      entropy: mean(ofLayers.map((layer) => layer.entropy)),
    }),
    ...shown.flatMap(({ number, ...values }) => listScalars(`experts/layer_${number}/`, values)),
  ];
}

function listScalars(prefix: string, values: Readonly<Record<string, number>>): readonly ExpertScalar[] {
  return Object.entries(values).flatMap(([name, value]) =>
    Number.isFinite(value) ? [{ name: `${prefix}${name}`, value }] : [],
  );
}

/** Returns the largest of `counts`, divided by their mean. */
function maxLoad(counts: unknown): number {
  if (!Array.isArray(counts) || !counts.every((count) => typeof count === 'number')) return Number.NaN;
  return Math.max(...counts) / mean(counts);
}

const numberAt = (values: unknown, index: number): number => {
  const value: unknown = Array.isArray(values) ? values[index] : undefined;
  return typeof value === 'number' ? value : Number.NaN;
};

const mean = (values: readonly number[]): number =>
  values.reduce((sum, value) => sum + value, 0) / values.length;

/** Returns at most `most` evenly spaced integers from 0 to `size - 1`, including the first and the last. */
const spread = (size: number, most: number): readonly number[] =>
  Array.from({ length: Math.min(size, most) }, (_, index) =>
    size <= most ? index : Math.round((index * (size - 1)) / (most - 1)),
  );
