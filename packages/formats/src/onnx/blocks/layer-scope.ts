import type { BlockSpecification } from '@mtl/models';
import type { FloatType } from '../graph/data-types.js';
import type { GraphBuilder, Value } from '../graph/graph-builder.js';
import { storeFloats } from '../storage/float-storage.js';
import type { ModelWeights } from '../storage/model-weights.js';
import type { Storage } from '../storage/storage.js';

/**
 * The graph that is being built for a model, together with the model's parameters and how they are stored.
 */
export interface ModelGraph {
  readonly graph: GraphBuilder;
  readonly weights: ModelWeights;
  readonly storage: Storage;
}

/** A feed-forward network of a layer. */
export interface NamedFeedForward {
  readonly name: string;
  readonly hiddenSize: number;
  readonly specification: BlockSpecification['feedForward'];
}

/** Applies the linear layer `layer` to [N, inputs]. Returns [N, outputs]. */
export function applyLinear(
  { graph, weights, storage }: ModelGraph,
  input: Value,
  layer: { readonly name: string; readonly inputs: number; readonly outputs: number; readonly bias: boolean },
): Value {
  const { name, inputs, outputs, bias } = layer;
  return storage.linear(graph, input, {
    weight: weights.take(`${name}.weight`, [outputs, inputs]),
    bias: bias ? weights.take(`${name}.bias`, [outputs]) : undefined,
  });
}

/** Returns a vector or a small table of parameters, as an unquantized weight. */
export const takeFloats = (
  { graph, weights }: ModelGraph,
  { name, shape, type = 'FLOAT' }: { name: string; shape: readonly number[]; type?: FloatType },
): Value => graph.weight(storeFloats(weights.take(name, shape), type));

/** Computes a function in float32, and returns its result in the activations' type. */
export function inFloat32(
  { graph, storage: { activations } }: ModelGraph,
  value: Value,
  apply: (value: Value) => Value,
): Value {
  if (activations === 'FLOAT') return apply(value);
  return graph.cast(apply(graph.cast(value, 'FLOAT')), activations);
}
