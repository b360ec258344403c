import type {
  BlockSpecification,
  ExpertsSpecification,
  FeedForwardSpecification,
  GeluFeedForwardSpecification,
} from '@mtl/models';
import { type AttributeValue, float, int, text } from '../graph/attributes.js';
import type { Value } from '../graph/graph-builder.js';
import type { ModelGraph } from './layer-scope.js';
import { refuseModel } from './refusals.js';

type FeedForward = BlockSpecification['feedForward'];
type ExpertActivation = ExpertsSpecification['activation'];

/** An activation function between the two linear layers of a dense network. */
interface Activation {
  /** The output size of the first layer, as a multiple of F. */
  readonly numParts: number;
  apply(model: ModelGraph, input: Value, specification: FeedForward): Value;
}

/** The fields that the kind `clamped-glu` adds. */
interface ClampedGlu extends FeedForwardSpecification {
  readonly gate: 'swiglu' | 'clampedQuickGeglu';
  readonly clamp?: number;
  readonly linearOffset?: number;
}

/** Splits the first layer's output into its two halves: the gates, and then the values. */
const splitGates = ({ graph }: ModelGraph, input: Value, { ffnHiddenSize }: FeedForward): readonly Value[] =>
  graph.split(input, 1, [ffnHiddenSize, ffnHiddenSize]);

const multiplyBySigmoid = ({ graph, storage }: ModelGraph, value: Value, factor = 1): Value => {
  const scaled = factor === 1 ? value : graph.op('Mul', [value, graph.number(factor, storage.activations)]);
  return graph.op('Mul', [value, graph.op('Sigmoid', [scaled])]);
};

/** The activation functions, by the `kind` of a feed-forward specification. */
export const activations: Readonly<Record<string, Activation>> = {
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
 * Returns the attributes of the operator `MoE` that describe the experts' activation function.
 *
 * @throws CheckpointError MTL_ONNX_ARCHITECTURE for an activation that the operator lacks
 */
export function describeExpertActivation({ kind, clamp, linearOffset = 0 }: ExpertActivation): {
  readonly isGated: boolean;
  readonly attributes: Readonly<Record<string, AttributeValue>>;
} {
  if (kind === 'geluTanh') return { isGated: false, attributes: { activation_type: text('gelu') } };
  if (kind !== 'swiglu' && kind !== 'clampedQuickGeglu') {
    throw refuseModel(
      `experts with the activation '${kind}', which ONNX Runtime's MoE lacks`,
      'one of swiglu, clampedQuickGeglu, geluTanh',
      'write it as a directory of Hugging Face with --save-hf DIR',
    );
  }
  return {
    isGated: true,
    attributes: {
      activation_type: text('swiglu'),
      // gates and values alternate, because the CPU implementation does not support any other order
      swiglu_fusion: int(1),
      activation_alpha: float(kind === 'swiglu' ? 1 : 1.702),
      activation_beta: float(linearOffset),
      ...(clamp === undefined ? {} : { swiglu_limit: float(clamp) }),
    },
  };
}

/** Returns the kind of dense network that has the same activation function as the experts. */
export function describeSharedNetwork({ kind, clamp, linearOffset }: ExpertActivation) {
  if (kind === 'geluTanh') return { kind: 'gelu', geluKind: 'tanh' };
  if (kind === 'swiglu' && clamp === undefined && linearOffset === undefined) return { kind: 'swiglu' };
  return { kind: 'clamped-glu', gate: kind, clamp, linearOffset };
}
