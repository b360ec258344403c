/** Characters (UTF-16 units) of a text: `start` is the first one, `end` the one after the last. */
export interface TextSpan {
  readonly start: number;
  readonly end: number;
}
