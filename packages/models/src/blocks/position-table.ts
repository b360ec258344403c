/**
 * Constants for every position that layers read, such as the angles of rotary position embeddings. Layers
 * that read the same constants declare the same object (`Sublayer.reads`).
 */
export interface PositionTable {
  /** For errors: `rotary angles`. */
  readonly name: string;
  /** R */
  readonly width: number;
  /** float32 [numPositions, R], row by row; not to be changed. */
  values(numPositions: number): Float32Array;
}
