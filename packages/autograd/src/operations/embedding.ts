import { embeddingBackward, embeddingForward, Tensor } from '@mtl/kernels';
import type { Parameter } from '../parameter.js';
import type { Tape } from '../tape.js';
import type { Variable } from '../variable.js';

/** A table and the ids that choose its rows. */
export interface EmbeddingLookup {
  /** int32 [S, B] */
  readonly ids: Variable;
  /** [V, H] */
  readonly table: Parameter;
}

/** [S, B, H]: the sum of the chosen rows of every table (tokens, positions, token types). */
export function embedding(tape: Tape, lookups: readonly EmbeddingLookup[]): Variable {
  const first = lookups[0]!;
  const { dtype, device } = first.table.data;
  const shape = [...first.ids.tensor.shape, first.table.shape.at(-1)!];
  const output = Tensor.empty({ shape, dtype, device });
  lookups.forEach(({ ids, table }, position) => {
    embeddingForward({ output, ids: ids.tensor, table: table.data, accumulate: position > 0 });
  });
  const result = tape.result(output, { requiresGradient: true });
  tape.record(result, () => {
    const saved = lookups.map(({ ids }) => tape.save(ids));
    return {
      name: 'embedding',
      inputs: [],
      parameters: lookups.map(({ table }) => table),
      saved,
      backward: ({ parts, outputGradient }) => {
        if (!parts.weight) return [];
        lookups.forEach(({ table }, position) => {
          embeddingBackward({
            tableGradient: table.mainGradient,
            outputGradient: outputGradient!,
            ids: saved[position]!.tensor,
          });
        });
        return [];
      },
    };
  });
  return result;
}
