import { embeddingBackward, embeddingForward, Tensor } from '@mtl/kernels';
import { type ProductExchanges, startExchange } from '../exchange.js';
import type { Parameter } from '../parameter.js';
import type { Tape } from '../tape.js';
import type { Variable } from '../variable.js';

/** A table and the ids that choose its rows. */
export interface EmbeddingLookup {
  /** int32 [S, B]: numbers of rows of the whole table */
  readonly ids: Variable;
  /** [V, H], or the rows of it that this process holds: other rows count as zeros. */
  readonly table: Parameter;
}

/**
 * `[S, B, H]`: the sum of the chosen rows of every table (tokens, positions, token types).
 *
 * @param exchanges where the rows of the first table are spread over processes: the chosen ones are reduced
 *   before those of the other tables are added, and the ids of these are those of the reduced output's
 *   positions
 */
export function embedding(
  tape: Tape,
  lookups: readonly EmbeddingLookup[],
  exchanges: Pick<ProductExchanges, 'reduceOutput' | 'gatherOutputGradient'> = {},
): Variable {
  const [first, ...others] = lookups as [EmbeddingLookup, ...EmbeddingLookup[]];
  const rows = rowsOf(first);
  const reduced = startExchange(exchanges.reduceOutput, rows);
  rows.dispose();
  const output = reduced.wait();
  for (const { ids, table } of others) {
    embeddingForward({
      ...{ output, ids: ids.tensor, accumulate: true },
      ...{ table: table.data, firstRow: table.slices[0]!.start },
    });
  }
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
        const firstGradient = startExchange(exchanges.gatherOutputGradient, outputGradient!);
        others.forEach(({ table }, position) => {
          addTableGradient(table, saved[position + 1]!.tensor, outputGradient!);
        });
        const gradient = firstGradient.wait();
        addTableGradient(first.table, saved[0]!.tensor, gradient);
        gradient.dispose();
        return [];
      },
    };
  });
  return result;
}

function rowsOf({ ids, table }: EmbeddingLookup): Tensor {
  const { dtype, device } = table.data;
  const output = Tensor.empty({ shape: [...ids.tensor.shape, table.shape.at(-1)!], dtype, device });
  embeddingForward({ output, ids: ids.tensor, table: table.data, firstRow: table.slices[0]!.start });
  return output;
}

function addTableGradient(table: Parameter, ids: Tensor, outputGradient: Tensor): void {
  embeddingBackward({
    ...{ tableGradient: table.mainGradient, firstRow: table.slices[0]!.start },
    ...{ outputGradient, ids },
  });
}
