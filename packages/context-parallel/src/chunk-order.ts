import { cast, Tensor } from '@mtl/kernels';
import { chunkSlice, chunksOfRank } from './sequence-chunks.js';

/** Copies rows of the first dimension, contiguous in both. */
function copyChunk(
  { from, to }: { readonly from: Tensor; readonly to: Tensor },
  { fromChunk, toChunk, chunkSize }: Record<'fromChunk' | 'toChunk' | 'chunkSize', number>,
): void {
  const [source, target] = [chunkSlice(fromChunk, chunkSize), chunkSlice(toChunk, chunkSize)];
  using input = from.rows(source.start, source.end);
  using output = to.rows(target.start, target.end);
  cast({ output, input });
}

/** Where the chunks of processes lie one process after the other, by their order in the sequence. */
const placesOf = (size: number): ReadonlyArray<{ readonly place: number; readonly chunk: number }> =>
  Array.from({ length: size }, (_, rank) => chunksOfRank(rank, size))
    .flat()
    .map((chunk, place) => ({ place, chunk }));

/** [S, ...] in the order of the sequence, of rows that lie one process after the other. */
export function inSequenceOrder(byProcess: Tensor, size: number): Tensor {
  const { shape, dtype, device } = byProcess;
  const result = Tensor.empty({ shape, dtype, device });
  const chunkSize = shape[0]! / (2 * size);
  for (const { place, chunk } of placesOf(size)) {
    copyChunk({ from: byProcess, to: result }, { fromChunk: place, toChunk: chunk, chunkSize });
  }
  return result;
}

/** [S, ...] one process after the other, of rows in the order of the sequence. */
export function inProcessOrder(sequence: Tensor, size: number): Tensor {
  const { shape, dtype, device } = sequence;
  const result = Tensor.empty({ shape, dtype, device });
  const chunkSize = shape[0]! / (2 * size);
  for (const { place, chunk } of placesOf(size)) {
    copyChunk({ from: sequence, to: result }, { fromChunk: chunk, toChunk: place, chunkSize });
  }
  return result;
}
