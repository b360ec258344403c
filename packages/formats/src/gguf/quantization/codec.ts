/** Converts between float32 values and the bytes of a GGUF tensor type. */
export interface Codec {
  /** The largest magnitude that the type can represent. */
  readonly maxAbsolute: number;
  /**
   * Returns the bytes that store `values`, which must form complete blocks. The result may share memory with
   * `values`.
   */
  encode(values: Float32Array): Uint8Array;
  /**
   * Decodes bytes into `values`, which must have room for complete blocks. Absent for types that are only
   * written.
   */
  decode?(bytes: Uint8Array, values: Float32Array): void;
}

/** The largest finite float16. */
export const maxFloat16 = 65_504;
