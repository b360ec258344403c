import type { ExpertsSpecification } from '@mtl/models';
import { int } from '../graph/attributes.js';
import type { GraphBuilder, Value } from '../graph/graph-builder.js';
import { type ModelGraph, type NamedFeedForward, takeFloats } from './layer-scope.js';

// N is the number of rows, E the number of experts, and k the number of experts per row

type Router = ExpertsSpecification['router'];

/** The chosen experts of each row, in the form that the operator `MoE` expects. */
interface Routing {
  /**
   * [N, E], in the activations' type: the logarithms of the weights of the k chosen experts, and `unchosen`
   * elsewhere.
   */
  readonly logits: Value;
  /** A factor by which the experts' weighted sums are multiplied: a number, or [N, 1]. Undefined means 1. */
  readonly factor: Value | undefined;
}

/** The logit of an expert that is not chosen. It is lower than the logarithm of any weight. */
const unchosen = -1e4;

/** The smallest weight that has a logarithm. */
const smallest = 1e-37;

/**
 * Chooses the k experts of each row, as training does, in float32. `MoE` applies a softmax to the k largest
 * logits, so its input is the logarithms of the experts' weights. If a row's weights do not add up to 1, the
 * output of `MoE` is multiplied by their sum.
 */
export function routeTokens(
  model: ModelGraph,
  input: Value,
  { name, hiddenSize, specification }: NamedFeedForward & { readonly specification: ExpertsSpecification },
): Routing {
  const { graph, storage } = model;
  const { numExperts, topK, router } = specification;
  const parameter = (kind: string, shape: readonly number[]): Value =>
    takeFloats(model, { name: `${name}.router.${kind}`, shape });
  const matrix = parameter('weight', [numExperts, hiddenSize]);
  const bias = router.bias ? [parameter('bias', [numExperts])] : [];
  const rows = storage.activations === 'FLOAT' ? input : graph.cast(input, 'FLOAT');
  const logits = graph.op('Gemm', [rows, matrix, ...bias], { attributes: { transB: int(1) } });
  const scores = scoreExperts(graph, logits, router);
  const biased =
    router.expertBias === undefined
      ? scores
      : graph.op('Add', [scores, parameter('expert_bias', [numExperts])]);
  const allowed = keepGroups(graph, biased, { router, numExperts, topK });
  const [, chosen] = takeLargest(graph, allowed, topK) as [Value, Value];
  const { logarithms, sum } = weighExperts(graph, { logits, scores, chosen }, specification);
  const empty = graph.op('Expand', [graph.number(unchosen, 'FLOAT'), graph.op('Shape', [logits])]);
  const spread = graph.op('ScatterElements', [empty, chosen, logarithms], { attributes: { axis: int(1) } });
  const cast = (value: Value): Value =>
    storage.activations === 'FLOAT' ? value : graph.cast(value, storage.activations);
  const scaling = router.scalingFactor === 1 ? undefined : graph.number(router.scalingFactor, 'FLOAT');
  const factor =
    sum === undefined || scaling === undefined ? (sum ?? scaling) : graph.op('Mul', [sum, scaling]);
  return { logits: cast(spread), factor: factor === undefined ? undefined : cast(factor) };
}

/** Returns the scores by which experts are chosen, before the experts' biases are added. */
function scoreExperts(graph: GraphBuilder, logits: Value, { scoreFunction, preSoftmax }: Router): Value {
  if (scoreFunction === 'sigmoid') return graph.op('Sigmoid', [logits]);
  if (scoreFunction === 'sqrtsoftplus') return graph.op('Sqrt', [graph.op('Softplus', [logits])]);
  return preSoftmax ? graph.op('Softmax', [logits], { attributes: { axis: int(-1) } }) : logits;
}

const takeLargest = (graph: GraphBuilder, values: Value, count: number): Value[] =>
  graph.ops('TopK', [values, graph.integers([count])], { attributes: { axis: int(-1) }, numOutputs: 2 });

const sumLast = (graph: GraphBuilder, values: Value, keepsDimension: boolean): Value =>
  graph.op('ReduceSum', [values, graph.integers([-1])], {
    attributes: { keepdims: int(keepsDimension ? 1 : 0) },
  });

/**
 * Lowers the scores of all experts outside of the best groups. Groups are ranked by the sum of their best
 * scores.
 */
function keepGroups(
  graph: GraphBuilder,
  scores: Value,
  { router: { groups }, numExperts, topK }: { router: Router; numExperts: number; topK: number },
): Value {
  if (groups === undefined) return scores;
  const length = numExperts / groups.number;
  const byGroup = graph.reshape(scores, [-1, groups.number, length]);
  const [best] = takeLargest(graph, byGroup, Math.min(Math.floor(topK / groups.topK), length)) as [Value];
  const sums = sumLast(graph, best, false);
  const [, kept] = takeLargest(graph, sums, groups.topK) as [Value, Value];
  const lowest = graph.number(Number.NEGATIVE_INFINITY, 'FLOAT');
  const none = graph.op('Expand', [lowest, graph.op('Shape', [sums])]);
  const zeros = graph.op('Expand', [graph.number(0, 'FLOAT'), graph.op('Shape', [kept])]);
  const penalties = graph.op('ScatterElements', [none, kept, zeros], { attributes: { axis: int(1) } });
  const lowered = graph.op('Add', [byGroup, graph.op('Unsqueeze', [penalties, graph.integers([2])])]);
  return graph.reshape(lowered, [-1, numExperts]);
}

/**
 * Returns the logarithms [N, k] of the chosen experts' weights, up to a constant in each row, and the sum [N,
 * 1] of the weights; undefined if the sum is 1.
 */
function weighExperts(
  graph: GraphBuilder,
  { logits, scores, chosen }: { readonly logits: Value; readonly scores: Value; readonly chosen: Value },
  { router, topK }: ExpertsSpecification,
): { readonly logarithms: Value; readonly sum: Value | undefined } {
  const { scoreFunction, preSoftmax } = router;
  const gather = (values: Value): Value =>
    graph.op('GatherElements', [values, chosen], { attributes: { axis: int(1) } });
  if (scoreFunction === 'softmax') {
    const own = gather(logits);
    const most = graph.op('ReduceMax', [own, graph.integers([-1])], { attributes: { keepdims: int(1) } });
    const logarithms = graph.op('Sub', [own, most]);
    return { logarithms, sum: preSoftmax ? sumLast(graph, gather(scores), true) : undefined };
  }
  const own = gather(scores);
  const logarithms = graph.op('Log', [graph.op('Max', [own, graph.number(smallest, 'FLOAT')])]);
  // several scores are divided by their sum, but the score of a single expert is not
  return { logarithms, sum: topK === 1 ? own : undefined };
}
