import { checkedOperation, embeddingBackward, embeddingForward, Tensor } from '@mtl/kernels';
import { type MatmulCollectives, startCollective } from '../collective.js';
import { type Parameter, trainedParameters } from '../parameter.js';
import type { Tape } from '../tape.js';
import type { Variable } from '../variable.js';

/** A table, and the ids of the rows to look up in the table. */
export interface EmbeddingLookup {
  /** int32 [S, B]: row indices of the complete table */
  readonly ids: Variable;
  /** [V, H], or this process's rows. An id whose row is on a different process looks up zeros. */
  readonly table: Parameter;
  /**
   * The number of valid ids; smaller than the number of rows if the last rows are padding. Default: all rows.
   */
  readonly vocabularySize?: number | undefined;
}

/**
 * Looks up the rows of every table (tokens, positions, token types) and adds them. The result is [S, B, H].
 *
 * `collectives` is required if the rows of the first table are sharded over ranks. The rows from the first
 * table are then reduced before the rows of the other tables are added, and the ids of the other tables refer
 * to the positions of the reduced output.
 *
 * @throws KernelError `MTL_INDEX` for an id that is not a row of the complete table
 */
export const embedding = checkedOperation(
  'embedding',
  (
    tape: Tape,
    lookups: readonly EmbeddingLookup[],
    collectives: Pick<MatmulCollectives, 'reduceOutput' | 'gatherOutputGradient'> = {},
  ): Variable => {
    const [first, ...others] = lookups as [EmbeddingLookup, ...EmbeddingLookup[]];
    const rows = copyRows(first);
    const reduced = startCollective(collectives.reduceOutput, rows);
    rows.dispose();
    const output = reduced.wait();
    freeingOnError(output, () => {
      for (const lookup of others) lookUp(lookup, { output, accumulate: true });
    });
    const trained = trainedParameters(...lookups.map(({ table }) => table));
    const result = tape.result(output, { requiresGradient: trained.length > 0 });
    tape.record(result, () => {
      const saved = lookups.map(({ ids }) => tape.save(ids));
      return {
        name: 'embedding',
        inputs: [],
        parameters: trained,
        saved,
        backward: ({ parts, outputGradient }) => {
          if (!parts.weight) return [];
          const firstGradient = startCollective(collectives.gatherOutputGradient, outputGradient!);
          others.forEach((lookup, position) => {
            addTableGradient(lookup, saved[position + 1]!.tensor, outputGradient!);
          });
          const gradient = firstGradient.wait();
          addTableGradient(first, saved[0]!.tensor, gradient);
          gradient.dispose();
          return [];
        },
      };
    });
    return result;
  },
);

function copyRows(lookup: EmbeddingLookup): Tensor {
  const { ids, table } = lookup;
  const { dtype, device } = table.data;
  const output = Tensor.empty({ shape: [...ids.tensor.shape, table.shape.at(-1)!], dtype, device });
  freeingOnError(output, () => lookUp(lookup, { output, accumulate: false }));
  return output;
}

function freeingOnError(tensor: Tensor, body: () => void): void {
  try {
    body();
  } catch (error) {
    tensor.dispose();
    throw error;
  }
}

function lookUp(
  lookup: EmbeddingLookup,
  to: { readonly output: Tensor; readonly accumulate: boolean },
): void {
  embeddingForward({ ...to, ids: lookup.ids.tensor, table: lookup.table.data, ...rowsToChoose(lookup) });
}

/** Returns the index of the first row of this process, and the number of valid ids. */
function rowsToChoose({ table, vocabularySize = table.globalShape[0] }: Omit<EmbeddingLookup, 'ids'>) {
  return { firstRow: table.slices[0]!.start, numRows: vocabularySize };
}

function addTableGradient(lookup: Omit<EmbeddingLookup, 'ids'>, ids: Tensor, outputGradient: Tensor): void {
  if (lookup.table.isFrozen) return;
  const tableGradient = lookup.table.mainGradient;
  embeddingBackward({ tableGradient, outputGradient, ids, ...rowsToChoose(lookup) });
}
