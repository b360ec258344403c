import type { AttributeValue } from '../graph/attributes.js';
import type { FloatType } from '../graph/data-types.js';
import type { GraphBuilder, Value } from '../graph/graph-builder.js';
import type { WeightTensor } from './model-weights.js';

/** A linear layer: a weight [O, I], and optionally a bias [O]. */
export interface LinearLayer {
  readonly weight: WeightTensor;
  readonly bias?: WeightTensor | undefined;
}

/** A layer's experts: E networks of two linear layers each. A token uses k networks. */
export interface ExpertLayers {
  readonly topK: number;
  /** The attributes of `MoE` and `QMoE` that describe the activation function. */
  readonly activation: Readonly<Record<string, AttributeValue>>;
  /**
   * Weights [E, O, H] and biases [E, O]. If the experts are gated, O = 2 F, and rows of gates alternate with
   * rows of values.
   */
  readonly first: LinearLayer;
  /** Weights [E, H, F] and biases [E, H]. */
  readonly second: LinearLayer;
}

/**
 * How a model's matrices are stored, and which nodes compute with them. All hidden states are rows: N = batch
 * * positions.
 */
export interface Storage {
  /** The type of the hidden states, keys and values. */
  readonly activations: FloatType;
  /** Returns [N, O] of [N, I]. */
  linear(graph: GraphBuilder, input: Value, layer: LinearLayer): Value;
  /** Returns rows [N, H] from a table [V, H] of the vocabulary, given the ids INT64 [N]. */
  lookUp(graph: GraphBuilder, ids: Value, table: WeightTensor): Value;
  /** Returns the logits [N, V], given [N, H] and a table [V, H]. `lookUp` may read the same table. */
  logits(graph: GraphBuilder, input: Value, layer: LinearLayer): Value;
  /**
   * Returns [N, H]: for each row, the weighted sum of its experts' outputs. The experts are the k experts
   * with the largest `logits` [N, E], and the weights are the softmax over these k logits.
   */
  experts(graph: GraphBuilder, input: Value, layers: ExpertLayers & { readonly logits: Value }): Value;
}
