import type { AttentionSpecification } from '@mtl/models';
import { int } from '../graph/attributes.js';
import type { Value } from '../graph/graph-builder.js';
import { applyLinear, type ModelGraph, takeFloats } from './layer-scope.js';
import { applyNorm } from './norms.js';
import { refuseKind } from './refusals.js';
import { type Positions, rotateHeads } from './rotation.js';

// G is the number of groups of heads that share a key and a value, r = A / G the number of heads in each
// group, D the head size, and T the number of keys.

/** The keys that queries see. */
export interface AttentionMask {
  /**
   * Returns a BOOL that is true if a query attends to a key. It can be broadcast to [B, 1, 1, S, T].
   * `windowSize` is how many positions before its own a query attends to; undefined means all positions.
   */
  visible(windowSize: number | undefined): Value;
}

/** The attention of one layer, with its inputs and its cache. */
interface AttentionCall {
  readonly name: string;
  readonly hiddenSize: number;
  readonly specification: AttentionSpecification;
  readonly positions: Positions;
  readonly mask: AttentionMask;
  /**
   * Adds the new positions' keys or values [B, G, S, D] to the cache, and returns the keys or values of all
   * positions [B, G, T, D].
   */
  keep(kind: 'key' | 'value', heads: Value): Value;
}

/** A number that is lower than any score, for each element type. */
const hidden = { FLOAT: -3.4028234663852886e38, FLOAT16: -65_504 } as const;

/** The sizes of an attention's heads. */
function measureHeads({ numHeads, numGroups = numHeads, headSize }: AttentionSpecification) {
  return { numGroups, headsPerGroup: numHeads / numGroups, headSize, numHeads };
}

/**
 * Applies self-attention to [N, H], using only operators that every runtime has. As in training, the weights
 * are packed: each group has its queries, one key and one value.
 *
 * @throws CheckpointError MTL_ONNX_ARCHITECTURE for a kind of attention that has no graph
 */
export function applyAttention(model: ModelGraph, input: Value, call: AttentionCall): Value {
  const { name, hiddenSize, specification, positions, keep } = call;
  const { kind, bias, qkvBias = bias } = specification;
  if (kind !== 'self-attention') refuseKind('attention', kind, ['self-attention']);
  const { graph } = model;
  const { numGroups, headsPerGroup, headSize, numHeads } = measureHeads(specification);
  const packed = applyLinear(model, input, {
    name: `${name}.linear_qkv`,
    inputs: hiddenSize,
    outputs: numGroups * (headsPerGroup + 2) * headSize,
    bias: qkvBias,
  });
  const sizes = [graph.size(positions.ids, 0), graph.size(positions.ids, 1)];
  const projected = graph.reshape(packed, [...sizes, numGroups, headsPerGroup + 2, headSize]);
  const { queries, keys, values } = prepareHeads(model, projected, call);
  const byGroup = (heads: Value): Value =>
    graph.transpose(graph.reshape(heads, [...sizes, numGroups, headSize]), [0, 2, 1, 3]);
  const allKeys = keep('key', byGroup(keys));
  const allValues = keep('value', byGroup(values));
  const weights = weighKeys(model, { queries, keys: allKeys }, call);
  const flat = [sizes[0]!, numGroups, -1];
  const attended = graph.op('MatMul', [graph.reshape(weights, [...flat, graph.size(allKeys, 2)]), allValues]);
  const byHead = graph.reshape(attended, [sizes[0]!, numGroups, headsPerGroup, sizes[1]!, headSize]);
  const rows = graph.reshape(graph.transpose(byHead, [0, 3, 1, 2, 4]), [-1, numHeads * headSize]);
  return applyLinear(model, rows, {
    name: `${name}.linear_proj`,
    inputs: numHeads * headSize,
    outputs: hiddenSize,
    bias,
  });
}

