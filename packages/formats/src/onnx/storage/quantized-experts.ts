import { int } from '../graph/attributes.js';
import type { GraphBuilder, StoredTensor, Value } from '../graph/graph-builder.js';
import { storeFloats } from './float-storage.js';
import type { WeightTensor } from './model-weights.js';
import type { ExpertLayers } from './storage.js';

/** Experts, and how their matrices [E, O, I] are quantized to integers. */
interface QuantizedExperts extends ExpertLayers {
  readonly logits: Value;
  readonly bits: 4 | 8;
  /** How many weights in a row share a scale. Default: all weights of the row. */
  readonly blockSize?: number;
  quantize(weight: WeightTensor): { readonly values: StoredTensor; readonly scales: StoredTensor };
}

/**
 * Applies experts whose matrices are quantized to integers. There is a scale for each row, or for each block
 * in a row.
 */
export function applyQuantizedExperts(
  graph: GraphBuilder,
  input: Value,
  { logits, topK, activation, first, second, bits, blockSize, quantize }: QuantizedExperts,
): Value {
  const weights = [first, second].flatMap(({ weight, bias }) => {
    const { values, scales } = quantize(weight);
    const own = [graph.weight(values), graph.weight(scales)];
    return [...own, bias === undefined ? '' : graph.weight(storeFloats(bias, 'FLOAT'))];
  });
  return graph.op('QMoE', [input, logits, ...weights], {
    domain: 'com.microsoft',
    attributes: {
      ...activation,
      k: int(topK),
      normalize_routing_weights: int(1),
      expert_weight_bits: int(bits),
      ...(blockSize === undefined ? {} : { block_size: int(blockSize) }),
    },
  });
}
