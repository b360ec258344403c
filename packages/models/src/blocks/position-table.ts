/**
 * Constants for every position that layers read, such as the angles of rotary position embeddings. A layer
 * declares those that it reads (`Sublayer.reads`).
 */
export interface PositionTable {
  /** Which constants they are: tables of one name have the same values. */
  readonly name: string;
  /** R */
  readonly width: number;
  /** float32 [numPositions, R], row by row; those of fewer positions are the first of these rows. */
  values(numPositions: number): Float32Array;
}
