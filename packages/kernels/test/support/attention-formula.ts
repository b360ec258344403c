/** S queries, K keys, B samples, A heads in G groups, D head size. */
export interface AttentionSizes {
  readonly queries: number;
  readonly keys: number;
  readonly batch: number;
  readonly heads: number;
  readonly groups: number;
  readonly size: number;
}

export interface AttentionValues {
  /** [S, B, A, D] */
  readonly query: Float64Array;
  /** [K, B, G, D] */
  readonly key: Float64Array;
  /** [K, B, G, D] */
  readonly value: Float64Array;
  /** [S, B, A, D] */
  readonly outputGradient: Float64Array;
}

export interface AttentionResults {
  readonly output: Float64Array;
  readonly query: Float64Array;
  readonly key: Float64Array;
  readonly value: Float64Array;
}

/** Returns reproducible values in [-1, 1). */
export function attentionValues(sizes: AttentionSizes): AttentionValues {
  const { queries, keys, batch, heads, groups, size } = sizes;
  let state = 1;
  const values = (count: number): Float64Array =>
    Float64Array.from({ length: count }, () => {
      state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
      return Math.fround((state / 2 ** 32 - 0.5) * 2);
    });
  const [ofHeads, ofGroups] = [queries * batch * heads * size, keys * batch * groups * size];
  return {
    query: values(ofHeads),
    key: values(ofGroups),
    value: values(ofGroups),
    outputGradient: values(ofHeads),
  };
}

function dot(left: Float64Array, right: Float64Array): number {
  let sum = 0;
  for (let index = 0; index < left.length; index++) sum += left[index]! * right[index]!;
  return sum;
}

function add(to: Float64Array, factor: number, from: Float64Array): void {
  for (let index = 0; index < to.length; index++) to[index]! += factor * from[index]!;
}

/**
 * Computes softmax(scale q k^T) v over the keys that `isVisible` shows, and its gradients, one score at a
 * time.
 *
 * `isVisible(sample, query, key)`: whether a query sees a key
 */
export function attentionFormula(
  sizes: AttentionSizes,
  values: AttentionValues,
  { scale, isVisible }: { scale: number; isVisible: (sample: number, query: number, key: number) => boolean },
): AttentionResults {
  const { queries, keys: numKeys, batch, heads, groups, size } = sizes;
  const results = {
    output: new Float64Array(values.query.length),
    query: new Float64Array(values.query.length),
    key: new Float64Array(values.key.length),
    value: new Float64Array(values.value.length),
  };
  for (let s = 0; s < queries; s++) {
    for (let b = 0; b < batch; b++) {
      const seen = Array.from({ length: numKeys }, (_, key) => key).filter((key) => isVisible(b, s, key));
      for (let a = 0; a < heads; a++) {
        const group = Math.floor(a / (heads / groups));
        const ofHead = (array: Float64Array) =>
          array.subarray(((s * batch + b) * heads + a) * size, ((s * batch + b) * heads + a + 1) * size);
        const ofKey = (array: Float64Array, key: number) => {
          const row = (key * batch + b) * groups + group;
          return array.subarray(row * size, (row + 1) * size);
        };
        const query = ofHead(values.query);
        const [output, queryGradient] = [ofHead(results.output), ofHead(results.query)];
        const keys = seen.map((key) => ofKey(values.key, key));
        const weights = keys.map((key) => Math.exp(scale * dot(query, key)));
        const total = weights.reduce((sum, weight) => sum + weight, 0);
        const gradient = ofHead(values.outputGradient);
        const probabilityGradients = seen.map((key) => dot(gradient, ofKey(values.value, key)));
        const mean = weights.reduce((sum, weight, index) => sum + weight * probabilityGradients[index]!, 0);
        seen.forEach((key, index) => {
          const probability = weights[index]! / total;
          const ofScore = scale * probability * (probabilityGradients[index]! - mean / total);
          add(output, probability, ofKey(values.value, key));
          add(queryGradient, ofScore, keys[index]!);
          add(ofKey(results.key, key), ofScore, query);
          add(ofKey(results.value, key), probability, gradient);
        });
      }
    }
  }
  return results;
}
