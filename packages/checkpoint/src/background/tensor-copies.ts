import { bytesOfSlices, type LogicalTensor } from '../logical-tensor.js';
import { isWritten } from '../write-rank-shards.js';

/** A box of a tensor in memory that threads share. */
export interface TensorCopy
  extends Pick<LogicalTensor, 'name' | 'dtype' | 'globalShape' | 'slices' | 'limit'> {
  readonly memory: SharedArrayBuffer;
}

/**
 * Copies of what this rank writes of its tensors. The memory is kept for the next time: with the same tensors
 * nothing is allocated again.
 */
export class TensorCopies {
  #memory: readonly SharedArrayBuffer[] = [];

  async take(tensors: readonly LogicalTensor[]): Promise<readonly TensorCopy[]> {
    const written = tensors.filter(isWritten);
    const before = this.#memory;
    this.#memory = written.map(({ dtype, slices }, index) => {
      const bytes = bytesOfSlices(dtype, slices);
      return before[index]?.byteLength === bytes ? before[index] : new SharedArrayBuffer(bytes);
    });
    const copies = written.map(({ name, dtype, globalShape, slices, limit }, index) => {
      const box = { name, dtype, globalShape, slices, ...(limit === undefined ? {} : { limit }) };
      return { ...box, memory: this.#memory[index]! };
    });
    for (const [index, tensor] of written.entries()) {
      const target = new Uint8Array(copies[index]!.memory);
      if (tensor.readInto === undefined) target.set(await tensor.read());
      else await tensor.readInto(target);
    }
    return copies;
  }
}
