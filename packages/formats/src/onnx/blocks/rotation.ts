import { rotaryTable } from '@mtl/kernels';
import type { RotarySpecification } from '@mtl/models';
import { encodeFloats } from '../../huggingface/float-bytes.js';
import { int } from '../graph/attributes.js';
import type { Value } from '../graph/graph-builder.js';
import type { ModelGraph } from './layer-scope.js';

/** The positions of a batch's tokens, and how many positions the model knows. */
export interface Positions {
  /** INT64 [B, S] */
  readonly ids: Value;
  readonly numPositions: number;
}

/** The tables [P, R / 2] that contain the cosines and the sines for all positions. */
type AngleTables = readonly [cosines: Value, sines: Value];

/**
 * Returns the same tables of cosines and sines that training uses. The graph does not compute them, because
 * GPUs in browsers compute the sines of large angles inaccurately.
 */
function makeTables(
  { graph, storage: { activations } }: ModelGraph,
  { rotarySize, base, scaling }: RotarySpecification,
  numPositions: number,
): AngleTables {
  const options = { rotarySize, base, scaling, numPositions };
  const half = rotarySize / 2;
  const store = (part: 'cosines' | 'sines', column: number): Value =>
    graph.once(`${part} ${JSON.stringify(options)}`, () =>
      graph.weight({
        name: `rotary.${part}.${half}.${graph.weights.filter(({ name }) => name.startsWith('rotary.')).length}`,
        type: activations,
        shape: [numPositions, half],
        read: async function* () {
          using whole = rotaryTable({ ...options, device: 'cpu' });
          const rows = whole.read<'float32'>();
          const values = new Float32Array(numPositions * half);
          for (let position = 0; position < numPositions; position++) {
            const start = position * rotarySize + column;
            values.set(rows.subarray(start, start + half), position * half);
          }
          yield encodeFloats(values, activations === 'FLOAT' ? 'F32' : 'F16');
        },
      }),
    );
  return [store('cosines', 0), store('sines', half)];
}

/**
 * Rotates heads [B, S, G, n, D] by the angles of their positions (see Su et al. 2021). The pairs that are
 * rotated together are either neighbours, or the elements i and i + R / 2. Elements from index R on do not
 * change.
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
  const sizes = [graph.size(positions.ids, 0), graph.size(positions.ids, 1)];
  const rows = graph.reshape(heads, [...sizes, numGroups * numHeads * headSize]);
  const tables = makeTables(model, rotary, positions.numPositions);
  const rotated = graph.op('RotaryEmbedding', [rows, positions.ids, ...tables], {
    domain: 'com.microsoft',
    attributes: {
      num_heads: int(numGroups * numHeads),
      rotary_embedding_dim: int(rotary.rotarySize),
      interleaved: int(rotary.interleaved ? 1 : 0),
    },
  });
  return graph.reshape(rotated, [...sizes, ...shape]);
}
