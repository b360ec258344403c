/** Converts between float32 values and the bytes of a type of tensors. */
export interface Codec {
  /** The largest absolute value that the type can hold. */
  readonly maxAbsolute: number;
  /** Returns the bytes of values, whole blocks; may share memory with them. */
  encode(values: Float32Array): Uint8Array;
  /** Fills `values`, whole blocks; absent where the type is only written. */
  decode?(bytes: Uint8Array, values: Float32Array): void;
}

/** The largest finite float16. */
export const maxFloat16 = 65_504;