/** Returns the attention weights [B, G, r, S, T] of the keys for each query. */
function weighKeys(
  model: ModelGraph,
  { queries, keys }: { readonly queries: Value; readonly keys: Value },
  { specification, positions, mask, name }: AttentionCall,
): Value {
  const { graph, storage } = model;
  const { activations } = storage;
  const { numGroups, headsPerGroup, headSize } = measureHeads(specification);
  const { windowSize, softCap, sinks } = specification;
  const [numSequences, length] = [graph.size(positions.ids, 0), graph.size(positions.ids, 1)];
  const scaled = graph.op('Mul', [queries, graph.number(1 / Math.sqrt(headSize), activations)]);
  const rows = graph.reshape(graph.transpose(scaled, [0, 2, 3, 1, 4]), [
    numSequences,
    numGroups,
    -1,
    headSize,
  ]);
  const products = graph.op('MatMul', [rows, graph.transpose(keys, [0, 1, 3, 2])]);
  const shape = [numSequences, numGroups, headsPerGroup, length, -1];
  const scores = capScores(model, graph.reshape(products, shape), softCap);
  const lowest = graph.number(hidden[activations], activations);
  const seen = graph.op('Where', [mask.visible(windowSize), scores, lowest]);
  if (sinks === undefined) return graph.op('Softmax', [seen], { attributes: { axis: int(-1) } });
  const sink =
    sinks === 'zero'
      ? graph.number(0, activations)
      : graph.reshape(
          takeFloats(model, {
            name: `${name}.core_attention.softmax_offset`,
            shape: [numGroups * headsPerGroup],
            type: activations,
          }),
          [1, numGroups, headsPerGroup, 1, 1],
        );
  const column = graph.op('Expand', [
    sink,
    graph.once(`sinks ${numGroups} ${headsPerGroup}`, () =>
      graph.concat(
        [numSequences, graph.integers([numGroups, headsPerGroup]), length, graph.integers([1])],
        0,
      ),
    ),
  ]);
  const all = graph.op('Softmax', [graph.concat([seen, column], 4)], { attributes: { axis: int(-1) } });
  return graph.op('Slice', [all, graph.integers([0]), graph.integers([-1]), graph.integers([4])]);
}

/** Returns `cap * tanh(scores / cap)`, or the scores themselves if `cap` is undefined. */
function capScores({ graph, storage }: ModelGraph, scores: Value, cap: number | undefined): Value {
  if (cap === undefined) return scores;
  const number = graph.number(cap, storage.activations);
  return graph.op('Mul', [graph.op('Tanh', [graph.op('Div', [scores, number])]), number]);
}

/** Returns the queries [B, S, G, r, D], keys and values [B, S, G, 1, D], after normalization and rotation. */
function prepareHeads(
  model: ModelGraph,
  projected: Value,
  { name, specification, positions }: AttentionCall,
): { readonly queries: Value; readonly keys: Value; readonly values: Value } {
  const { graph } = model;
  const { rotary, queryKeyNorm } = specification;
  const { numGroups, headsPerGroup, headSize } = measureHeads(specification);
  const rotated = (heads: Value, numHeads: number): Value =>
    rotary === undefined
      ? heads
      : rotateHeads(model, heads, { rotary, positions, shape: [numGroups, numHeads, headSize] });
  if (queryKeyNorm === undefined) {
    const [both, values] = graph.split(projected, 3, [headsPerGroup + 1, 1]) as [Value, Value];
    const [queries, keys] = graph.split(rotated(both, headsPerGroup + 1), 3, [headsPerGroup, 1]) as [
      Value,
      Value,
    ];
    return { queries, keys, values };
  }
  const [queries, keys, values] = graph.split(projected, 3, [headsPerGroup, 1, 1]) as [Value, Value, Value];
  const normalized = (of: 'q' | 'k', heads: Value, numHeads: number): Value => {
    const named = { name: `${name}.${of}_layernorm`, specification: queryKeyNorm };
    if (queryKeyNorm.wholeWidth !== true) return applyNorm(model, heads, { ...named, size: headSize });
    const size = numGroups * numHeads * headSize;
    const sizes = [graph.size(positions.ids, 0), graph.size(positions.ids, 1)];
    const whole = applyNorm(model, graph.reshape(heads, [...sizes, size]), { ...named, size });
    return graph.reshape(whole, [...sizes, numGroups, numHeads, headSize]);
  };
  return {
    queries: rotated(normalized('q', queries, headsPerGroup), headsPerGroup),
    keys: rotated(normalized('k', keys, 1), 1),
    values,
  };
}
