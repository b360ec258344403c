import type { AttributeValue } from '../graph/attributes.js';
import type { FloatType } from '../graph/data-types.js';
import type { GraphBuilder, Value } from '../graph/graph-builder.js';
import type { WeightTensor } from './model-weights.js';

/** A linear layer: a weight [O, I], and a bias [O] if it has one. */
export interface LinearLayer {
  readonly weight: WeightTensor;
  readonly bias?: WeightTensor | undefined;
}

/** The experts of a layer: E networks of two linear layers; a token uses k networks. */
export interface ExpertLayers {
  readonly topK: number;
  /** The attributes of `MoE` and `QMoE` that describe the activation. */
  readonly activation: Readonly<Record<string, AttributeValue>>;
  /**
   * Weights [E, O, H] and biases [E, O]. If experts are gated, O = 2 F, and rows of gates and values
   * alternate.
   */
  readonly first: LinearLayer;
  /** Weights [E, H, F] and biases [E, H]. */
  readonly second: LinearLayer;
}

/**
 * A way to store the matrices of a model, and the nodes that compute with them. All hidden states are rows:
 * N = batch * positions.
 */
export interface Storage {
  /** The type of hidden states, keys and values. */
  readonly activations: FloatType;
  /** Returns [N, O] of [N, I]. */
  linear(graph: GraphBuilder, input: Value, layer: LinearLayer): Value;
  /** Returns the rows [N, H] of a table [V, H] of the vocabulary, by ids INT64 [N]. */
  lookUp(graph: GraphBuilder, ids: Value, table: WeightTensor): Value;
  /** Returns logits [N, V] of [N, H] and a table [V, H], which `lookUp` may read, too. */
  logits(graph: GraphBuilder, input: Value, layer: LinearLayer): Value;
  /**
   * Returns [N, H]: for each row, the weighted sum of the outputs of its experts. The experts are the k
   * experts with the largest `logits` [N, E], and the weights are the softmax over these k logits.
   */
  experts(graph: GraphBuilder, input: Value, layers: ExpertLayers & { readonly logits: Value }): Value;
}
