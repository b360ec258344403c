/**
 * The elements [start, end) of one dimension of a global (unsharded) tensor. One slice per dimension makes a
 * box: the part of a tensor that a process holds, or that a file stores.
 */
export interface Slice {
  readonly start: number;
  readonly end: number;
}
