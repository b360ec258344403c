import { rotaryTable } from '@mtl/kernels';
import type { RotarySpecification } from '@mtl/models';
import { viewAsBytes } from '../../huggingface/float-bytes.js';
import type { GraphBuilder, Value } from '../graph/graph-builder.js';
import type { ModelGraph } from './layer-scope.js';

/** The positions of a batch's tokens, and the number of positions that the model knows. */
export interface Positions {
  /** INT64 [B, S] */
  readonly ids: Value;
  readonly numPositions: number;
}

/** Cosines and sines of the angles of each token, [B, S, 1, 1, R / 2]. */
interface Angles {
  readonly cosines: Value;
  readonly sines: Value;
}

/**
 * Returns the cosines and sines of a batch, from tables as training has them: GPUs in browsers compute the
 * sines of large angles with few digits.
 */
function makeAngles(
  { graph, storage: { activations } }: ModelGraph,
  { rotarySize, base, scaling }: RotarySpecification,
  { ids, numPositions }: Positions,
): Angles {
  const options = { rotarySize, base, scaling, numPositions };
  const key = JSON.stringify(options);
  const half = rotarySize / 2;
  const look = (part: 'cosines' | 'sines', column: number): Value =>
    graph.once(`${part} ${key}`, () => {
      const table = graph.weight({
        name: `rotary.${part}.${half}.${graph.weights.filter(({ name }) => name.startsWith('rotary.')).length}`,
        type: 'FLOAT',
        shape: [numPositions, half],
        read: async function* () {
          using whole = rotaryTable({ ...options, device: 'cpu' });
          const rows = whole.read<'float32'>();
          const values = new Float32Array(numPositions * half);
          for (let position = 0; position < numPositions; position++) {
            const start = position * rotarySize + column;
            values.set(rows.subarray(start, start + half), position * half);
          }
          yield viewAsBytes(values);
        },
      });
      const rowsOfTokens = graph.op('Gather', [table, ids]);
      const spread = graph.op('Unsqueeze', [rowsOfTokens, graph.integers([2, 3])]);
      return activations === 'FLOAT' ? spread : graph.cast(spread, activations);
    });
  return { cosines: look('cosines', 0), sines: look('sines', half) };
}

/** Returns (first * cosines - second * sines, second * cosines + first * sines). */
function turn(
  graph: GraphBuilder,
  [first, second]: readonly [Value, Value],
  { cosines, sines }: Angles,
): readonly [Value, Value] {
  const product = (one: Value, other: Value): Value => graph.op('Mul', [one, other]);
  return [
    graph.op('Sub', [product(first, cosines), product(second, sines)]),
    graph.op('Add', [product(second, cosines), product(first, sines)]),
  ];
}

/**
 * Rotates heads [B, S, G, n, D] by the angles of their positions (Su et al. 2021): pairs of neighbours, or of
 * elements i and i + R / 2; elements from R on stay.
 */
export function rotateHeads(
  model: ModelGraph,
  heads: Value,
  options: {
    readonly rotary: RotarySpecification;
    readonly positions: Positions;
    /** G, n and D */
    readonly shape: readonly [number, number, number];
  },
): Value {
  const { graph } = model;
  const { rotary, positions, shape } = options;
  const [numGroups, numHeads, headSize] = shape;
  const { rotarySize, interleaved } = rotary;
  const half = rotarySize / 2;
  const angles = makeAngles(model, rotary, positions);
  const rest = headSize - rotarySize;
  const [turned, ...kept] = graph.split(heads, 4, rest === 0 ? [rotarySize] : [rotarySize, rest]) as [
    Value,
    ...Value[],
  ];
  if (!interleaved) {
    const halves = graph.split(turned, 4, [half, half]) as [Value, Value];
    return graph.concat([...turn(graph, halves, angles), ...kept], 4);
  }
  const sizes = [graph.size(positions.ids, 0), graph.size(positions.ids, 1), numGroups, numHeads];
  const pairs = graph.split(graph.reshape(turned, [...sizes, half, 2]), 5, [1, 1]);
  const [first, second] = pairs.map((part) => graph.op('Squeeze', [part, graph.integers([5])])) as [
    Value,
    Value,
  ];
  const results = turn(graph, [first, second], angles).map((part) =>
    graph.op('Unsqueeze', [part, graph.integers([5])]),
  );
  const neighbours = graph.reshape(graph.concat(results, 5), [...sizes, rotarySize]);
  return kept.length === 0 ? neighbours : graph.concat([neighbours, ...kept], 4);
}
