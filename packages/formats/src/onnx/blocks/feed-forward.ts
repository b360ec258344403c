import type {
  BlockSpecification,
  ExpertsSpecification,
  FeedForwardSpecification,
  GeluFeedForwardSpecification,
} from '@mtl/models';
import { text } from '../graph/attributes.js';
import type { Value } from '../graph/graph-builder.js';
import { applyExperts } from './experts.js';
import { applyLinear, type ModelGraph, type NamedFeedForward } from './layer-scope.js';
import { refuseKind } from './refusals.js';

type FeedForward = BlockSpecification['feedForward'];

/** An activation between the two linear layers. */
interface Activation {
  /** The outputs of the first layer, as a multiple of F. */
  readonly numParts: number;
  apply(model: ModelGraph, input: Value, specification: FeedForward): Value;
}

/** The fields that the kind `clamped-glu` adds. */
interface ClampedGlu extends FeedForwardSpecification {
  readonly gate: 'swiglu' | 'clampedQuickGeglu';
  readonly clamp?: number;
  readonly linearOffset?: number;
}

/** Returns gates and values, which the first layer computes one after the other. */
const splitGates = ({ graph }: ModelGraph, input: Value, { ffnHiddenSize }: FeedForward): readonly Value[] =>
  graph.split(input, 1, [ffnHiddenSize, ffnHiddenSize]);

const multiplyBySigmoid = ({ graph, storage }: ModelGraph, value: Value, factor = 1): Value => {
  const scaled = factor === 1 ? value : graph.op('Mul', [value, graph.number(factor, storage.activations)]);
  return graph.op('Mul', [value, graph.op('Sigmoid', [scaled])]);
};

/** The activations, by the kinds of block specifications. */
const activations: Readonly<Record<string, Activation>> = {
  gelu: {
    numParts: 1,
    apply: ({ graph }, input, specification) => {
      const { geluKind } = specification as GeluFeedForwardSpecification;
      return graph.op('Gelu', [input], {
        attributes: { approximate: text(geluKind === 'tanh' ? 'tanh' : 'none') },
      });
    },
  },
  swiglu: {
    numParts: 2,
    apply: (model, input, specification) => {
      const [gate, value] = splitGates(model, input, specification) as [Value, Value];
      return model.graph.op('Mul', [multiplyBySigmoid(model, gate), value]);
    },
  },
  'squared-relu': {
    numParts: 1,
    apply: ({ graph }, input) => {
      const positive = graph.op('Relu', [input]);
      return graph.op('Mul', [positive, positive]);
    },
  },
  'clamped-glu': {
    numParts: 2,
    apply: (model, input, specification) => {
      const { graph, storage } = model;
      const { gate: kind, clamp, linearOffset = 0 } = specification as ClampedGlu;
      const number = (value: number): Value => graph.number(value, storage.activations);
      const [gates, values] = splitGates(model, input, specification) as [Value, Value];
      const gate = clamp === undefined ? gates : graph.op('Min', [gates, number(clamp)]);
      const clamped =
        clamp === undefined ? values : graph.op('Clip', [values, number(-clamp), number(clamp)]);
      const value = linearOffset === 0 ? clamped : graph.op('Add', [clamped, number(linearOffset)]);
      return graph.op('Mul', [multiplyBySigmoid(model, gate, kind === 'swiglu' ? 1 : 1.702), value]);
    },
  },
};

/**
 * Applies a feed-forward network to [N, H].
 *
 * @throws CheckpointError MTL_ONNX_ARCHITECTURE for a kind without a graph
 */
export function applyFeedForward(model: ModelGraph, input: Value, network: NamedFeedForward): Value {
  const { name, hiddenSize, specification } = network;
  const { kind, ffnHiddenSize, bias } = specification;
  if (kind === 'mixture-of-experts') {
    return applyExperts(model, input, {
      ...network,
      specification: specification as ExpertsSpecification,
      applyShared: applyFeedForward,
    });
  }
  const { numParts, apply } =
    activations[kind] ?? refuseKind('feed-forward network', kind, Object.keys(activations));
  const first = { name: `${name}.linear_fc1`, inputs: hiddenSize, outputs: numParts * ffnHiddenSize, bias };
  const second = { name: `${name}.linear_fc2`, inputs: ffnHiddenSize, outputs: hiddenSize, bias };
  return applyLinear(model, apply(model, applyLinear(model, input, first), specification), second);
}
