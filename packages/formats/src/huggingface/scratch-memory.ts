/** Gives memory for values; what is in it is left over from before. */
export type AllocateFloats = (length: number) => Float32Array;

/**
 * Memory for the copies that one tensor takes on its way, used again for the next one: fresh arrays would
 * wait for the garbage collector, and add up. It is only resident as far as it has been written to.
 */
export class ScratchMemory {
  readonly #buffer: ArrayBuffer;
  #used = 0;

  /**
   * `bytes`: of what is taken between two calls of `reset`, at most. What goes beyond it is allocated apart.
   */
  constructor(bytes: number) {
    this.#buffer = new ArrayBuffer(bytes);
  }

  /** From here on everything that was taken may be overwritten. */
  reset(): void {
    this.#used = 0;
  }

  /** On a boundary of 8 bytes; what is in it is left over from before. */
  bytes(length: number): Uint8Array {
    const start = this.#used;
    const end = start + Math.ceil(length / 8) * 8;
    if (end > this.#buffer.byteLength) return new Uint8Array(length);
    this.#used = end;
    return new Uint8Array(this.#buffer, start, length);
  }

  readonly floats: AllocateFloats = (length) => {
    const { buffer, byteOffset } = this.bytes(4 * length);
    return new Float32Array(buffer, byteOffset, length);
  };
}
