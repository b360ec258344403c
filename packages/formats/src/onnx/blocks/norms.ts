import type { NormSpecification } from '@mtl/models';
import { float, int } from '../graph/attributes.js';
import type { Value } from '../graph/graph-builder.js';
import { inFloat32, type ModelGraph, takeFloats } from './layer-scope.js';
import { refuseKind } from './refusals.js';

/** Applies a norm over the last dimension. */
type MakeNorm = (
  model: ModelGraph,
  input: Value,
  options: { readonly name: string; readonly size: number; readonly epsilon: number },
) => Value;

/** The norms, by the `kind` of a norm specification. They are computed in float32, as in training. */
const norms: Readonly<Record<string, MakeNorm>> = {
  'layer-norm': (model, input, { name, size, epsilon }) =>
    inFloat32(model, input, (value) =>
      model.graph.op(
        'LayerNormalization',
        [
          value,
          ...['weight', 'bias'].map((of) => takeFloats(model, { name: `${name}.${of}`, shape: [size] })),
        ],
        { attributes: { axis: int(-1), epsilon: float(epsilon) } },
      ),
    ),
  'rms-norm': (model, input, { name, size, epsilon }) =>
    inFloat32(model, input, (value) => {
      const { graph } = model;
      // ONNX Runtime fuses exactly these nodes into one operation (SimplifiedLayerNormalization)
      const squares = graph.op('Pow', [value, graph.number(2, 'FLOAT')]);
      const mean = graph.op('ReduceMean', [squares, graph.integers([-1])], {
        attributes: { keepdims: int(1) },
      });
      const root = graph.op('Sqrt', [graph.op('Add', [mean, graph.number(epsilon, 'FLOAT')])]);
      const normalized = graph.op('Div', [value, root]);
      return graph.op('Mul', [normalized, takeFloats(model, { name: `${name}.weight`, shape: [size] })]);
    }),
};

/**
 * Applies the specified norm to the last dimension.
 *
 * @throws CheckpointError MTL_ONNX_ARCHITECTURE for a kind of norm that has no graph
 */
export function applyNorm(
  model: ModelGraph,
  input: Value,
  { name, size, specification }: { name: string; size: number; specification: NormSpecification },
): Value {
  const { kind, epsilon } = specification;
  const make = norms[kind] ?? refuseKind('norm', kind, Object.keys(norms));
  return make(model, input, { name, size, epsilon });
}
